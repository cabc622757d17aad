/* Posteriors: the interface of posterior.h, what both representations share, and the dispatch.
 *
 * Shared here: the kernel and the support (points that candidates are evaluated against), the account of staged work,
 * and scratch sizes; predictions are in posterior_predict.c, facts in posterior_facts.c, the part of a snapshot that is
 * not numbers of a factor in posterior_io.c. A representation is a row of functions (posterior_impl.h); nothing below
 * asks which one it is.
 *
 * Account of staged work. Each stage call adds one to n_staged, and one to n_staged_points when it may add a
 * support point. A learning step or a commit takes one off; when none are left the points are forgotten too,
 * since a point staged twice is added once. `grow` makes room for support.n + n_staged_points, beside readers, and
 * what they see moves in the swap that follows it (moves.h), or while a posterior is built that nobody reads.
 *
 * Cost: see the representations. */
#include "posterior/posterior.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"
#include "linalg/tiled.h"
#include "posterior/posterior_impl.h"
#include "posterior/projection_error.h"

#define FIRST_SUPPORT 64u
#define SPECTRAL_VECTORS (KB_RIDGE_LANES + 1u) /* what confidence rules draw besides projections */

static const struct kb_posterior_ops *const representations[KB_REPR_N] = {
    [KB_REPR_EXACT] = &kb_posterior_exact_ops,
    [KB_REPR_KORS] = &kb_posterior_nystrom_ops,
    [KB_REPR_THRESHOLD] = &kb_posterior_nystrom_ops,
    [KB_REPR_BKB] = &kb_posterior_nystrom_ops,
    [KB_REPR_BBKB] = &kb_posterior_nystrom_ops,
    [KB_REPR_BY_ARM] = &kb_posterior_by_arm_ops,
    [KB_REPR_BY_COMPONENT] = &kb_posterior_by_component_ops,
};

/* An exact model of a kernel that only tells points apart needs no factor. */
static const struct kb_posterior_ops *ops_of(const struct kb_spec *spec)
{
    return kb_spec_is_diagonal(spec) ? &kb_posterior_diagonal_ops : representations[spec->repr.type];
}

/* --- life -------------------------------------------------------------------------------------------- */

/* The whole struct of the representation is one zeroed block, so that `close` works on a half-built one. */
static enum kb_err make(struct kb_posterior **out, const struct kb_spec *spec, const struct kb_graph *graph,
                        struct kb_hash_key key, const struct kb_posterior *other);

/* Of the same model; it shares the user kernel's values. */
static enum kb_err make_beside(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_spec plain = *spec;
    if (spec->pending != KB_PENDING_HALLUCINATE)
        return KB_OK;
    p->counts_open = true;
    plain.pending = KB_PENDING_IGNORE;
    if (p->ops->open != NULL)
        return KB_OK;
    const enum kb_err rc = make(&p->beside, &plain, NULL, (struct kb_hash_key){0}, p);
    if (rc == KB_OK)
        p->beside->most_points = p->max_support;
    return rc;
}

static enum kb_err make(struct kb_posterior **out, const struct kb_spec *spec, const struct kb_graph *graph,
                        struct kb_hash_key key, const struct kb_posterior *other)
{
    enum kb_err rc;
    const struct kb_posterior_ops *ops = ops_of(spec);
    struct kb_posterior *p = kb_array(1, 1, ops->bytes);
    if (p == NULL)
        return KB_ENOMEM;
    p->ops = ops;
    p->most_points = SIZE_MAX;
    p->lambda = spec->repr.lambda;
    p->accuracy = spec->repr.epsilon;
    p->reads_spectrum = kb_spec_reads_spectrum(spec);
    p->is_mixed = spec->conf.is_mixture;
    p->settles_lazily = spec->conf.score == KB_SCORE_FIXED;
    p->is_resampled = kb_repr_is_resampled(spec->repr.type);
    p->q = spec->repr.q;
    p->batch_ratio = spec->repr.type == KB_REPR_BBKB ? spec->repr.batch_ratio : 1.0;
    kb_support_init(&p->support, (size_t)spec->context_dim + spec->arm_dim);
    p->support.columns = &p->columns;
    const struct kb_spec parts = kb_spec_of_parts(spec, graph != NULL);
    KB_TRY(other != NULL ? kb_kernel_init_like(&p->kernel, &parts, &other->kernel)
                         : kb_kernel_init(&p->kernel, &parts, graph, key));
    KB_TRY(ops->init(p, spec));
    KB_TRY(make_beside(p, spec));
    if (p->reads_spectrum)
        KB_TRY(kb_spectrum_new(&p->spectrum, 0, ops->is_diagonal));
    p->is_unsettled = true; /* bounds of a model that has learned nothing are bounds as well */
    *out = p;
    p = NULL;
out:
    kb_posterior_free(p);
    return rc;
}

