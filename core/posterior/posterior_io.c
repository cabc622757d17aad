/* Snapshots of a posterior: the support's points here, the numbers of its factors by the representation.
 *
 * Format (schema/snapshot.md): number of points; their user indices, graph nodes, arms and levels; their
 * coordinates; the known part of the user kernel's diagonal (NaN where unknown; empty for small graphs); what a learned
 * user kernel has learned; the count of clamped values; where deviations know open decisions, how many; then what the
 * representation writes, and the second posterior where there is one (open.h).
 *
 * The user kernel's columns are not written: they are a function of the graph alone and are solved anew, sixteen
 * at a time, with the bits they had (user_kernel.h). The diagonal is, since every user who was ever shown
 * something has an entry there and each costs a linear system.
 *
 * Whatever is read is checked before it is used as an index or as a size; KB_ECORRUPT leaves the posterior for
 * its owner to free. */
#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"
#include "posterior/posterior_impl.h"

/* Least number of bytes that a support point takes in a snapshot: bounds what a count may claim. */
#define POINT_BYTES 16u

/* --- out -------------------------------------------------------------------------------------------------- */

/* Users with their nodes, which the graph of the same log gives back; then arms and coordinates. */
static void save_points(const struct kb_support *s, struct kb_writer *w)
{
    kb_put_u64(w, s->n);
    for (size_t i = 0; i < s->n; i++) {
        kb_put_u64(w, s->user[i].index);
        kb_put_u64(w, s->user[i].node);
    }
    kb_put_u32s(w, s->arm, s->n);
    kb_put_u32s(w, s->level, s->n);
    kb_put_doubles(w, s->x, s->n * s->dim);
}

/* What the user kernel knows of its diagonal; nothing for kernels that hold it whole. */
static void save_diagonal(const struct kb_kernel *k, struct kb_writer *w)
{
    double *values = kb_array(k->n_nodes, 1, sizeof *values);
    if (values == NULL && k->n_nodes > 0) {
        w->rc = KB_ENOMEM;
        return;
    }
    size_t n = kb_user_kernel_diag_cache(k->user, values, k->n_nodes);
    kb_put_u64(w, n);
    kb_put_doubles(w, values, n);
    kb_free(values);
}

void kb_posterior_save(const struct kb_posterior *p, struct kb_writer *w)
{
    save_points(&p->support, w);
    save_diagonal(&p->kernel, w);
    kb_user_kernel_save(p->kernel.user, w);
    kb_put_u64(w, atomic_load_explicit(&((struct kb_posterior *)p)->n_clamped, memory_order_relaxed));
    kb_evidence_save(&p->evidence, w);
    kb_put_double(w, p->accumulated);
    kb_put_double(w, p->unit);
    if (p->counts_open)
        kb_put_u64(w, p->n_open);
    p->ops->save(p, w);
    if (p->beside != NULL)
        kb_posterior_save(p->beside, w);
}

/* --- in --------------------------------------------------------------------------------------------------- */

/* A node is an index into the graph for kernels that look users up there, and a mere label for the others. */
static bool is_user_valid(const struct kb_posterior *p, uint64_t index, uint64_t node)
{
    bool is_node = node == KB_ID_NONE || node < (p->kernel.reads_nodes ? p->kernel.n_nodes : KB_ID_NONE);
    return index < KB_ID_NONE && is_node;
}

/* Counts first, and bounded by what the snapshot could hold; then indices, each checked before it is kept. */
static enum kb_err load_points(struct kb_posterior *p, struct kb_reader *r)
{
    enum kb_err rc;
    struct kb_support *s = &p->support;
    size_t n = kb_get_count(r, (r->n - r->pos) / POINT_BYTES);
    KB_TRY(r->rc);
    /* its factors fill n^2 / 2 doubles further on: what cannot stand in the snapshot is not allocated for */
    if (!p->ops->is_diagonal && p->ops->grow_arms == NULL && n > 0 && n / 2 > (r->n - r->pos) / sizeof(double) / n)
        return KB_ECORRUPT;
    KB_TRY(kb_posterior_reserve(p, n));
    for (size_t i = 0; i < n; i++) {
        uint64_t index = kb_get_u64(r), node = kb_get_u64(r);
        KB_TRY(r->rc);
        if (!is_user_valid(p, index, node))
            return KB_ECORRUPT;
        s->user[i] = (struct kb_user){.index = (uint32_t)index, .node = (uint32_t)node};
    }
    kb_get_u32s(r, s->arm, n);
    kb_get_u32s(r, s->level, n);
    kb_get_doubles(r, s->x, n * s->dim);
    KB_TRY(r->rc);
    for (size_t i = 0; i < n * s->dim; i++) {
        if (!isfinite(s->x[i]))
            return KB_ECORRUPT;
    }
    s->n = n;
    for (size_t i = 0; i < n; i++)
        kb_support_mark(s, i);
out:
    return rc;
}

