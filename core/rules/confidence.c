/* Confidence rules: the table, what the rules are told, blocks of candidates, and what happens to an empty set.
 *
 * A rule is a row of `rules`. Most are mean -+ radius sd with one radius for all candidates; the others minimise over
 * the ridge candidate by candidate and read the spectrum (spectrum.h). Rules are told sigma (noise), delta, beta, the
 * ridge lambda, ln det(I + K/lambda), and B, the bound on the norm of f.
 *
 *   c = noise^2 / lambda   scale of the prior in the TC rules, so that their a0 = sigma^2 / c is the posterior's lambda
 *   B "auto"               max(1, 1.2 B_min) where the rule computes B_min, and 1 where not (docs/decisions/0011)
 *   B < B_min              no function of norm B agrees with the data at level delta: the confidence set is empty. The
 *                          bounds are then those of `fixed`, and the decision is counted (kb_posterior_facts.n_empty);
 *                          likewise where a dictionary's ball was told rewards that have changed since
 *
 * B_min is that of the moment and keeps no memory of earlier ones, though the largest of them would be valid, too: a
 * restart must find the same bounds.
 *
 * Which rule can be had from which representation is said by spec_check.c. The spectrum may be a little older than
 * the posterior (kb_posterior_settle). A confidence set that held at an earlier time holds ever after, so bounds that
 * come from the spectrum alone stay valid; they are never mixed with newer numbers.
 *
 * What a rule finds in the spectrum alone, R, h and B_min, is found once for each spectrum and kept beside it: the
 * first decision after a publish pays for all.
 *
 * Cost: O(n) per candidate and ridge, plus O(n^2) per candidate for the projection where the spectrum is read. */
#include "rules/confidence.h"

#include <assert.h>
#include <math.h>

#include "posterior/spectrum.h"

#define AUTO_NORM 1.0   /* where the rule cannot find one, and its least value where it can */
#define AUTO_MARGIN 1.2 /* B_min is a lower bound: .77 to .94 of the true norm after 100 points */

/* A rule on the exact posterior, and on a dictionary. */
static const struct kb_conf_ops *const rules[KB_CONF_N][2] = {
    [KB_CONF_FIXED] = {&kb_conf_fixed, &kb_conf_fixed},
    [KB_CONF_LK] = {&kb_conf_lk, NULL},
    [KB_CONF_EK] = {&kb_conf_ek, &kb_conf_ek},
    [KB_CONF_AY] = {&kb_conf_ay, NULL},
    [KB_CONF_IGP] = {&kb_conf_igp, NULL},
    [KB_CONF_AMM] = {&kb_conf_amm, &kb_conf_sketched_amm},
    [KB_CONF_DMM] = {&kb_conf_dmm, &kb_conf_sketched_dmm},
    [KB_CONF_CMM] = {&kb_conf_cmm, &kb_conf_sketched_cmm},
    [KB_CONF_BKB] = {&kb_conf_bkb, &kb_conf_bkb},
    [KB_CONF_EK_PLUS] = {&kb_conf_ek_plus, &kb_conf_ek_plus},
};

/* The rule's row; which rows read the spectrum is known to spec_check.c, too, because posteriors are made by specs. */
static const struct kb_conf_ops *rule_of(const struct kb_conf_spec *conf, bool is_sketch)
{
    assert((int)conf->type >= 0 && conf->type < KB_CONF_N && rules[conf->type][is_sketch] != NULL);
    assert(rules[conf->type][is_sketch]->reads_spectrum == kb_conf_reads_spectrum(conf->type, is_sketch));
    return rules[conf->type][is_sketch];
}

/* B in force, by the file header. */
static double norm_in_force(const struct kb_conf_ops *rule, const struct kb_conf_view *v)
{
    if (v->conf->norm_bound > 0)
        return v->conf->norm_bound;
    return rule->look != NULL ? fmax(AUTO_NORM, AUTO_MARGIN * v->found.norm_least) : AUTO_NORM;
}

/* Whether rules of the two find the same in one spectrum. */
static bool looks_alike(const struct kb_conf_spec *a, const struct kb_conf_spec *b)
{
    return a->type == b->type && a->form == b->form && a->is_mixture == b->is_mixture && a->noise == b->noise &&
           a->delta == b->delta;
}

