/* The product kernel on points s = (user u, context c, arm x).
 *
 *   k(s, s') = G[u, u'] kc(c, c') kx(x, x')                                        [LK, sec. 2]
 *
 * A column of kernel values starts as the user row G[u, anchors] and is multiplied by the context factor and then
 * by the arm factor, each in one pass over the support. In a decision all candidates share user and context, so
 * that part is computed once (`base`) and only the arm factor is per candidate; for arms of the catalogue it is kept
 * (arm_columns.h).
 *
 * Arms are compared by features, except under `delta`, where they are compared by identity: two arms of equal
 * features are one point to an rbf kernel and two points to delta. `kb_kernel_same` and `kb_kernel_hash` follow
 * suit, so the exact posterior recognises as one whatever the kernel cannot tell apart.
 *
 * Under a rule that learns by levels the level is one more factor, [level == level']: one posterior then holds the
 * independent data of all levels, and a prediction is made at a level.
 *
 * Under a normalised user kernel every value needs the users' own diagonal G_uu, which for large graphs is a
 * linear system per user not met before (kb_user_kernel_diag caches it).
 *
 * Cost: a column O(n (dim + 1)); a block of C candidates O(n (context_dim + C (arm_dim + 1))), O(n (context_dim + C))
 * where their factors are kept. */
#include "kernel/kernel.h"

#include <assert.h>
#include <string.h>

#include "kernel/arm_columns.h"
#include "linalg/clones.h"
#include "vector/vec_kernel.h"

static void set_components(struct kb_kernel *k, const struct kb_spec *spec)
{
    k->is_sum = spec->repr.type == KB_REPR_BY_COMPONENT;
    if (k->is_sum)
        kb_components_init(&k->sum, spec, k->user, &k->context);
}

/* The user kernel is the only part that is more than parameters. */
enum kb_err kb_kernel_init(struct kb_kernel *k, const struct kb_spec *spec, const struct kb_graph *graph,
                           struct kb_hash_key key)
{
    struct kb_user_kernel *user = NULL;
    const bool reads_graph = kb_user_kernel_reads_graph(spec->user_kernel.type);
    enum kb_err rc = kb_user_kernel_new(&user, &spec->user_kernel, graph, key);
    if (rc != KB_OK)
        return rc;
    *k = (struct kb_kernel){
        .user = user,
        .context = spec->context_kernel,
        .arm = spec->arm_kernel,
        .context_dim = spec->context_dim,
        .arm_dim = spec->arm_dim,
        .key = key,
        .arm_factor = kb_keyed_str(key, "arm") | 1,
        .seed = spec->seed,
        .n_nodes = graph != NULL ? kb_graph_n_nodes(graph) : 0,
        .reads_nodes = reads_graph,
        .is_user_normalized = reads_graph && spec->user_kernel.is_normalized,
        .has_levels = kb_rule_reads_levels(spec->rule.type),
    };
    set_components(k, spec);
    return KB_OK;
}

/* Dimensions never differ within a history, so only the vectors' kernels are taken from the spec. */
enum kb_err kb_kernel_init_like(struct kb_kernel *k, const struct kb_spec *spec, const struct kb_kernel *other)
{
    struct kb_user_kernel *user = NULL;
    enum kb_err rc = kb_user_kernel_new_like(&user, other->user);
    if (rc != KB_OK)
        return rc;
    *k = *other;
    k->user = user;
    k->context = spec->context_kernel;
    k->arm = spec->arm_kernel;
    set_components(k, spec);
    return KB_OK;
}

void kb_kernel_close(struct kb_kernel *k)
{
    kb_user_kernel_free(k->user);
    k->user = NULL;
}

/* Contexts stand first in a row of the history, so either way it is the row's beginning. */
enum kb_err kb_kernel_learn_users(struct kb_kernel *k, const struct kb_history *h)
{
    return kb_user_kernel_learn(k->user, k->seed, k->context_dim > 0 ? k->context_dim : k->arm_dim, h);
}

/* --- factors ----------------------------------------------------------------------------------------- */

/* delta on arms is about identity; on contexts it is about coordinates (vec_kernel.c). */
static bool compares_arm_ids(const struct kb_kernel *k)
{
    return k->arm.type == KB_VEC_DELTA;
}

/* kx(x, x): 1 for an arm against itself under delta, whatever its id. */
static double arm_diag(const struct kb_kernel *k, const double *features)
{
    return compares_arm_ids(k) ? 1.0 : kb_vec_kernel_value(&k->arm, k->arm_dim, features, features);
}

/* out[i] *= kc(context_i, context). */
static void scale_contexts(const struct kb_kernel *k, const struct kb_support *s, size_t n, const double *context,
                           double *out)
{
    if (n > 0)
        kb_vec_kernel_scale(&k->context, k->context_dim, s->x, s->dim, n, context, out);
}

