/* What a reset puts in place of the posterior in force: an empty one for the coming values, and its dictionary.
 *
 * Three ways to the dictionary, by what the representation is and what is known of the variances:
 *
 *   kors, threshold   the rows in order, each against those admitted before it (nystrom_build.c)
 *   bkb, bbkb         drawn from the variances of the posterior in force (nystrom_resample.c)  [BKB, Alg. 1]
 *   bkb, bbkb under a kernel, graph or ridge that was not in force: from those of a pilot
 *
 * A resampling comes with every batch of rewards under bkb, so what it can keep it keeps: the values of the user kernel
 * are shared with the posterior in force, which costs O(1) where a dense graph would cost O(n^3). Only live engines
 * choose; a fold is told by the event and comes for the empty posterior alone. */
#include "engine_impl.h"

#include <stdlib.h>

#include "alloc.h"
#include "hash.h"

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Points of the history that differ to the kernel (by 64-bit hash): what an exact posterior would hold. */
static enum kb_err count_distinct(const struct kb_engine *e, const struct kb_kernel *kernel, size_t *n)
{
    const uint32_t *node_of = kb_engine_coming_nodes(e);
    uint64_t *hash = kb_array(e->history.n + 1, 1, sizeof *hash);

    if (hash == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < e->history.n; i++) {
        const uint32_t user = e->history.user[i];
        const struct kb_point pt = {.user = {.index = user, .node = node_of[user]},
                                    .arm = e->history.arm[i],
                                    .x = e->history.x + i * e->history.dim};

        hash[i] = kb_kernel_hash(kernel, &pt);
    }
    qsort(hash, e->history.n, sizeof *hash, compare_hashes);
    *n = e->history.n > 0;
    for (size_t i = 1; i < e->history.n; i++)
        *n += hash[i] != hash[i - 1];
    kb_free(hash);
    return KB_OK;
}

bool kb_engine_outgrows_exact(const struct kb_spec *spec, size_t n)
{
    return spec->repr.type == KB_REPR_EXACT && n > spec->repr.exact_limit && !kb_rule_reads_levels(spec->rule.type);
}

/* An empty posterior for spec, its user kernel learned from the history where it is one of those. */
static enum kb_err open_posterior(const struct kb_engine *e, const struct kb_spec *spec, struct kb_posterior **out)
{
    enum kb_err rc = kb_posterior_new(out, spec, kb_engine_coming_graph(e, spec));

    return rc == KB_OK ? kb_posterior_learn_users(*out, &e->history) : rc;
}

/* Whether a resampled dictionary for spec may be drawn from the posterior in force, and its user kernel kept: it has
 * the same kernel, which no reset learns anew, and the fold has not run ahead of it. */
static bool serves_resampling(const struct kb_engine *e, const struct kb_spec *spec, uint64_t seq)
{
    return kb_repr_is_resampled(spec->repr.type) && !kb_user_kernel_is_learned(spec->user_kernel.type) &&
           e->posterior != NULL && seq > e->quiet_until && !e->staged.has_graph && !e->staged.awaits_reset &&
           kb_spec_same_model(spec, &e->spec);
}

/* An empty posterior for spec. A mere resampling computes no user kernel: over a dense graph that is O(n^3). */
enum kb_err kb_engine_new_posterior(const struct kb_engine *e, const struct kb_spec *spec, uint64_t seq,
                                    struct kb_posterior **out)
{
    return serves_resampling(e, spec, seq) ? kb_posterior_new_like(out, spec, e->posterior)
                                           : open_posterior(e, spec, out);
}

/* An empty posterior for spec in *out; an exact one that would pass its limit becomes KORS in *spec. */
enum kb_err kb_engine_build_for(struct kb_engine *e, struct kb_spec *spec, uint64_t seq, struct kb_posterior **out)
{
    size_t n = 0;
    enum kb_err rc = kb_engine_new_posterior(e, spec, seq, out);

    if (rc != KB_OK || !kb_engine_outgrows_exact(spec, e->history.n))
        return rc;
    KB_TRY(count_distinct(e, kb_posterior_kernel(*out), &n));
    if (kb_engine_outgrows_exact(spec, n)) {
        kb_posterior_free(*out);
        *out = NULL;
        spec->repr.type = KB_REPR_KORS;
        kb_spec_drop_unserved_confidence(spec);
        KB_TRY(open_posterior(e, spec, out));
    }
out:
    return rc;
}

/* Where the variances of the posterior in force are those of another kernel: a pilot dictionary is drawn from the
 * prior's, which are never too small, and the one that stays from what the pilot knows. */
static enum kb_err resample_by_pilot(struct kb_engine *e, const struct kb_spec *spec, uint64_t key,
                                     struct kb_atom **rows, size_t *n)
{
    const uint32_t *nodes = kb_engine_coming_nodes(e);
    struct kb_posterior *pilot = NULL;
    enum kb_err rc = KB_OK;

    KB_TRY(kb_user_kernel_is_learned(spec->user_kernel.type)
               ? open_posterior(e, spec, &pilot)
               : kb_posterior_new_like(&pilot, spec, e->staged.posterior));
    KB_TRY(kb_posterior_resample(pilot, pilot, &e->history, nodes, ~key, &e->scratch, rows, n));
    KB_TRY(kb_posterior_fill(pilot, &e->history, nodes, *rows, *n, &e->scratch));
    kb_free(*rows);
    KB_TRY(kb_posterior_resample(e->staged.posterior, pilot, &e->history, nodes, key, &e->scratch, rows, n));
out:
    kb_posterior_free(pilot);
    return rc;
}

/* The rows of the dictionary to come, put into the staged posterior. *rows is allocated. */
enum kb_err kb_engine_choose_rows(struct kb_engine *e, const struct kb_spec *spec, uint64_t seq, struct kb_atom **rows,
                                  size_t *n)
{
    const uint64_t key = kb_hash_u64(spec->seed, seq);
    const uint32_t *nodes = kb_engine_coming_nodes(e);

    if (serves_resampling(e, spec, seq))
        return kb_posterior_resample(e->staged.posterior, e->posterior, &e->history, nodes, key, &e->scratch, rows, n);
    if (kb_repr_is_resampled(spec->repr.type))
        return resample_by_pilot(e, spec, key, rows, n);
    return kb_posterior_choose(e->staged.posterior, &e->history, nodes, key, &e->scratch, rows, n);
}