/* The finding of an earlier look at the spectrum, if there is one by this rule. */
static bool recall(struct kb_conf_view *v)
{
    const struct kb_conf_memo *memo = &v->spectrum->memo;
    if (atomic_load_explicit(&memo->stage, memory_order_acquire) != KB_MEMO_THERE || !looks_alike(&memo->conf, v->conf))
        return false;
    v->found = memo->finding;
    return true;
}

/* One of the readers writes, the others go on with what they have found themselves: the same. */
static void remember(const struct kb_conf_view *v)
{
    struct kb_conf_memo *memo = (struct kb_conf_memo *)&v->spectrum->memo; /* the object itself is never const */
    int empty = KB_MEMO_EMPTY;
    if (!atomic_compare_exchange_strong_explicit(&memo->stage, &empty, KB_MEMO_WRITTEN, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    memo->conf = *v->conf;
    memo->finding = v->found;
    atomic_store_explicit(&memo->stage, KB_MEMO_THERE, memory_order_release);
}

/* What the rule is told. */
static struct kb_conf_view look(const struct kb_posterior *p, const struct kb_conf_spec *conf)
{
    const struct kb_conf_ops *rule = rule_of(conf, kb_posterior_is_sketch(p));
    struct kb_conf_view v = {
        .conf = conf,
        .lambda = kb_posterior_lambda(p),
        .log_det = conf->type != KB_CONF_FIXED ? kb_posterior_log_det(p) : 0, /* a sum over arms, perhaps */
        .accuracy = kb_posterior_accuracy(p),
        .spectrum = rule->reads_spectrum ? kb_posterior_spectrum(p) : NULL,
    };
    assert(!rule->reads_spectrum || v.spectrum != NULL);
    if (rule->look != NULL && !recall(&v)) {
        rule->look(&v);
        remember(&v);
    }
    v.norm_bound = norm_in_force(rule, &v);
    return v;
}

/* KB_CONF_BLOCK candidates at a time, projected on the spectrum where the rule reads it. */
static void bound_blocks(const struct kb_posterior *p, const struct kb_conf_view *v, const struct kb_candidates *cand,
                         struct kb_scratch *s, const double *mean, const double *sd, double *lower, double *upper)
{
    const struct kb_conf_ops *rule = rule_of(v->conf, kb_posterior_is_sketch(p));
    for (size_t c0 = 0; c0 < cand->n; c0 += KB_CONF_BLOCK) {
        size_t mark = kb_arena_mark(&s->arena);
        struct kb_conf_block b = {
            .n = cand->n - c0 < KB_CONF_BLOCK ? cand->n - c0 : KB_CONF_BLOCK,
            .mean = mean + c0,
            .sd = sd + c0,
            .lower = lower + c0,
            .upper = upper + c0,
        };
        if (v->spectrum != NULL)
            b.w = kb_posterior_project(p, cand, c0, b.n, s, &b.ld, &b.prior);
        rule->bounds(v, &b, &s->arena);
        kb_arena_reset(&s->arena, mark);
    }
}

void kb_confidence_bounds(const struct kb_posterior *p, const struct kb_conf_spec *conf,
                          const struct kb_candidates *cand, struct kb_scratch *s, const double *mean, const double *sd,
                          double *lower, double *upper, double *score)
{
    struct kb_conf_spec fallback = *conf;
    struct kb_conf_view v = look(p, conf);
    if (v.found.is_void || v.norm_bound < v.found.norm_least) {
        kb_posterior_count_empty(p);
        fallback.type = KB_CONF_FIXED;
        v = look(p, &fallback);
    }
    bound_blocks(p, &v, cand, s, mean, sd, lower, upper);
    for (size_t i = 0; i < cand->n; i++)
        score[i] = upper[i];
}

void kb_confidence_facts(const struct kb_posterior *p, const struct kb_conf_spec *conf, struct kb_conf_facts *out)
{
    struct kb_conf_view v = look(p, conf);
    *out = (struct kb_conf_facts){.norm_bound = v.norm_bound, .norm_least = v.found.norm_least};
    if (v.spectrum != NULL && v.spectrum->is_sketch) {
        out->radius = v.found.is_void ? 0 : sqrt(v.found.radius_sq);
        out->projection_error = v.spectrum->sketch.error;
    }
}
