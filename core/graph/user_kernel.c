/* The user kernel G (user_kernel.h)  [LK, Thm 2.1].
 *
 *   letter    shape           meaning
 *   n                         nodes of the graph
 *   w, rho                    `population` weight of the virtual node p, ridge
 *   B         n x n           L + (rho + w) I
 *   G         n x n           the nodes' part of (L + rho I)^-1 over the graph with p
 *   c, v                      of a user hung on p alone:  c = w / (w + rho),  v = 1 / (w + rho)
 *   s                         c^2 G_pp, what any two users share through p
 *
 * p needs no solving. Eliminating it from A = [B, -w 1; -w 1^T, n w + rho] leaves
 *     G = B^-1 + G_pp (w B^-1 1)(w B^-1 1)^T,
 * and B 1 = (rho + w) 1 because L 1 = 0. Hence w B^-1 1 = c 1 and
 *     G = B^-1 + s 1 1^T,   s = c^2 G_pp,   G_pp = 1 / (n w + rho - n w c) = (rho + w) / (rho (n w + w + rho)).
 * Both terms are positive, so nothing cancels, and B is far
 * better conditioned than A: under laplaced-kors its ridge is 1.01 where A's is 0.01 (test:
 * dense_form_equals_the_joint_covariance_with_strangers, which has p as a node).
 *
 * A stranger u (unknown to the graph) given f(p) is N(c f(p), v), independent of everybody else. Hence
 *     G_uu = s + v,   G_uz = s for another stranger z,   G_uj = c G_pj = c^2 G_pp = s for a node j:
 * an isolated node of B, no more. Without population s = 0 and v = 1 / rho.
 * Deviation: [LK] has every user in the graph; a stranger who joined the graph as a node would move G_pp a little.
 * Here p does not feel strangers, so the kernel stays fixed (test: unknown_users_do_not_move_the_kernel).
 *
 * Powers other than 1, heat and spectral_rbf: G comes from user_spectral.c, s = 0 and v is an isolated user's G_uu.
 *
 * mmd: G over the users embedded (user_embedding.c), each at his place as if it were his node; everybody else is a
 * stranger of s = 0, v = 1. Until it has learned from a history, that is everybody.
 *
 * Three ways to hold G:
 *   trivial   ones, identity: nothing is held
 *   dense     n <= KB_GRAPH_DENSE_MAX: the whole inverse, once; O(n^3) time, 8 n^2 bytes
 *   columns   larger, tolerance 0: a column of n doubles for each anchor, by conjugate gradients on B; diagonal
 *             entries of other users are solved when asked for and cached
 *   near      larger: the entries of a column that are not negligible, by laplacian_push.c, or where a column does
 *             not decay by conjugate gradients that stop early. Residuals end below tolerance / 2, so x misses by at
 *             most half of tolerance / (rho + w); entries of x below the other half are left out and read as 0 (test:
 *             near_columns_keep_the_promised_error)
 *
 * Determinism: a diagonal entry is a function of its node alone, whoever asks first and in whatever company
 * (laplacian_cg.c), and an anchor's column carries that very value on its diagonal, so k(s, s) is the same number
 * by diag and by row. A normalised G_uu is then exactly 1: sqrt(g g) = g in IEEE arithmetic. */
#include "graph/user_kernel.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/chol.h"
#include "linalg/clones.h"
#include "graph/user_kernel_impl.h"
#include "graph/user_spectral.h"

#define LEAST_TOLERANCE 1e-9 /* below, whole columns are no more work */
#define DOUBTFUL_UNITS 1e3   /* rho in units of n eps e_max: what user_spectral.c asks for, more than a factor does */
#define LOST_UNITS 32.0      /* in units of eps e_max: rounding of the degrees alone is a part of rho */

/* --- making ---------------------------------------------------------------------------------------- */

/* B^-1 whole, then s on every entry. */
static enum kb_err build_dense(struct kb_user_kernel *k, const struct kb_graph *graph)
{
    enum kb_err rc = KB_OK;
    k->g = kb_array(k->n, k->n, sizeof *k->g);
    if (k->g == NULL)
        return KB_ENOMEM;
    if (graph != NULL) {
        kb_graph_dense(graph, k->spec.rho + k->spec.population, 0.0, k->g);
        rc = kb_spd_inverse(k->n, k->g);
    }
    for (size_t i = 0; rc == KB_OK && i < k->n * k->n; i++)
        k->g[i] += k->shared;
    return rc;
}

