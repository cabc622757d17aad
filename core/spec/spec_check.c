/* What a specification must not be, beyond the ranges of its fields (fields.h): combinations of types and values.
 *
 *   repr_provides what a representation can deliver   } one mask test refuses a rule that needs what the
 *   conf_needs    what a confidence rule asks for     } representation cannot deliver */
#include "spec/spec.h"

#include <math.h>

#include "base/magnitude.h"
#include "spec/fields.h"

/* --- types and combinations --------------------------------------------------------------------------- */

enum capability { CAP_EXACT_GRAM = 1u, CAP_SPECTRUM = 2u };

static const unsigned repr_provides[KB_REPR_N] = {
    [KB_REPR_EXACT] = CAP_EXACT_GRAM | CAP_SPECTRUM,
    [KB_REPR_KORS] = CAP_SPECTRUM,
    [KB_REPR_THRESHOLD] = CAP_SPECTRUM,
    [KB_REPR_BKB] = CAP_SPECTRUM,
    [KB_REPR_BBKB] = CAP_SPECTRUM,
    [KB_REPR_BY_ARM] = CAP_EXACT_GRAM,
    [KB_REPR_BY_COMPONENT] = 0,
};
/* lk, ay, igp are proved for the exact posterior alone; ek_plus is what they become on a dictionary. */
static const unsigned conf_needs[KB_CONF_N] = {
    [KB_CONF_FIXED] = 0,
    [KB_CONF_LK] = CAP_EXACT_GRAM,
    [KB_CONF_EK] = CAP_SPECTRUM,
    [KB_CONF_AY] = CAP_EXACT_GRAM,
    [KB_CONF_IGP] = CAP_EXACT_GRAM,
    [KB_CONF_AMM] = CAP_SPECTRUM,
    [KB_CONF_DMM] = CAP_SPECTRUM,
    [KB_CONF_CMM] = CAP_SPECTRUM,
    [KB_CONF_BKB] = CAP_SPECTRUM,
    [KB_CONF_EK_PLUS] = CAP_SPECTRUM,
};

bool kb_repr_is_resampled(enum kb_repr_type type)
{
    return type == KB_REPR_BKB || type == KB_REPR_BBKB;
}

bool kb_repr_is_of_components(enum kb_repr_type type)
{
    return type == KB_REPR_BY_ARM || type == KB_REPR_BY_COMPONENT;
}

bool kb_rule_reads_levels(enum kb_rule_type type)
{
    return type == KB_RULE_SUP_KERNEL;
}

/* amm on all points has a closed form in numbers that the exact posterior keeps. */
bool kb_conf_reads_spectrum(enum kb_conf_type type, bool is_sketch)
{
    return (conf_needs[type] & CAP_SPECTRUM) != 0 && (is_sketch || type != KB_CONF_AMM);
}

bool kb_spec_reads_spectrum(const struct kb_spec *spec)
{
    return kb_conf_reads_spectrum(spec->conf.type, spec->repr.type != KB_REPR_EXACT);
}

bool kb_spec_is_diagonal(const struct kb_spec *spec)
{
    const enum kb_user_kernel_type user = spec->user_kernel.type;
    const enum kb_vec_kernel_type context = spec->context_kernel.type, arm = spec->arm_kernel.type;
    return spec->repr.type == KB_REPR_EXACT && (user == KB_USER_ONES || user == KB_USER_IDENTITY) &&
           (context == KB_VEC_ONES || context == KB_VEC_DELTA) && (arm == KB_VEC_ONES || arm == KB_VEC_DELTA);
}

bool kb_spec_is_unbounded(const struct kb_spec *spec)
{
    return kb_spec_is_diagonal(spec) && !kb_spec_reads_spectrum(spec);
}

/* Bounds are of the kernel as it is, and elimination compares widths with its variance of 1. */
static bool can_be_scaled(const struct kb_spec *spec)
{
    return kb_spec_is_diagonal(spec) && spec->conf.type == KB_CONF_FIXED && !kb_rule_reads_levels(spec->rule.type);
}

bool kb_spec_is_scaled(const struct kb_spec *spec)
{
    return spec->is_tuned && can_be_scaled(spec);
}

bool kb_spec_has_prior(const struct kb_spec *spec)
{
    return kb_repr_is_of_components(spec->repr.type) || kb_spec_is_scaled(spec);
}