enum kb_err kb_posterior_new(struct kb_posterior **out, const struct kb_spec *spec, const struct kb_graph *graph,
                             struct kb_hash_key key)
{
    return make(out, spec, graph, key, NULL);
}

enum kb_err kb_posterior_new_like(struct kb_posterior **out, const struct kb_spec *spec,
                                  const struct kb_posterior *other)
{
    return make(out, spec, NULL, (struct kb_hash_key){0}, other);
}

void kb_posterior_free(struct kb_posterior *p)
{
    if (p == NULL)
        return;
    kb_posterior_free(p->beside);
    p->ops->close(p);
    kb_spectrum_free(p->spectrum);
    kb_spectrum_free(p->settled);
    kb_support_close(&p->support);
    kb_arm_columns_close(&p->columns);
    kb_kernel_close(&p->kernel);
    kb_free(p->staged_arm);
    kb_free(p);
}

/* Anchors rest on the kernel's values, so there must be none yet. */
enum kb_err kb_posterior_learn_users(struct kb_posterior *p, const struct kb_history *h)
{
    assert(p->support.n == 0);
    return kb_kernel_learn_users(&p->kernel, h);
}

bool kb_posterior_has_scales(const struct kb_posterior *p)
{
    return p->ops->find_scales != NULL;
}

enum kb_err kb_posterior_find_scales(const struct kb_posterior *p, const struct kb_scale_search *search,
                                     struct kb_scratch *s, struct kb_tuning *out)
{
    return p->ops->find_scales(p, search, s, out);
}

/* --- scratch ------------------------------------------------------------------------------------------- */

void kb_scratch_init(struct kb_scratch *s)
{
    *s = (struct kb_scratch){0};
    kb_arena_init(&s->arena);
}

void kb_scratch_close(struct kb_scratch *s)
{
    kb_arena_close(&s->arena);
    kb_user_scratch_free(s->user);
    kb_scratch_init(s);
}

/* A block of columns, the user and context factors of a decision, and five vectors (features, rows of a factor,
 * diagonals and new coordinates of a block); and where a spectrum is read, a block of projections, the rules' vectors,
 * and what the projection error works with. */
static size_t scratch_bytes(const struct kb_posterior *p, size_t n)
{
    const size_t block = kb_arena_need(KB_BLOCK * kb_block_ld(n));
    const size_t spectral = block + SPECTRAL_VECTORS * kb_arena_need(n) + kb_projection_error_work();
    const bool has_block = p->ops->predict == NULL || p->reads_spectrum;
    return (has_block ? block : 0) + kb_kernel_block_bytes(n) + 3 * kb_arena_need(kb_tiled_padded(n)) +
           4 * kb_arena_need(KB_BLOCK) + (p->reads_spectrum ? spectral : 0);
}

double *kb_posterior_block(struct kb_scratch *s, size_t n)
{
    return kb_arena_doubles(&s->arena, KB_BLOCK * kb_block_ld(n));
}

