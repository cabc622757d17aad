/* Confidence rules: lower, upper and score of every candidate from the posterior, behind one table of functions.
 * Types and their names: spec.[ch]. Families: conf_radius.c (mean -+ radius sd), conf_amm.c (minima over the ridge,
 * exact posterior), conf_sketch.c (the same over a dictionary). */
#ifndef KB_CONFIDENCE_H
#define KB_CONFIDENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "posterior/posterior.h"
#include "spec/spec.h"
#include "posterior/spectrum.h"

/* What a rule may know of the model. sigma, delta, beta are in conf. */
struct kb_conf_view {
    const struct kb_conf_spec *conf;
    double lambda;                      /* the ridge a0 of the posterior's own mean and sd */
    double log_det;                     /* ln det(I + K / lambda) */
    double accuracy;                    /* epsilon of the representation, for bkb */
    double norm_bound;                  /* B in force: as configured, or found by the rule under "auto" */
    struct kb_conf_finding found;       /* by the rule's `look` */
    const struct kb_spectrum *spectrum; /* NULL unless the rule reads it */
};

/* At most KB_CONF_BLOCK candidates. */
#define KB_CONF_BLOCK 64u
struct kb_conf_block {
    size_t n;
    const double *mean, *sd; /* [n] the posterior's, at ridge lambda */
    const double *w, *prior; /* with a spectrum: column c of w (leading dimension ld), k(c, c) */
    size_t ld;
    double *lower, *upper; /* [n] out */
};

struct kb_conf_ops {
    bool reads_spectrum; /* must agree with kb_spec_reads_spectrum; asserted */
    /* Finds what the bounds need besides candidates, B_min with it: "auto" then follows B_min instead of meaning 1.
     * NULL: nothing. */
    void (*look)(struct kb_conf_view *v);
    void (*bounds)(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena);
};

extern const struct kb_conf_ops kb_conf_fixed, kb_conf_lk, kb_conf_ek, kb_conf_ay, kb_conf_igp; /* conf_radius.c */
extern const struct kb_conf_ops kb_conf_bkb, kb_conf_ek_plus;
extern const struct kb_conf_ops kb_conf_amm, kb_conf_dmm, kb_conf_cmm;                            /* conf_amm.c */
extern const struct kb_conf_ops kb_conf_sketched_amm, kb_conf_sketched_dmm, kb_conf_sketched_cmm; /* conf_sketch.c */

/* lower[i], upper[i], score[i] = upper[i] for the n candidates
 * whose posterior mean and sd are given. When the
 * confidence set is empty (norm_bound or noise are too small for the data) the bounds are those of `fixed`, and it is
 * counted. No allocation: the scratch fits by kb_posterior_fit_scratch. */
void kb_confidence_bounds(const struct kb_posterior *p, const struct kb_conf_spec *conf,
                          const struct kb_candidates *cand, struct kb_scratch *s, const double *mean, const double *sd,
                          double *lower, double *upper, double *score);

/* What the rule works with, for diagnostics. */
struct kb_conf_facts {
    double norm_bound, norm_least;   /* B in force, and B_min: 0 where the rule finds none */
    double radius, projection_error; /* R and e_t of a rule over a dictionary, else 0 */
};

/* O(n) per ridge tried. */
void kb_confidence_facts(const struct kb_posterior *p, const struct kb_conf_spec *conf, struct kb_conf_facts *out);

#endif