/* Values that are not positive numbers are ignored by the user kernel and solved when asked for. */
static enum kb_err load_diagonal(struct kb_kernel *k, struct kb_reader *r)
{
    size_t n = kb_get_count(r, k->n_nodes);
    double *values = NULL;
    if (r->rc == KB_OK && n > 0) {
        values = kb_array(n, 1, sizeof *values);
        if (values == NULL)
            return KB_ENOMEM;
    }
    kb_get_doubles(r, values, n);
    if (r->rc == KB_OK && n > 0)
        kb_user_kernel_set_diag_cache(k->user, values, n);
    kb_free(values);
    return r->rc;
}

enum kb_err kb_posterior_load(struct kb_posterior *p, struct kb_reader *r, struct kb_scratch *s)
{
    enum kb_err rc;
    assert(p->support.n == 0);
    KB_TRY(load_points(p, r));
    KB_TRY(load_diagonal(&p->kernel, r));
    KB_TRY(kb_user_kernel_load(p->kernel.user, r));
    atomic_store_explicit(&p->n_clamped, kb_get_u64(r), memory_order_relaxed);
    KB_TRY(kb_evidence_load(&p->evidence, r));
    p->accumulated = kb_get_double(r);
    if (!(p->accumulated >= 0 && isfinite(p->accumulated)))
        return KB_ECORRUPT;
    p->unit = p->coming_unit = kb_get_double(r);
    if (!(p->unit >= 0 && isfinite(p->unit)))
        return KB_ECORRUPT;
    p->n_open = p->counts_open ? (size_t)kb_get_u64(r) : 0;
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n, 0));
    KB_TRY(kb_posterior_anchor_support(p, 0, s));
    KB_TRY(p->ops->load(p, r));
    if (p->beside != NULL)
        KB_TRY(kb_posterior_load(p->beside, r, s));
    KB_TRY(r->rc);
    p->is_unsettled = true;
    KB_TRY(kb_posterior_settle(p, s));
    kb_posterior_publish(p);
out:
    return rc;
}

/* --- digest ------------------------------------------------------------------------------------------------ */

/* Points by what identifies them in the log, then the representation's numbers; n_clamped and caches are left out. */
uint64_t kb_posterior_digest(const struct kb_posterior *p, uint64_t h)
{
    return kb_posterior_content_digest(p, kb_evidence_digest(&p->evidence, h));
}

static uint64_t points_digest(const struct kb_posterior *p, uint64_t h)
{
    h = kb_hash_u64(h, p->support.n);
    for (size_t i = 0; i < p->support.n; i++) {
        h = kb_hash_u64(h, p->support.user[i].index);
        h = kb_hash_u64(h, (uint64_t)p->support.level[i] << 32 | p->support.arm[i]);
        h = kb_hash_bytes(h, p->support.x + i * p->support.dim, p->support.dim * sizeof(double));
    }
    return h;
}

uint64_t kb_posterior_dictionary_digest(const struct kb_posterior *p, uint64_t h)
{
    return p->ops->put_atom != NULL ? points_digest(p, h) : h;
}

uint64_t kb_posterior_content_digest(const struct kb_posterior *p, uint64_t h)
{
    h = points_digest(p, kb_hash_double(kb_user_kernel_digest(p->kernel.user, h), p->unit));
    h = p->ops->digest(p, kb_hash_double(h, p->accumulated));
    if (p->counts_open)
        h = kb_hash_u64(h, p->n_open);
    return p->beside != NULL ? kb_posterior_content_digest(p->beside, h) : h;
}