/* Work on n support points, and what a second posterior has its own for, which come one after the other. */
static size_t work_bytes(const struct kb_posterior *p, size_t n)
{
    const struct kb_posterior *other = p->beside;
    const size_t bytes = scratch_bytes(p, n > p->cap ? n : p->cap);
    if (other == NULL)
        return bytes;
    const size_t n_other = other->support.n + other->n_staged_points;
    const size_t beside = scratch_bytes(other, n_other > other->cap ? n_other : other->cap);
    return (beside > bytes ? beside : bytes) + 2 * kb_arena_need(KB_BLOCK);
}

/* A scratch may have served another graph before: its solver is replaced when it does not fit. */
enum kb_err kb_posterior_fit_for(const struct kb_posterior *p, struct kb_scratch *s, size_t n, size_t extra_bytes)
{
    size_t bytes = work_bytes(p, n) + extra_bytes;
    if (!kb_user_scratch_fits(s->user, p->kernel.user)) {
        struct kb_user_scratch *user = NULL;
        enum kb_err rc = kb_user_scratch_new(&user, p->kernel.user);
        if (rc != KB_OK)
            return rc;
        kb_user_scratch_free(s->user);
        s->user = user;
    }
    return s->arena.cap - s->arena.used >= bytes ? KB_OK : kb_arena_fit(&s->arena, bytes);
}

enum kb_err kb_posterior_fit_scratch(const struct kb_posterior *p, struct kb_scratch *s, size_t extra_bytes)
{
    return kb_posterior_fit_for(p, s, p->cap, extra_bytes);
}

enum kb_err kb_posterior_fit_staged(const struct kb_posterior *p, struct kb_scratch *s)
{
    return kb_posterior_fit_for(p, s, p->support.n + p->n_staged_points, 0);
}

/* --- staging and learning ------------------------------------------------------------------------------- */

/* Doubles, but not past max_support, where doubling a factor would only waste a square. */
static size_t coming_cap(const struct kb_posterior *p, size_t n)
{
    if (n <= p->cap)
        return p->cap;
    size_t cap = kb_grown_cap(p->cap, n, FIRST_SUPPORT);
    return cap <= p->max_support ? cap : n > p->max_support ? n : p->max_support;
}

/* Support points once the staged ones and n_more have come, at most. */
static size_t coming_points(const struct kb_posterior *p, size_t n_more)
{
    const size_t n = p->support.n + p->n_staged_points + n_more;
    return n <= p->most_points ? n : p->most_points;
}

/* `cap` goes with the last array. */
static enum kb_err grow_to(struct kb_posterior *p, size_t n, struct kb_moves *m)
{
    enum kb_err rc;
    const size_t cap = coming_cap(p, n);
    if (cap == p->cap)
        return KB_OK;
    KB_TRY(p->ops->grow(p, cap, m));
    KB_TRY(kb_support_grow(&p->support, cap - p->support.n, m));
    KB_TRY(kb_moves_number(m, &p->cap, cap));
out:
    return rc;
}

enum kb_err kb_posterior_reserve(struct kb_posterior *p, size_t n)
{
    struct kb_moves m;
    kb_moves_init(&m);
    return kb_moves_finish(&m, grow_to(p, n, &m));
}

/* One staged step has been used; points staged twice are forgotten with the last of them. */
void kb_posterior_use_staged(struct kb_posterior *p)
{
    if (p->n_staged > 0)
        p->n_staged--;
    if (p->n_staged == 0)
        p->n_staged_points = 0;
}

/* What is slow or may fail is done here: scratch, the user's column, the user's diagonal. */
static enum kb_err stage(struct kb_posterior *p, const struct kb_point *pt, bool adds_point, struct kb_scratch *s)
{
    enum kb_err rc;
    uint32_t slot;
    size_t n_points = p->n_staged_points + adds_point;
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n + n_points, 0));
    if (adds_point && p->ops->grow_arms != NULL) {
        if (kb_grow((void **)&p->staged_arm, &p->cap_staged_arms, n_points, 16, sizeof *p->staged_arm) != 0)
            return KB_ENOMEM;
        p->staged_arm[n_points - 1] = pt->arm;
    }
    if (adds_point)
        KB_TRY(kb_user_kernel_stage_anchor(p->kernel.user, pt->user, s->user, &slot));
    /* solved here, so that nothing is solved under exclusion; a dictionary also asks for k(s,s) when it learns */
    if (p->kernel.is_user_normalized || p->ops->is_sketch)
        kb_user_kernel_diag(p->kernel.user, pt->user, s->user);
    p->n_staged_points = n_points;
    p->n_staged++;
    if (adds_point && p->ops->stage_point != NULL)
        p->ops->stage_point(p);
