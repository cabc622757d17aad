/* Confidence rules: lower, upper and score of every candidate from the posterior, behind one table of functions.
 * Types and their names: spec.[ch]. Families: conf_radius.c (mean -+ radius sd), conf_amm.c (minima over the ridge). */
#ifndef KB_CONFIDENCE_H
#define KB_CONFIDENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "posterior.h"
#include "spec.h"

/* What a rule may know of the model. sigma, delta, beta are in conf. */
struct kb_conf_view {
    const struct kb_conf_spec *conf;
    double lambda;     /* the ridge a0 of the posterior's own mean and sd */
    double log_det;    /* ln det(I + K / lambda) */
    double norm_bound; /* B in force: as configured, or found by the rule under "auto" */
    double norm_least; /* B_min: the data prove, at level delta, that |f| is at least this; 0 unknown */
    double radius_sq;  /* R^2 of TC eq. 8 less the scatter of repeated rewards; with a spectrum */
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
    bool finds_norm;     /* "auto" follows B_min instead of meaning 1 */
    void (*bounds)(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena);
};

extern const struct kb_conf_ops kb_conf_fixed, kb_conf_lk, kb_conf_ek, kb_conf_ay, kb_conf_igp; /* conf_radius.c */
extern const struct kb_conf_ops kb_conf_amm, kb_conf_dmm, kb_conf_cmm;                          /* conf_amm.c */

/* R^2 and B_min of a spectrum (conf_amm.c). `work`: n doubles. O(n) per ridge tried, about thirty. */
double kb_conf_radius_sq(const struct kb_conf_view *v, double *work);
double kb_conf_norm_least(const struct kb_conf_view *v, double *work);

/* lower[i], upper[i], score[i] = upper[i] for the n candidates whose posterior mean and sd are given. When the
 * confidence set is empty (norm_bound or noise are too small for the data) the bounds are those of `fixed`, and it is
 * counted. No allocation: the scratch fits by kb_posterior_fit_scratch. */
void kb_confidence_bounds(const struct kb_posterior *p, const struct kb_conf_spec *conf,
                          const struct kb_candidates *cand, struct kb_scratch *s, const double *mean, const double *sd,
                          double *lower, double *upper, double *score);

/* B in force and B_min, for diagnostics. KB_ENOMEM. */
enum kb_err kb_confidence_norm(const struct kb_posterior *p, const struct kb_conf_spec *conf, double *norm_bound,
                               double *norm_least);

#endif