/* Prepares the solver; columns come with anchors. */
static enum kb_err build_columns(struct kb_user_kernel *k, const struct kb_graph *graph)
{
    enum kb_err rc = kb_cg_init(&k->cg, graph, k->spec.rho + k->spec.population, 0.0);
    if (rc != KB_OK)
        return rc;
    k->diag = kb_array(k->n, 1, sizeof *k->diag);
    for (size_t i = 0; k->diag != NULL && i < k->n; i++)
        atomic_init(&k->diag[i], (double)NAN);
    if (k->form == KB_FORM_NEAR)
        kb_cg_stop_at(&k->cg, kb_user_kernel_limit(k));
    return k->diag != NULL ? KB_OK : KB_ENOMEM;
}

/* Kernels made from eigenvectors rather than by solving with L + rho I. */
static bool is_spectral(const struct kb_user_kernel_spec *spec)
{
    return kb_user_kernel_reads_graph(spec->type) && (spec->type != KB_USER_LAPLACIAN || spec->power != 1.0);
}

enum kb_err kb_user_kernel_check(const struct kb_user_kernel_spec *spec, size_t n, const char *pointer,
                                 struct kb_errmsg *msg)
{
    if (n <= KB_GRAPH_DENSE_MAX || !is_spectral(spec))
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, pointer,
                   "the user kernel %s (power %g) needs a graph of at most %u users; this one has %zu",
                   kb_word(&kb_user_kernel_words, (int)spec->type), spec->power, KB_GRAPH_DENSE_MAX, n);
}

/* How far rounding takes the eigenvalues of L, by their bound of twice the largest degree. */
static double rounding_of(const struct kb_graph *graph)
{
    return DBL_EPSILON * 2 * kb_graph_degrees(graph).max;
}

/* Up to where theory promises a dense form, it is tried. */
static bool is_doubtful(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph)
{
    const double rounding = (double)kb_graph_n_nodes(graph) * rounding_of(graph);
    if (kb_graph_n_nodes(graph) > KB_GRAPH_DENSE_MAX)
        return false;
    return spec->type == KB_USER_HEAT ? spec->tau * rounding > 1
                                      : spec->rho + spec->population < DOUBTFUL_UNITS * rounding;
}

/* Where rounding of the degrees alone is a part of rho, what a factor gives is noise, and conjugate gradients do not
 * converge. */
enum kb_err kb_user_kernel_check_solvable(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph,
                                          const char *pointer, struct kb_errmsg *msg)
{
    struct kb_user_kernel *trial = NULL;
    enum kb_err rc = KB_OK;
    if (graph == NULL || (spec->type != KB_USER_LAPLACIAN && spec->type != KB_USER_HEAT))
        return KB_OK;
    if (spec->type == KB_USER_LAPLACIAN && spec->rho + spec->population < LOST_UNITS * rounding_of(graph))
        rc = KB_ENOTPD;
    else if (is_doubtful(spec, graph))
        rc = kb_user_kernel_new(&trial, spec, graph, (struct kb_hash_key){0}); /* its table stays empty */
    kb_user_kernel_free(trial);
    if (rc != KB_ENOTPD)
        return rc;
    return kb_fail(KB_EUNSUPPORTED, msg, pointer,
                   "double precision cannot solve this kernel on a graph where a user's edges weigh %g together: "
                   "rho is too small beside that, or tau too large",
                   kb_graph_degrees(graph).max);
}

/* The only place where the size of the graph decides how G is held. */
static enum kb_user_form choose_form(const struct kb_user_kernel_spec *spec, size_t n)
{
    if (spec->type == KB_USER_ONES)
        return KB_FORM_ONES;
    if (spec->type == KB_USER_IDENTITY)
        return KB_FORM_IDENTITY;
    if (kb_user_kernel_is_learned(spec->type))
        return KB_FORM_DENSE;
    if (n <= KB_GRAPH_DENSE_MAX || is_spectral(spec))
        return KB_FORM_DENSE;
    return spec->tolerance >= LEAST_TOLERANCE ? KB_FORM_NEAR : KB_FORM_COLUMNS;
}