void kb_spec_tune(struct kb_spec *spec, bool is_tuned)
{
    if (spec->repr.type != KB_REPR_EXACT)
        return;
    spec->is_tuned = is_tuned && can_be_scaled(spec);
    if (spec->is_tuned)
        kb_spec_learn(spec, KB_LEARNED_APART);
    else
        kb_spec_unlearn(spec, KB_LEARNED_APART);
}

struct kb_spec kb_spec_of_parts(const struct kb_spec *spec, bool has_graph)
{
    struct kb_spec parts = *spec;
    if (!kb_repr_is_of_components(spec->repr.type))
        return parts;
    if (!(spec->prior.user > 0) || (kb_user_kernel_reads_graph(spec->user_kernel.type) && !has_graph))
        parts.user_kernel.type = KB_USER_ONES;
    if (!(spec->prior.context > 0) && !(spec->prior.linear > 0))
        parts.context_kernel.type = KB_VEC_ONES;
    return parts;
}

/* Rules that come from a ball around the rewards [TC]. */
static bool has_ball(enum kb_conf_type type)
{
    return type == KB_CONF_AMM || type == KB_CONF_DMM || type == KB_CONF_CMM;
}

/* The ball around the rewards is told to a dictionary reward by reward, so none of them may change later. */
static bool needs_first_rewards(const struct kb_spec *spec)
{
    return spec->repr.type != KB_REPR_EXACT && has_ball(spec->conf.type);
}

static bool is_served(const struct kb_spec *spec)
{
    return (conf_needs[spec->conf.type] & ~repr_provides[spec->repr.type]) == 0;
}

void kb_spec_drop_unserved_confidence(struct kb_spec *spec)
{
    if (!is_served(spec) || (needs_first_rewards(spec) && spec->aggregation != KB_AGG_FIRST) ||
        spec->forgetting.type != KB_FORGET_NONE || spec->pending != KB_PENDING_IGNORE)
        spec->conf.type = KB_CONF_FIXED;
    spec->conf.is_mixture = spec->conf.is_mixture && spec->conf.type != KB_CONF_FIXED;
}

static bool has_lengthscale(enum kb_vec_kernel_type type)
{
    return (KB_STATIONARY_KERNELS >> type & 1) != 0;
}

bool kb_user_kernel_reads_graph(enum kb_user_kernel_type type)
{
    return (KB_GRAPH_KERNELS >> type & 1) != 0;
}

bool kb_user_kernel_is_learned(enum kb_user_kernel_type type)
{
    return type == KB_USER_MMD;
}

/* The virtual node has a place in (L + rho I)^-1 and in nothing else here. rho^-power is the prior variance of an
 * isolated user, which has to stay within the range of every other positive parameter. */
static enum kb_err check_user_kernel(const struct kb_user_kernel_spec *u, struct kb_errmsg *msg)
{
    bool is_inverse = u->type == KB_USER_LAPLACIAN && u->power == 1.0;
    if (!kb_user_kernel_reads_graph(u->type) || is_inverse)
        return KB_OK;
    if (u->population > 0)
        return kb_fail(KB_EUNSUPPORTED, msg, "/user_kernel/population",
                       "a population needs the kernel laplacian with power 1: set it to 0");
    double variance = u->type == KB_USER_LAPLACIAN ? pow(u->rho, -u->power) : 1.0;
    if (variance < KB_LEAST_SCALE || variance > KB_MOST_SCALE)
        return kb_fail(KB_EUNSUPPORTED, msg, "/user_kernel/power", "rho to this power is beyond %g to %g",
                       KB_LEAST_SCALE, KB_MOST_SCALE);
    return KB_OK;
}

/* What a learned kernel is learned from, and what it has no place for: a virtual node, variances to even out. */
static enum kb_err check_learned(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const struct kb_user_kernel_spec *u = &spec->user_kernel;
    const char *name = kb_word(&kb_user_kernel_words, (int)u->type);
    if (!kb_user_kernel_is_learned(u->type))
        return KB_OK;
    if (spec->context_dim == 0 && spec->arm_dim == 0)
        return kb_fail(KB_EUNSUPPORTED, msg, "/user_kernel/type", "%s needs contexts or arms with features", name);
    if (u->population > 0)
        return kb_fail(KB_EUNSUPPORTED, msg, "/user_kernel/population", "%s reads no graph: set it to 0", name);
    if (u->is_normalized)
        return kb_fail(KB_EUNSUPPORTED, msg, "/user_kernel/normalize", "%s has variance 1 already: set it to false",
                       name);
    return KB_OK;
}

