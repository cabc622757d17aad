/* Admission rules: with which probability a point enters the dictionary. A rule is a row of functions. */
#ifndef KB_ADMISSION_H
#define KB_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <stdbool.h>

#include "linalg/chol.h"
#include "spec/spec.h"

struct kb_admission_ops;

struct kb_admission {
    /* the rule's functions, by spec.type */
    const struct kb_admission_ops *ops;
    /* a copy: gamma, epsilon, mu, threshold, max_dictionary */
    struct kb_repr_spec spec;
    double *probability; /* [n] of the points admitted */
    size_t n, cap;
    struct kb_chol m; /* kors: S K_ZZ S + mu I */
};

/* What a rule looks at: the kernel column over the dictionary, k(s,s), and the residual r(s). */
struct kb_admission_query {
    const double *k_z;
    double diag, residual;
};

void kb_admission_init(struct kb_admission *a, const struct kb_repr_spec *spec);
void kb_admission_close(struct kb_admission *a);
/* Room for n admitted points after the swap of m (moves.h). KB_ENOMEM. */
enum kb_err kb_admission_grow(struct kb_admission *a, size_t n, struct kb_moves *m);

/* Probability in [0, 1]; 0 for a residual below KB_RESIDUAL_MIN k(s,s) and when the dictionary is full. work: n
 * doubles. kors O(n^2), threshold O(1). */
double kb_admission_probability(const struct kb_admission *a, const struct kb_admission_query *q, double *work);

/* Whether a point can have been drawn with that probability, as a log says it was. */
bool kb_admission_is_chance(enum kb_repr_type type, double probability);

/* The point is admitted, with the probability that the log gives it. Room reserved. work: n doubles. O(n^2). */
void kb_admission_append(struct kb_admission *a, const struct kb_admission_query *q, double probability, double *work);

uint64_t kb_admission_digest(const struct kb_admission *a, uint64_t h);
/* The number of points is the dictionary's size, which the caller saves. */
void kb_admission_save(const struct kb_admission *a, struct kb_writer *w);
enum kb_err kb_admission_load(struct kb_admission *a, size_t n, struct kb_reader *r);
size_t kb_admission_bytes(const struct kb_admission *a);

#endif