/* A stranger is an isolated user, and nobody shares through p. */
static enum kb_err build_spectral(struct kb_user_kernel *k, const struct kb_graph *graph)
{
    k->own = kb_user_spectral_isolated(&k->spec);
    k->g = kb_array(k->n, k->n, sizeof *k->g);
    return k->g != NULL ? kb_user_spectral(&k->spec, graph, k->g) : KB_ENOMEM;
}

/* Constants of strangers, then G. */
static enum kb_err build_laplacian(struct kb_user_kernel *k, const struct kb_graph *graph)
{
    double w = k->spec.population, rho = k->spec.rho, c = w / (w + rho);
    assert(rho > 0.0 && w >= 0.0);
    k->own = 1.0 / (w + rho);
    k->shared = c * c * (w + rho) / (rho * ((double)k->n * w + w + rho));
    return k->form == KB_FORM_DENSE ? build_dense(k, graph) : build_columns(k, graph);
}

enum kb_err kb_user_kernel_new(struct kb_user_kernel **out, const struct kb_user_kernel_spec *spec,
                               const struct kb_graph *graph, struct kb_hash_key key)
{
    size_t n = graph != NULL && !kb_user_kernel_is_learned(spec->type) ? kb_graph_n_nodes(graph) : 0;
    enum kb_err rc = kb_user_kernel_check(spec, n, "", NULL);
    if (rc != KB_OK)
        return rc;
    struct kb_user_kernel *k = kb_array(1, 1, sizeof *k);
    if (k == NULL)
        return KB_ENOMEM;
    k->spec = *spec;
    k->n = n;
    k->own = 1.0;
    k->form = choose_form(spec, k->n);
    kb_anchors_init(&k->anchors, k->n, key);
    k->n_owners = kb_array(1, 1, sizeof *k->n_owners);
    rc = k->n_owners != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    *k->n_owners = 1;
    if (kb_user_kernel_reads_graph(spec->type))
        KB_TRY(is_spectral(spec) ? build_spectral(k, graph) : build_laplacian(k, graph));
    *out = k;
    k = NULL;
out:
    kb_user_kernel_free(k);
    return rc;
}

/* Everything but the anchors, which other's writer may be at, is the same memory. */
enum kb_err kb_user_kernel_new_like(struct kb_user_kernel **out, const struct kb_user_kernel *other)
{
    struct kb_user_kernel *k = kb_array(1, 1, sizeof *k);
    if (k == NULL)
        return KB_ENOMEM;
    assert(!kb_user_kernel_is_learned(other->spec.type)); /* what a kernel has learned has one owner */
    k->spec = other->spec;
    k->form = other->form;
    k->n = other->n;
    k->shared = other->shared;
    k->own = other->own;
    k->g = other->g;
    k->cg = other->cg;
    k->diag = other->diag;
    k->n_owners = other->n_owners;
    kb_anchors_init(&k->anchors, k->n, other->anchors.key);
    ++*k->n_owners;
    *out = k;
    return KB_OK;
}

bool kb_user_kernel_is_of(const struct kb_user_kernel *k, const struct kb_user_kernel_spec *spec)
{
    const struct kb_user_kernel_spec *own = &k->spec;
    if (own->type != spec->type || kb_user_kernel_is_learned(own->type))
        return false;
    return !kb_user_kernel_reads_graph(own->type) ||
           (own->rho == spec->rho && own->population == spec->population && own->is_normalized == spec->is_normalized &&
            own->tolerance == spec->tolerance && own->power == spec->power && own->tau == spec->tau &&
            own->n_vectors == spec->n_vectors && own->lengthscale == spec->lengthscale);
}

/* Works on a half-built kernel, which has no count when that was what could not be had. */
void kb_user_kernel_free(struct kb_user_kernel *k)
{
    if (k == NULL)
        return;
    kb_anchors_close(&k->anchors);
    kb_user_embedding_close(&k->learned);
    if (k->n_owners != NULL && --*k->n_owners == 0) {
        kb_cg_close(&k->cg);
        kb_free((void *)k->diag);
        kb_free(k->g);
        kb_free((void *)k->n_owners);
    }
    kb_free(k);
}