out:
    return rc;
}

/* An exact posterior wants room when the point is new to it; a dictionary grows by atoms alone. */
enum kb_err kb_posterior_stage_learn(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    const bool adds_point = !kb_kernel_ignores(&p->kernel, pt) && p->support.n < p->most_points;
    const enum kb_err rc = stage(p, pt, adds_point && p->ops->learn_adds_point(p, pt), s);
    return rc == KB_OK && p->beside != NULL ? kb_posterior_stage_learn(p->beside, pt, s) : rc;
}

enum kb_err kb_posterior_grow(struct kb_posterior *p, struct kb_scratch *s, struct kb_moves *m)
{
    const size_t n = coming_points(p, 0);
    enum kb_err rc = grow_to(p, n, m);
    if (rc == KB_OK && p->ops->grow_arms != NULL)
        rc = p->ops->grow_arms(p, m);
    if (rc == KB_OK && p->beside != NULL)
        rc = kb_posterior_grow(p->beside, s, m);
    return rc == KB_OK ? kb_posterior_fit_for(p, s, coming_cap(p, n), 0) : rc;
}

void kb_posterior_discard(struct kb_posterior *p)
{
    kb_user_kernel_discard_anchors(p->kernel.user);
    p->n_staged = p->n_staged_points = 0;
    if (p->beside != NULL)
        kb_posterior_discard(p->beside);
}

/* Counts of observations only grow here; a correction (d_count 0) changes the sum, and what a dictionary has foretold
 * about the first value bounds nothing any more. Nor does it where rewards are weighted. */
void kb_posterior_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                        double d_square, struct kb_scratch *s)
{
    assert(d_count >= 0 && isfinite(d_sum));
    size_t mark = kb_arena_mark(&s->arena);
    if (kb_kernel_ignores(&p->kernel, pt)) {
        p->evidence.ignored += d_square;
    } else {
        p->evidence.square += d_square;
        p->evidence.is_void |= (p->ops->closed_evidence == NULL && d_count == 0) || (d_count > 0 && d_count != 1);
        p->ops->learn(p, pt, d_count, d_sum, s);
    }
    p->is_unsettled = true;
    p->n_learned += 1;
    kb_arena_reset(&s->arena, mark);
    kb_posterior_use_staged(p);
    if (p->beside != NULL)
        kb_posterior_learn_beside(p, pt, d_count, s);
}

/* --- forgetting ------------------------------------------------------------------------------------------ */

double kb_posterior_unit(const struct kb_posterior *p)
{
    return p->unit;
}

enum kb_err kb_posterior_reserve_spare(struct kb_posterior *p)
{
    return p->ops->reserve_spare != NULL ? p->ops->reserve_spare(p, coming_cap(p, p->support.n + p->n_staged_points))
                                         : KB_OK;
}

void kb_posterior_prepare_unit(struct kb_posterior *p, double unit, struct kb_scratch *s)
{
    assert(unit > p->unit);
    size_t mark = kb_arena_mark(&s->arena);
    p->coming_unit = unit;
    if (p->ops->prepare_left != NULL)
        p->ops->prepare_left(p, exp2(p->unit - unit), s);
    kb_arena_reset(&s->arena, mark);
}

void kb_posterior_take_unit(struct kb_posterior *p, struct kb_scratch *s)
{
    size_t mark = kb_arena_mark(&s->arena);
    p->ops->take_left(p, exp2(p->unit - p->coming_unit), s);
    p->unit = p->coming_unit;
    p->evidence.is_void = true;
    p->is_unsettled = true;
    kb_arena_reset(&s->arena, mark);
}

