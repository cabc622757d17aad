/* A fixed split of the traffic: arms with the weights by which they are drawn (rule `split`). Arms stand in the order
 * of their ids, so that two splits of the same weights are the same, however they were told. */
#ifndef KB_SPLIT_H
#define KB_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define KB_SPLIT_ARMS 32u
#define KB_SPLIT_BYTES 768u /* of all ids, each with its NUL */

/* All zeros: no arm has a weight. Plain values: a copy is a split of its own. */
struct kb_split {
    uint32_t n, n_bytes;
    uint16_t at[KB_SPLIT_ARMS]; /* where the id begins */
    double weight[KB_SPLIT_ARMS];
    char id[KB_SPLIT_BYTES];
};

static inline const char *kb_split_id(const struct kb_split *s, uint32_t i)
{
    return s->id + s->at[i];
}

/* Gives an arm that has none a weight, which is finite and not negative. KB_EFULL: there are too many arms, or their
 * ids are too long together. */
enum kb_err kb_split_put(struct kb_split *s, const char *id, double weight);
double kb_split_weight(const struct kb_split *s, const char *id); /* 0: it has none */
double kb_split_sum(const struct kb_split *s);

/* Of the same arms and weights, however they were told. */
bool kb_split_is_same(const struct kb_split *a, const struct kb_split *b);
uint64_t kb_split_digest(const struct kb_split *s, uint64_t h);
void kb_split_save(const struct kb_split *s, struct kb_writer *w);
/* What was saved, looked at again: KB_ECORRUPT, and *s is empty. */
enum kb_err kb_split_load(struct kb_split *s, struct kb_reader *r);

#endif