/* Without coordinates there is nothing but identity to compare arms by, and nothing at all for contexts. */
static enum kb_err check_combination(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    enum kb_vec_kernel_type arm = spec->arm_kernel.type;
    if (spec->arm_dim == 0 && arm != KB_VEC_DELTA && arm != KB_VEC_ONES)
        return kb_fail(KB_EUNSUPPORTED, msg, "/arm_kernel/type", "%s needs arms with features; arm_dim is 0",
                       kb_word(&kb_vec_kernel_words, (int)arm));
    if (spec->context_dim == 0 && spec->context_kernel.type != KB_VEC_ONES)
        return kb_fail(KB_EUNSUPPORTED, msg, "/context_kernel/type", "%s needs contexts; context_dim is 0",
                       kb_word(&kb_vec_kernel_words, (int)spec->context_kernel.type));
    if (spec->context_kernel.is_median && !has_lengthscale(spec->context_kernel.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/context_kernel/lengthscale", "this kernel has no lengthscale");
    if (spec->arm_kernel.is_median && !has_lengthscale(arm))
        return kb_fail(KB_EUNSUPPORTED, msg, "/arm_kernel/lengthscale", "this kernel has no lengthscale");
    if (spec->repr.type == KB_REPR_BY_ARM && arm != KB_VEC_DELTA)
        return kb_fail(KB_EUNSUPPORTED, msg, "/representation/type",
                       "by_arm holds every arm apart and needs the arm kernel delta, not %s",
                       kb_word(&kb_vec_kernel_words, (int)arm));
    if (spec->repr.type == KB_REPR_BY_ARM && !is_served(spec))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "%s needs the spectrum of one model; on by_arm take fixed, lk, ay or igp",
                       kb_word(&kb_conf_words, (int)spec->conf.type));
    if (spec->repr.type == KB_REPR_BY_COMPONENT && !is_served(spec))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "%s is not proved for a sum of components; on by_component take fixed",
                       kb_word(&kb_conf_words, (int)spec->conf.type));
    if (kb_spec_is_scaled(spec) && !(spec->prior.arm > 0))
        return kb_fail(KB_EUNSUPPORTED, msg, "/prior/arm",
                       "expected more than 0: it is the only variance that this model has");
    if (!is_served(spec))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "%s needs representation exact; on %s take ek_plus, amm, dmm or cmm",
                       kb_word(&kb_conf_words, (int)spec->conf.type), kb_word(&kb_repr_words, (int)spec->repr.type));
    if (spec->conf.is_mixture && (!has_ball(spec->conf.type) || !kb_spec_reads_spectrum(spec)))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/mixture",
                       "a mixture is the radius of dmm and cmm, and of amm on a dictionary");
    if (needs_first_rewards(spec) && spec->aggregation != KB_AGG_FIRST)
        return kb_fail(KB_EUNSUPPORTED, msg, "/aggregation",
                       "%s on %s needs aggregation first: its radius counts each reward as it was first told",
                       kb_word(&kb_conf_words, (int)spec->conf.type), kb_word(&kb_repr_words, (int)spec->repr.type));
    return KB_OK;
}

/* Levels are a factor of the kernel that only the exact posterior keeps apart, and the elimination is stated for one
 * width beta sd: the other bounds hold for the whole of the data, not for a level's share of it. */
static enum kb_err check_rule(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const char *rule = kb_word(&kb_rule_words, (int)spec->rule.type);
    if (spec->rule.type == KB_RULE_SPLIT && !(kb_split_sum(&spec->rule.split) > 0))
        return kb_fail(KB_EUNSUPPORTED, msg, "/rule/weights", "the rule split needs an arm with a weight above 0");
    if (!kb_rule_reads_levels(spec->rule.type))
        return KB_OK;
    if (spec->repr.type != KB_REPR_EXACT)
        return kb_fail(KB_EUNSUPPORTED, msg, "/representation/type",
                       "the rule %s learns by levels and needs representation exact, not %s", rule,
                       kb_word(&kb_repr_words, (int)spec->repr.type));
    if (spec->conf.type != KB_CONF_FIXED)
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "the rule %s compares widths beta sd and needs confidence fixed, not %s", rule,
                       kb_word(&kb_conf_words, (int)spec->conf.type));
    return KB_OK;
}