/* Work of the solvers, nothing where there is none: 1.3 MB at 41,773 nodes for conjugate gradients, whose pages are
 * taken when they are first needed; 1 MB for pushes. */
enum kb_err kb_user_scratch_new(struct kb_user_scratch **out, const struct kb_user_kernel *k)
{
    struct kb_user_scratch *s = kb_array(1, 1, sizeof *s);
    if (s == NULL)
        return KB_ENOMEM;
    enum kb_err rc = kb_user_kernel_solves(k) ? kb_cg_work_init(&s->work, k->n, 1) : KB_OK;
    if (rc == KB_OK && k->form == KB_FORM_NEAR)
        rc = kb_push_init(&s->push, k->n);
    if (rc != KB_OK)
        kb_user_scratch_free(s);
    else
        *out = s;
    return rc;
}

void kb_user_scratch_free(struct kb_user_scratch *s)
{
    if (s == NULL)
        return;
    kb_cg_work_close(&s->work);
    kb_push_close(&s->push);
    kb_free(s);
}

bool kb_user_scratch_fits(const struct kb_user_scratch *s, const struct kb_user_kernel *k)
{
    return s != NULL && (!kb_user_kernel_solves(k) || s->work.order == k->n) &&
           (k->form != KB_FORM_NEAR || s->push.n == k->n);
}

/* --- diagonal -------------------------------------------------------------------------------------- */

uint32_t kb_user_kernel_row(const struct kb_user_kernel *k, struct kb_user u)
{
    return k->form == KB_FORM_ONES ? 0 : u.index;
}

bool kb_user_kernel_is_ones(const struct kb_user_kernel *k)
{
    return k->form == KB_FORM_ONES;
}

double kb_user_kernel_known_diag(const struct kb_user_kernel *k, struct kb_user u)
{
    if (is_stranger(u))
        return k->shared + k->own;
    assert(u.node < k->n);
    if (k->form == KB_FORM_DENSE)
        return k->g[(size_t)u.node * (k->n + 1)];
    return atomic_load_explicit(&k->diag[u.node], memory_order_relaxed);
}

/* Solves and caches also when normalised: a row divides by the raw value. */
double kb_user_kernel_diag(const struct kb_user_kernel *k, struct kb_user u, struct kb_user_scratch *s)
{
    if (k->form == KB_FORM_ONES || k->form == KB_FORM_IDENTITY)
        return 1.0;
    double diag = kb_user_kernel_known_diag(k, kb_user_placed(k, u));
    if (isnan(diag)) {
        assert(kb_user_scratch_fits(s, k));
        diag = kb_user_kernel_solve_diag(k, u.node, s) + k->shared;
        /* Two readers who meet here store the same bits. */
        atomic_store_explicit(&k->diag[u.node], diag, memory_order_relaxed);
    }
    return k->spec.is_normalized ? 1.0 : diag;
}

size_t kb_user_kernel_diag_cache(const struct kb_user_kernel *k, double *out, size_t max)
{
    if (!kb_user_kernel_solves(k))
        return 0;
    for (size_t i = 0; i < k->n && i < max; i++)
        out[i] = atomic_load_explicit(&k->diag[i], memory_order_relaxed);
    return k->n;
}

#define LEAST_DIAGONAL 1e-100 /* products of two are numbers; what is solved is far above, weights being bounded */

/* A cache only saves time: values that cannot be a diagonal entry are ignored and solved again. */
void kb_user_kernel_set_diag_cache(struct kb_user_kernel *k, const double *values, size_t n)
{
    if (!kb_user_kernel_solves(k))
        return;
    for (size_t i = 0; i < k->n && i < n; i++)
        if (values[i] >= LEAST_DIAGONAL && values[i] <= 1 / LEAST_DIAGONAL)
            atomic_store_explicit(&k->diag[i], values[i], memory_order_relaxed);
}

/* --- values ---------------------------------------------------------------------------------------- */

