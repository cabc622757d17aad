/* The search for a model's own scales: mean, noise, variances, lengthscale and ridge by the largest posterior density
 * of what has been rewarded (marginal.h), on a sample of the points that a posterior holds. It changes nothing: the
 * result goes into a spec (tuning.h), and a posterior under that spec is another one. */
#ifndef KB_SCALE_SEARCH_H
#define KB_SCALE_SEARCH_H

#include "kernel/kernel.h"
#include "spec/tuning.h"

struct kb_posterior;

struct kb_scale_search {
    const struct kb_spec *spec;   /* in force; its bits of `learned` say what may move */
    const struct kb_graph *graph; /* of the users' kernel; NULL: none, and its ridge stays */
    bool is_first;                /* nothing has been learned yet: the spec's values are no better than any */
    bool looks_for_rho;           /* else that of the spec stays */
    double mean;                  /* of rewards under a uniform choice, where the prior's mean is learned */
    double range;                 /* of the rewards; 1 while all are alike */
    double square;                /* sum of y^2 over all observations, by the posterior's weights */
    double count;                 /* their sum of weights */
    /* [context_dim] of the contexts, that the result is under; NULL: as in force. The posterior's are those of *spec.
     */
    const double *scale;
    /* Where weights of namespaces are found (kb_spec_finds_spaces), [spec->spaces.n]: what their coordinates shall be
     * divided by. `scale` is NULL then. */
    double *found;
};

/* Whether the representation has scales that it can find out. */
bool kb_posterior_has_scales(const struct kb_posterior *p);

/* What the search comes to; of *out `event` and `rewards` are the caller's. Deterministic. Told to end by s->watch:
 * KB_ECANCELLED. KB_ENOTPD where no scales near those in force fit, KB_ENOMEM. [shared] About 1e9 flops at most,
 * however many points there are, and where it looks for rho up to 1280 columns of the graph's inverse. */
enum kb_err kb_posterior_find_scales(const struct kb_posterior *p, const struct kb_scale_search *search,
                                     struct kb_scratch *s, struct kb_tuning *out);

#endif