/* Every bound counts a reward as one observation of an f that stays as it is: with weights, and an f that moves, none
 * of them holds as stated (docs/decisions/0015). Elimination throws arms away for good, which drift would bring back.
 */
static enum kb_err check_forgetting(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (spec->forgetting.type == KB_FORGET_NONE)
        return KB_OK;
    if (spec->conf.type != KB_CONF_FIXED)
        return kb_fail(KB_EUNSUPPORTED, msg, "/forgetting/type",
                       "the bounds of %s count every reward in full and do not hold when some are forgotten: take "
                       "confidence fixed",
                       kb_word(&kb_conf_words, (int)spec->conf.type));
    if (kb_rule_reads_levels(spec->rule.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/forgetting/type",
                       "the rule %s eliminates arms for good and cannot forget",
                       kb_word(&kb_rule_words, (int)spec->rule.type));
    return KB_OK;
}

/* Deviations know decisions without a reward as if one had come that says what is believed already (open.h). The rules
 * that count what was learned by themselves would go on without them. */
static enum kb_err check_pending(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (spec->pending != KB_PENDING_HALLUCINATE)
        return KB_OK;
    if (spec->conf.type != KB_CONF_FIXED)
        return kb_fail(KB_EUNSUPPORTED, msg, "/pending",
                       "the bounds of %s hold for rewards that have come: hallucinate needs confidence fixed",
                       kb_word(&kb_conf_words, (int)spec->conf.type));
    if (kb_rule_reads_levels(spec->rule.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/pending",
                       "the rule %s eliminates arms by what a level has learned and cannot hallucinate",
                       kb_word(&kb_rule_words, (int)spec->rule.type));
    if (kb_user_kernel_is_learned(spec->user_kernel.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/pending",
                       "the user kernel %s is learned from rewards and cannot hallucinate",
                       kb_word(&kb_user_kernel_words, (int)spec->user_kernel.type));
    if (spec->forgetting.type != KB_FORGET_NONE)
        return kb_fail(KB_EUNSUPPORTED, msg, "/pending",
                       "what is forgotten has no weight to be taken back by: hallucinate needs forgetting none");
    return KB_OK;
}

/* Who gets the baseline needs one. */
static enum kb_err check_routing(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const struct kb_routing_spec *r = &spec->routing;
    const bool is_named = r->baseline != KB_BASELINE_ARM || (r->arm[0] != '\0' && r->arm[KB_ID_MAX_BYTES] == '\0');
    enum kb_err rc = KB_OK;

    if (!is_named || r->salt[KB_SALT_MAX_BYTES] != '\0')
        return kb_fail(KB_EINVAL, msg, "/routing/holdout/baseline", "expected an arm, or the rule uniform or first");
    KB_TRY(kb_fields_check(spec, KB_TURN_ROUTING, msg));
    if (r->baseline != KB_BASELINE_NONE)
        return KB_OK;
    if (r->holdout > 0)
        return kb_fail(KB_EUNSUPPORTED, msg, "/routing/holdout/baseline",
                       "a holdout needs a baseline: an arm, or the rule uniform or first");
    if (r->is_stopped)
        return kb_fail(KB_EUNSUPPORTED, msg, "/routing/stopped",
                       "a stopped tenant shows the baseline: name one in holdout");
out:
    return rc;
}

/* Types first: what follows indexes tables with them. */
enum kb_err kb_spec_check(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    enum kb_err rc;

    KB_TRY(kb_fields_check(spec, KB_TURN_TYPES, msg));
    KB_TRY(kb_fields_check(spec, KB_TURN_COUNTS, msg));
    if (spec->has_default_reward && !kb_is_measurable(spec->default_reward))
        return kb_fail(KB_EINVAL, msg, "/default_reward", "expected at most %g in size", KB_MOST_MAGNITUDE);
    KB_TRY(kb_fields_check(spec, KB_TURN_REALS, msg));
    KB_TRY(kb_fields_check(spec, KB_TURN_LATER, msg));
    KB_TRY(check_user_kernel(&spec->user_kernel, msg));
    KB_TRY(check_learned(spec, msg));
    KB_TRY(check_combination(spec, msg));
    KB_TRY(check_rule(spec, msg));
    KB_TRY(check_forgetting(spec, msg));
    KB_TRY(check_pending(spec, msg));
    KB_TRY(check_routing(spec, msg));
out:
    return rc;
}