/* G_uv, u and v of which at least one is a stranger: the same index is then the same stranger. */
static double stranger_value(const struct kb_user_kernel *k, struct kb_user u, struct kb_user v)
{
    return k->shared + (u.index == v.index ? k->own : 0.0);
}

/* Value before normalisation against the k-th anchor of a panel. */
static double raw_value(const struct kb_user_kernel *k, struct kb_user u, const struct kb_anchor_panel *panel,
                        size_t at)
{
    struct kb_user v = panel->user[at];
    switch (k->form) {
    case KB_FORM_ONES:
        return 1.0;
    case KB_FORM_IDENTITY:
        return u.index == v.index ? 1.0 : 0.0;
    case KB_FORM_DENSE:
    case KB_FORM_COLUMNS:
    case KB_FORM_NEAR:
        break;
    }
    if (is_stranger(u) || is_stranger(v))
        return stranger_value(k, u, v);
    if (k->form == KB_FORM_NEAR)
        return kb_near_column_at(&panel->near[at], u.node) + k->shared;
    return k->form == KB_FORM_DENSE ? k->g[(size_t)u.node * k->n + v.node]
                                    : panel->column[(size_t)u.node * KB_CG_PANEL + at];
}

bool kb_user_kernel_has_pairs(const struct kb_user_kernel *k)
{
    return !kb_user_kernel_solves(k);
}

double kb_user_kernel_pair(const struct kb_user_kernel *k, struct kb_user u, struct kb_user v)
{
    assert(kb_user_kernel_has_pairs(k));
    if (k->form == KB_FORM_ONES)
        return 1.0;
    if (k->form == KB_FORM_IDENTITY)
        return u.index == v.index ? 1.0 : 0.0;
    u = kb_user_placed(k, u), v = kb_user_placed(k, v);
    double value = is_stranger(u) || is_stranger(v) ? stranger_value(k, u, v) : k->g[(size_t)u.node * k->n + v.node];
    return k->spec.is_normalized ? value / sqrt(kb_user_kernel_known_diag(k, u) * kb_user_kernel_known_diag(k, v))
                                 : value;
}

size_t kb_user_kernel_n_anchors(const struct kb_user_kernel *k)
{
    return k->anchors.n;
}

#define ROW_STRETCH ((size_t)64) /* values of a row that are scaled at once */
#define ROW_LINE ((size_t)8)     /* of the cache */

/* out /= sqrt(square), entry by entry: by vectors, since a row would wait for each of them in turn. */
KB_HOT static void divide_by_roots(size_t n, const double *restrict square, double *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] /= sqrt(square[i]);
}

/* Values before normalisation of the anchors first..first+m-1 (slots NULL) or those that are named, and what their
 * squares are divided by. A dense G is read here, value by value: a switch for each would cost more than they do. */
static void raw_values(const struct kb_user_kernel *k, struct kb_user u, double own, const uint32_t *slots,
                       size_t first, size_t m, double *out, double *square)
{
    const bool is_dense = k->form == KB_FORM_DENSE && !is_stranger(u);
    const double *row = is_dense ? k->g + (size_t)u.node * k->n : NULL;
    for (size_t i = 0; i < m; i++) {
        const size_t slot = slots != NULL ? slots[first + i] : first + i, at = slot % KB_CG_PANEL;
        const struct kb_anchor_panel *panel = k->anchors.panel[slot / KB_CG_PANEL];
        const uint32_t node = panel->user[at].node;
        out[i] = is_dense && node != KB_ID_NONE ? row[node] : raw_value(k, u, panel, at);
        square[i] = own * panel->diag[at];
    }
}

/* Anchors stand in any order, so values are met across the row, and each line of it would be waited for. For few
 * anchors that are fewer lines than the row has. */
static void fetch_row(const struct kb_user_kernel *k, struct kb_user u)
{
    const double *row = k->g + (size_t)u.node * k->n;
    for (size_t i = 0; i < k->n; i += ROW_LINE)
        __builtin_prefetch(row + i);
}

/* `diag` proves that the caller has asked for it: that is what puts the value a normalised row divides by into
 * the cache. */