/* Blocks of columns are solved together, with the bits they have one by one (user_kernel.h). */
enum kb_err kb_posterior_anchor_support(struct kb_posterior *p, size_t first, struct kb_scratch *s)
{
    size_t n = p->support.n - first;
    if (n == 0)
        return KB_OK;
    return kb_user_kernel_add_anchors(p->kernel.user, p->support.user + first, n, p->support.anchor + first, s->user);
}

/* --- dictionary ----------------------------------------------------------------------------------------- */

/* Nothing is drawn here: the uniform number is the caller's, so the outcome can stand in the log. */
bool kb_posterior_admits(struct kb_posterior *p, const struct kb_point *pt, double uniform, struct kb_scratch *s,
                         double *probability)
{
    *probability = 0;
    if (p->ops->admission == NULL || p->is_resampled)
        return false;
    size_t mark = kb_arena_mark(&s->arena);
    *probability = p->ops->admission(p, pt, s);
    kb_arena_reset(&s->arena, mark);
    return uniform < *probability;
}

enum kb_err kb_posterior_stage_atom(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    assert(p->ops->commit_atom != NULL);
    return stage(p, pt, true, s);
}

void kb_posterior_put_atom(struct kb_posterior *p, const struct kb_point *pt, double probability, struct kb_scratch *s)
{
    assert(p->ops->put_atom != NULL && p->support.n < p->cap);
    size_t mark = kb_arena_mark(&s->arena);
    p->ops->put_atom(p, pt, probability, s);
    kb_arena_reset(&s->arena, mark);
}

void kb_posterior_open_atom(struct kb_posterior *p)
{
    p->ops->open_atom(p);
    kb_posterior_use_staged(p);
}

bool kb_posterior_sweep(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                        struct kb_scratch *s)
{
    size_t mark = kb_arena_mark(&s->arena);
    bool is_done = p->ops->sweep(p, h, node_of, s);
    kb_arena_reset(&s->arena, mark);
    return is_done;
}

void kb_posterior_close_atom(struct kb_posterior *p)
{
    p->ops->close_atom(p);
}

void kb_posterior_abandon_atom(struct kb_posterior *p)
{
    if (p->ops->abandon_atom != NULL)
        p->ops->abandon_atom(p);
}

void kb_posterior_commit_atom(struct kb_posterior *p, struct kb_scratch *s)
{
    assert(p->ops->commit_atom != NULL);
    size_t mark = kb_arena_mark(&s->arena);
    p->ops->commit_atom(p, s);
    kb_arena_reset(&s->arena, mark);
}

double kb_posterior_sweep_work(const struct kb_posterior *p, size_t n_rows)
{
    return p->ops->sweep_work != NULL ? p->ops->sweep_work(p, n_rows) : 0;
}

enum kb_err kb_posterior_choose(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                                uint64_t key, struct kb_scratch *s, struct kb_atom **atoms, size_t *n)
{
    assert(p->support.n == 0);
    *atoms = NULL;
    *n = 0;
    return p->ops->choose != NULL ? p->ops->choose(p, h, node_of, key, s, atoms, n) : KB_OK;
}

enum kb_err kb_posterior_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                              const struct kb_atom *atoms, size_t n, struct kb_scratch *s)
{
    enum kb_err rc;
    p->unit = p->coming_unit = h->unit;
    KB_TRY(p->ops->fill(p, h, node_of, atoms, n, s));
    if (p->beside != NULL)
        KB_TRY(kb_posterior_fill(p->beside, h, node_of, atoms, n, s));
    p->is_unsettled = true;
    KB_TRY(kb_posterior_settle(p, s));
    kb_posterior_publish(p);
out:
    return rc;
}

/* --- facts ------------------------------------------------------------------------------------------------ */

size_t kb_posterior_n_support(const struct kb_posterior *p)
{
    return p->support.n;
}

static double own_width(const struct kb_posterior *p)
{
    return p->ops->width != NULL ? p->ops->width(p) : (double)p->support.n;
}