/* out[i] *= kx(arm_i, arm). */
static void scale_arms(const struct kb_kernel *k, const struct kb_support *s, size_t n, uint32_t arm,
                       const double *features, double *out)
{
    if (n > 0 && !compares_arm_ids(k)) {
        kb_vec_kernel_scale(&k->arm, k->arm_dim, s->x + k->context_dim, s->dim, n, features, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = s->arm[i] == arm ? out[i] : 0.0;
}

/* The same for candidates c0..c0+n_c-1, a column of out each. */
static void scale_arms_many(const struct kb_kernel *k, const struct kb_support *s, size_t n,
                            const struct kb_candidates *cand, size_t c0, size_t n_c, double *out, size_t ld)
{
    if (n > 0 && n_c > 0 && !compares_arm_ids(k) && cand->features != NULL) {
        const struct kb_vec_points points = {.x = s->x + k->context_dim,
                                             .stride = s->dim,
                                             .n = n,
                                             .marks = s->marks,
                                             .n_words = kb_vec_mark_words(s->dim),
                                             .skip = k->context_dim};
        kb_vec_kernel_scale_many(&k->arm, k->arm_dim, &points, cand->features + c0, n_c, out, ld);
        return;
    }
    for (size_t c = 0; c < n_c; c++)
        scale_arms(k, s, n, cand->arms[c0 + c], cand->features != NULL ? cand->features[c0 + c] : NULL, out + c * ld);
}

/* out[i] *= [level_i == level]: the data of a level know nothing of another's. */
static void scale_levels(const struct kb_kernel *k, const struct kb_support *s, size_t n, uint32_t level, double *out)
{
    if (!k->has_levels)
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = s->level[i] == level ? out[i] : 0.0;
}

/* --- points ------------------------------------------------------------------------------------------ */

double kb_kernel_diag(const struct kb_kernel *k, const struct kb_point *p, struct kb_scratch *s)
{
    double value = kb_user_kernel_diag(k->user, p->user, s->user);
    if (k->is_sum)
        return kb_components_diag(&k->sum, value, p->x, arm_diag(k, p->x + k->context_dim), p->part);
    value *= kb_vec_kernel_value(&k->context, k->context_dim, p->x, p->x);
    return value * arm_diag(k, p->x + k->context_dim);
}

double kb_kernel_pair(const struct kb_kernel *k, const struct kb_point *a, const struct kb_point *b)
{
    return kb_kernel_of_user(k, kb_user_kernel_pair(k->user, a->user, b->user), a, b);
}

double kb_kernel_of_user(const struct kb_kernel *k, double value, const struct kb_point *a, const struct kb_point *b)
{
    assert(!k->is_sum);
    value *= kb_vec_kernel_value(&k->context, k->context_dim, a->x, b->x);
    if (compares_arm_ids(k))
        return a->arm == b->arm ? value : 0.0;
    return value * kb_vec_kernel_value(&k->arm, k->arm_dim, a->x + k->context_dim, b->x + k->context_dim);
}

/* Equal as numbers, in step with hash_coordinates. */
static bool same_coordinates(size_t n, const double *a, const double *b)
{
    for (size_t d = 0; d < n; d++) {
        if (a[d] != b[d])
            return false;
    }
    return true;
}

bool kb_kernel_ignores(const struct kb_kernel *k, const struct kb_point *p)
{
    return k->has_levels && p->level == 0;
}

/* A factor that does not look at a coordinate does not tell points apart by it. */
bool kb_kernel_same(const struct kb_kernel *k, const struct kb_point *a, const struct kb_point *b)
{
    if (kb_user_kernel_row(k->user, a->user) != kb_user_kernel_row(k->user, b->user))
        return false;
    if (k->has_levels && a->level != b->level)
        return false;
    if (k->context.type != KB_VEC_ONES && !same_coordinates(k->context_dim, a->x, b->x))
        return false;
    if (compares_arm_ids(k))
        return a->arm == b->arm;
    return k->arm.type == KB_VEC_ONES || same_coordinates(k->arm_dim, a->x + k->context_dim, b->x + k->context_dim);
}

bool kb_kernel_is_of_arms(const struct kb_kernel *k)
{
    return kb_user_kernel_is_ones(k->user) && !k->has_levels && k->context.type == KB_VEC_ONES && compares_arm_ids(k);
}

static void hash_coordinates(struct kb_keyed *h, size_t n, const double *x)
{
    for (size_t d = 0; d < n; d++)
        kb_keyed_double(h, x[d]);
}

/* By words. */
uint64_t kb_kernel_hash_place(const struct kb_kernel *k, const struct kb_point *p)
{
    struct kb_keyed h = kb_keyed_begin(k->key);

    kb_keyed_word(&h, kb_user_kernel_row(k->user, p->user));
    if (k->has_levels)
        kb_keyed_word(&h, p->level);
    if (k->context.type != KB_VEC_ONES)
        hash_coordinates(&h, k->context_dim, p->x);
    return kb_keyed_end(h);
}

/* A decision comes here for each of its candidates, so what tells arms apart by their numbers is one product: with a
 * secret odd factor, of which a table takes bits from the middle upwards, two given numbers meet in n slots with
 * probability at most 2 / n [DHKP, Lemma 2.4]. The turn keeps all bits of it. */
uint64_t kb_kernel_hash_arm(const struct kb_kernel *k, uint64_t place, const struct kb_point *p)
{
    if (compares_arm_ids(k))
        return kb_keyed_rotate((place + p->arm) * k->arm_factor, 32);
    if (k->arm.type == KB_VEC_ONES)
        return place;
    struct kb_keyed h = kb_keyed_begin(k->key);
    kb_keyed_word(&h, place);
    hash_coordinates(&h, k->arm_dim, p->x + k->context_dim);
    return kb_keyed_end(h);
}

uint64_t kb_kernel_hash(const struct kb_kernel *k, const struct kb_point *p)
{
    return kb_kernel_hash_arm(k, kb_kernel_hash_place(k, p), p);
}

/* --- columns and blocks ------------------------------------------------------------------------------ */

/* What user and context make of a column, without the factor of arms. */
static void fill_base(const struct kb_kernel *k, const struct kb_support *s, size_t n, struct kb_user user,
                      double diag_user, const double *context, uint32_t level, double *out)
{
    if (k->is_sum) {
        kb_components_base(&k->sum, s, n, user, diag_user, context, out);
        return;
    }
    kb_user_kernel_row_at(k->user, user, diag_user, s->anchor, n, out);
    scale_levels(k, s, n, level, out);
    scale_contexts(k, s, n, context, out);
}

void kb_kernel_column(const struct kb_kernel *k, const struct kb_support *s, size_t n, const struct kb_point *p,
                      double diag_user, double *out)
{
    assert(n <= s->cap);
    fill_base(k, s, n, p->user, diag_user, p->x, p->level, out);
    scale_arms(k, s, n, p->arm, p->x + k->context_dim, out);
    if (k->is_sum)
        kb_components_finish(&k->sum, s, n, p->arm, p->part, out);
}

/* The factor of candidate c of the catalogue, NULL: to be computed. */
static const double *kept_arm(const struct kb_kernel *k, const struct kb_support *s, const struct kb_candidates *cand,
                              size_t c)
{
    if (cand->stamps == NULL || cand->stamps[c] == 0 || cand->features[c] == NULL || s->columns == NULL || s->n == 0 ||
        compares_arm_ids(k) || k->arm.type == KB_VEC_ONES)
        return NULL;
    return kb_arm_columns_find(&k->arm, k->arm_dim, s, cand->arms[c], cand->stamps[c], cand->features[c]);
}

KB_HOT static void multiply(size_t n, const double *restrict base, const double *restrict factor, double *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = base[i] * factor[i];
}

/* Every candidate's column is a copy of `base` times the arm factor. Those whose factor is not kept go together, in
 * runs: most decisions have none of them, or no others. */
static void scale_base(const struct kb_kernel *k, const struct kb_support *s, const struct kb_candidates *cand,
                       size_t c0, size_t n_c, const double *base, double *out, size_t ld)
{
    size_t first = 0; /* of the run */
    for (size_t c = 0; c < n_c; c++) {
        const double *factor = kept_arm(k, s, cand, c0 + c);
        if (factor == NULL) {
            if (s->n > 0)
                memcpy(out + c * ld, base, s->n * sizeof *base);
            continue;
        }
        multiply(s->n, base, factor, out + c * ld);
        scale_arms_many(k, s, s->n, cand, c0 + first, c - first, out + first * ld, ld);
        first = c + 1;
    }
    scale_arms_many(k, s, s->n, cand, c0 + first, n_c - first, out + first * ld, ld);
}

/* The product user x context is `base`. */
void kb_kernel_block(const struct kb_kernel *k, const struct kb_support *s, const struct kb_candidates *cand, size_t c0,
                     size_t n_c, struct kb_scratch *scratch, double *out, size_t ld, double *diag)
{
    size_t n = s->n, mark = kb_arena_mark(&scratch->arena);
    double *base = kb_arena_doubles(&scratch->arena, n);
    double diag_user = kb_user_kernel_diag(k->user, cand->user, scratch->user);
    double diag_base = diag_user; /* 1 when normalised */

    assert(n_c == 0 || c0 + n_c <= cand->n);
    fill_base(k, s, n, cand->user, diag_user, cand->context, cand->level, base);
    if (k->context.type != KB_VEC_ONES)
        diag_base *= kb_vec_kernel_value(&k->context, k->context_dim, cand->context, cand->context);
    for (size_t c = 0; c < n_c; c++) {
        diag[c] = arm_diag(k, cand->features != NULL ? cand->features[c0 + c] : NULL);
        diag[c] = k->is_sum ? kb_components_diag(&k->sum, diag_user, cand->context, diag[c], KB_PART_ALL)
                            : diag_base * diag[c];
    }
    scale_base(k, s, cand, c0, n_c, base, out, ld);
    for (size_t c = 0; k->is_sum && c < n_c; c++)
        kb_components_finish(&k->sum, s, n, cand->arms[c0 + c], KB_PART_ALL, out + c * ld);
    kb_arena_reset(&scratch->arena, mark);
}

size_t kb_kernel_block_bytes(size_t n_support)
{
    return kb_arena_need(n_support);
}