void kb_user_kernel_row_at(const struct kb_user_kernel *k, struct kb_user u, double diag, const uint32_t *slots,
                           size_t n, double *out)
{
    assert(diag > 0.0);
    u = kb_user_placed(k, u);
    const bool is_scaled = k->spec.is_normalized && k->form != KB_FORM_ONES && k->form != KB_FORM_IDENTITY;
    const double own = is_scaled ? kb_user_kernel_known_diag(k, u) : 1.0;
    assert(own > 0.0);
    if (slots == NULL && k->form == KB_FORM_DENSE && !is_stranger(u) && n >= k->n / ROW_LINE)
        fetch_row(k, u);
    for (size_t first = 0; first < n; first += ROW_STRETCH) {
        const size_t m = n - first < ROW_STRETCH ? n - first : ROW_STRETCH;
        double square[ROW_STRETCH];
        raw_values(k, u, own, slots, first, m, out + first, square);
        if (is_scaled)
            divide_by_roots(m, square, out + first);
    }
}

/* --- learned kernels --------------------------------------------------------------------------------- */

/* Takes the embeddings over with G of them, or leaves both alone. */
static enum kb_err take_learned(struct kb_user_kernel *k, struct kb_user_embedding *m)
{
    double *g = kb_array(m->n + 1, m->n + 1, sizeof *g);
    if (g == NULL)
        return KB_ENOMEM;
    kb_user_embedding_gram(m, g);
    kb_free(k->g);
    kb_user_embedding_close(&k->learned);
    k->g = g;
    k->n = m->n;
    k->learned = *m;
    *m = (struct kb_user_embedding){0};
    return KB_OK;
}

/* Into a copy first: a posterior whose kernel has half learned could not be told from one that has. Anchors carry the
 * places of their users, hence none may be there yet. */
enum kb_err kb_user_kernel_learn(struct kb_user_kernel *k, uint64_t seed, size_t dim, const struct kb_history *h)
{
    struct kb_user_embedding m = {0};
    enum kb_err rc = KB_OK;
    if (!kb_user_kernel_is_learned(k->spec.type))
        return KB_OK;
    assert(k->anchors.n == 0 && k->anchors.n_staged == 0);
    KB_TRY(kb_user_embedding_learn(&m, &k->spec, seed, dim, h));
    KB_TRY(take_learned(k, &m));
out:
    kb_user_embedding_close(&m);
    return rc;
}

/* Kernels over a graph are functions of what the engine digests anyway. */
uint64_t kb_user_kernel_digest(const struct kb_user_kernel *k, uint64_t h)
{
    return kb_user_kernel_is_learned(k->spec.type) ? kb_user_embedding_digest(&k->learned, h) : h;
}

/* Other kernels write nothing, not even a count: the type stands in the specification. */
void kb_user_kernel_save(const struct kb_user_kernel *k, struct kb_writer *w)
{
    if (kb_user_kernel_is_learned(k->spec.type))
        kb_user_embedding_save(&k->learned, w);
}

/* G is a function of the embeddings and is computed again. */
enum kb_err kb_user_kernel_load(struct kb_user_kernel *k, struct kb_reader *r)
{
    struct kb_user_embedding m = {0};
    enum kb_err rc = KB_OK;
    if (!kb_user_kernel_is_learned(k->spec.type))
        return KB_OK;
    assert(k->anchors.n == 0);
    KB_TRY(kb_user_embedding_load(&m, k->spec.n_features, r));
    KB_TRY(take_learned(k, &m));
out:
    kb_user_embedding_close(&m);
    return rc;
}

size_t kb_user_kernel_bytes(const struct kb_user_kernel *k)
{
    size_t bytes = sizeof *k + kb_anchors_bytes(&k->anchors);
    bytes += k->learned.n * (sizeof *k->learned.user + k->learned.n_features * sizeof *k->learned.mean);
    return bytes + kb_user_kernel_shared_bytes(k);
}

size_t kb_user_kernel_shared_bytes(const struct kb_user_kernel *k)
{
    const size_t solves = kb_user_kernel_solves(k) ? k->n * (sizeof *k->diag + sizeof *k->cg.inverse_diagonal) : 0;
    return solves + (k->form == KB_FORM_DENSE ? k->n * k->n * sizeof *k->g : 0);
}