double kb_posterior_width(const struct kb_posterior *p)
{
    const struct kb_posterior *other = kb_posterior_of_sd(p);
    return other == p ? own_width(p) : hypot(own_width(p), own_width(other));
}

uint64_t kb_posterior_n_clamped(const struct kb_posterior *p)
{
    return atomic_load_explicit(&((struct kb_posterior *)p)->n_clamped, memory_order_relaxed);
}

struct kb_point kb_posterior_support_point(const struct kb_posterior *p, size_t i)
{
    assert(i < p->support.n);
    return kb_support_point(&p->support, i);
}

static size_t beside_bytes(const struct kb_posterior *p)
{
    return p->beside != NULL ? kb_posterior_bytes(p->beside) - kb_user_kernel_shared_bytes(p->kernel.user) : 0;
}

size_t kb_posterior_bytes(const struct kb_posterior *p)
{
    return p->ops->bytes + kb_user_kernel_bytes(p->kernel.user) + p->support.cap * kb_support_point_bytes(&p->support) +
           p->ops->held_bytes(p) + p->spare_bytes + kb_arm_columns_bytes(&p->columns) + beside_bytes(p) +
           2 * kb_spectrum_bytes(p->spectrum); /* the next one is the writer's: readers may not look at it */
}

/* Two of the order n where rules read one: that in force, and the one that takes its place. Counted whether or not they
 * have been made yet. */
static size_t spectra_bytes(const struct kb_posterior *p, size_t n)
{
    return p->reads_spectrum ? 2 * (sizeof(struct kb_spectrum) + kb_spectrum_room(n, p->ops->is_diagonal)) : 0;
}

/* Nothing that a posterior holds grows faster than the square of its room; without a factor, than that room. */
static size_t bytes_of(const struct kb_posterior *p, size_t cap, size_t n)
{
    const double scale = (double)cap / (double)(p->cap > 0 ? p->cap : 1);
    const size_t held = p->cap > 0 ? p->ops->held_bytes(p) : 4 * sizeof(double);

    return p->ops->bytes + kb_user_kernel_bytes(p->kernel.user) + cap * kb_support_point_bytes(&p->support) +
           (size_t)fmin((double)held * scale * (p->ops->is_diagonal ? 1 : scale), 0x1p62) + spectra_bytes(p, n);
}

size_t kb_posterior_bytes_for(const struct kb_posterior *p, size_t n)
{
    return bytes_of(p, n, n) * (p->beside != NULL ? 2 : 1);
}

static size_t bytes_with(const struct kb_posterior *p, size_t n_more)
{
    const size_t n = coming_points(p, n_more), cap = coming_cap(p, n);
    const size_t kept = kb_arm_columns_bytes(&p->columns);

    if (p->ops->bytes_with == NULL)
        return bytes_of(p, cap, n) + kept;
    return kb_posterior_bytes(p) - p->ops->held_bytes(p) + p->ops->bytes_with(p, n_more) +
           (cap - p->cap) * (kb_support_point_bytes(&p->support) + 8 * sizeof(double));
}

size_t kb_posterior_bytes_with(const struct kb_posterior *p, size_t n_more)
{
    if (p->beside == NULL)
        return bytes_with(p, n_more);
    const size_t counted = p->ops->bytes_with != NULL ? beside_bytes(p) : 0;
    return bytes_with(p, n_more) - counted + bytes_with(p->beside, n_more) -
           kb_user_kernel_shared_bytes(p->kernel.user);
}

size_t kb_posterior_scratch_with(const struct kb_posterior *p, size_t n_more)
{
    const struct kb_posterior *other = p->beside;
    const size_t bytes = scratch_bytes(p, coming_cap(p, coming_points(p, n_more))) + kb_arena_need(0);
    const size_t beside = other != NULL ? kb_posterior_scratch_with(other, n_more) + 2 * kb_arena_need(KB_BLOCK) : 0;
    return beside > bytes ? beside : bytes;
}

const struct kb_kernel *kb_posterior_kernel(const struct kb_posterior *p)
{
    return &p->kernel;
}
