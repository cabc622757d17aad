/* The specification of a model: ranges of its parts, combinations and digest. Equality: spec_same.c.
 *
 * Everything here is a table walked by a short loop. Adding a kernel, rule or representation is an enum value,
 * a name in spec_names.c, and (where it has parameters) rows in `ranges`.
 *
 *   ranges        every double of the spec with its interval and the JSON pointer that a refusal names
 *   repr_provides what a representation can deliver   } one mask test refuses a rule that needs what the
 *   conf_needs    what a confidence rule asks for     } representation cannot deliver
 *
 * Positive parameters are confined to [1e-12, 1e12] rather than (0, inf): beyond that a pivot of the order of
 * lambda is below the rounding of the kernel values and the factorisation carries no information. */
#include "spec/spec.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/magnitude.h"

#define MAX_DIM 4096u
#define MAX_DICTIONARY 4096u
#define MAX_EXACT 16384u
#define MAX_DEGREE 8
#define MAX_POWER 4
#define MAX_TOLERANCE 0.1
#define MAX_VECTORS 2048u /* as many as a dense graph can have */
#define MAX_FEATURES 4096u
#define MAX_OBSERVATIONS 1000000u
#define MAX_WINDOW_MS (INT64_C(10) * 366 * 24 * 3600 * 1000)
#define MAX_SEED (UINT64_C(1) << 53)
#define MIN_HALF_LIFE_S 0.001
#define MAX_HALF_LIFE_S 1e9

/* --- ranges ------------------------------------------------------------------------------------------ */

/* A double of the spec: lo <= value <= hi, with the ends left out where `is_open` says so. */
struct range {
    size_t offset;
    const char *pointer;
    double lo, hi;
    bool is_open;
};

#define FIELD(member) offsetof(struct kb_spec, member)

static const struct range ranges[] = {
    {FIELD(user_kernel.rho), "/user_kernel/rho", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(user_kernel.population), "/user_kernel/population", 0, KB_MOST_SCALE, false},
    {FIELD(user_kernel.tolerance), "/user_kernel/tolerance", 0, MAX_TOLERANCE, false},
    {FIELD(user_kernel.power), "/user_kernel/power", KB_LEAST_SCALE, MAX_POWER, false},
    {FIELD(user_kernel.tau), "/user_kernel/tau", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(user_kernel.lengthscale), "/user_kernel/lengthscale", 0, KB_MOST_SCALE, false},
    {FIELD(user_kernel.bandwidth), "/user_kernel/bandwidth", 0, KB_MOST_SCALE, false},
    {FIELD(context_kernel.lengthscale), "/context_kernel/lengthscale", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(context_kernel.offset), "/context_kernel/offset", 0, KB_MOST_SCALE, false},
    {FIELD(arm_kernel.lengthscale), "/arm_kernel/lengthscale", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(arm_kernel.offset), "/arm_kernel/offset", 0, KB_MOST_SCALE, false},
    {FIELD(repr.lambda), "/representation/lambda", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(repr.mu), "/representation/mu", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(repr.gamma), "/representation/gamma", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(repr.epsilon), "/representation/epsilon", 0, 1, true},
    {FIELD(repr.threshold), "/representation/threshold", 0, 1, true},
    {FIELD(repr.q), "/representation/q", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(repr.batch_ratio), "/representation/batch_ratio", 1, KB_MOST_SCALE, false},
    {FIELD(conf.beta), "/confidence/beta", 0, KB_MOST_SCALE, false},
    {FIELD(conf.norm_bound), "/confidence/norm_bound", 0, KB_MOST_SCALE, false},
    {FIELD(conf.noise), "/confidence/noise", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(conf.delta), "/confidence/delta", 0, 1, true},
    {FIELD(rule.epsilon), "/rule/epsilon", 0, 1, false},
    {FIELD(rule.scale), "/rule/scale", KB_LEAST_SCALE, KB_MOST_SCALE, false},
    {FIELD(forgetting.discount), "/forgetting/discount", 0, 1, true},
    {FIELD(routing.holdout), "/routing/holdout/share", 0, 1, false},
    {FIELD(forgetting.half_life_s), "/forgetting/half_life_s", MIN_HALF_LIFE_S, MAX_HALF_LIFE_S, false},
};

/* Walks `ranges`. NaN fails every comparison and so is outside of every range. */
static enum kb_err check_doubles(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct range *r = &ranges[i];
        double v;
        memcpy(&v, (const char *)spec + r->offset, sizeof v);
        bool is_inside = r->is_open ? v > r->lo && v < r->hi : v >= r->lo && v <= r->hi; /* false for NaN */
        if (!is_inside)
            return kb_fail(KB_EINVAL, msg, r->pointer, "expected a number %s %g and %s %g",
                           r->is_open ? ">" : ">=", r->lo, r->is_open ? "<" : "<=", r->hi);
    }
    return KB_OK;
}

/* Of a learned kernel between users; checked for every kernel, as its other parameters are. */
static enum kb_err check_learning(const struct kb_user_kernel_spec *u, struct kb_errmsg *msg)
{
    if (u->n_features < 1 || u->n_features > MAX_FEATURES)
        return kb_fail(KB_EINVAL, msg, "/user_kernel/features", "expected 1 to %u", MAX_FEATURES);
    if (u->refresh < 1 || u->refresh > MAX_OBSERVATIONS)
        return kb_fail(KB_EINVAL, msg, "/user_kernel/refresh", "expected 1 to %u", MAX_OBSERVATIONS);
    if (u->min_observations < 1 || u->min_observations > MAX_OBSERVATIONS)
        return kb_fail(KB_EINVAL, msg, "/user_kernel/min_observations", "expected 1 to %u", MAX_OBSERVATIONS);
    return KB_OK;
}

/* Integers, which `ranges` cannot hold. */
static enum kb_err check_counts(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (spec->context_dim > MAX_DIM)
        return kb_fail(KB_EINVAL, msg, "/context_dim", "expected 0 to %u", MAX_DIM);
    if (spec->arm_dim > MAX_DIM)
        return kb_fail(KB_EINVAL, msg, "/arm_dim", "expected 0 to %u", MAX_DIM);
    if (spec->user_kernel.n_vectors < 1 || spec->user_kernel.n_vectors > MAX_VECTORS)
        return kb_fail(KB_EINVAL, msg, "/user_kernel/k", "expected 1 to %u", MAX_VECTORS);
    if (spec->repr.max_dictionary < 1 || spec->repr.max_dictionary > MAX_DICTIONARY)
        return kb_fail(KB_EINVAL, msg, "/representation/max_dictionary", "expected 1 to %u", MAX_DICTIONARY);
    if (spec->repr.exact_limit < 1 || spec->repr.exact_limit > MAX_EXACT)
        return kb_fail(KB_EINVAL, msg, "/representation/exact_limit", "expected 1 to %u", MAX_EXACT);
    if (spec->reward_window_ms < 1 || spec->reward_window_ms > MAX_WINDOW_MS)
        return kb_fail(KB_EINVAL, msg, "/reward_window_s", "expected more than 0 and at most ten years");
    if (spec->seed >= MAX_SEED)
        return kb_fail(KB_EINVAL, msg, "/seed", "expected an integer below 2^53");
    if (spec->has_default_reward && !kb_is_measurable(spec->default_reward))
        return kb_fail(KB_EINVAL, msg, "/default_reward", "expected at most %g in size", KB_MOST_MAGNITUDE);
    return KB_OK;
}

/* --- types and combinations --------------------------------------------------------------------------- */

enum capability { CAP_EXACT_GRAM = 1u, CAP_SPECTRUM = 2u };

static const unsigned repr_provides[KB_REPR_N] = {
    [KB_REPR_EXACT] = CAP_EXACT_GRAM | CAP_SPECTRUM,
    [KB_REPR_KORS] = CAP_SPECTRUM,
    [KB_REPR_THRESHOLD] = CAP_SPECTRUM,
    [KB_REPR_BKB] = CAP_SPECTRUM,
    [KB_REPR_BBKB] = CAP_SPECTRUM,
};
static const bool user_reads_graph[KB_USER_N] = {
    [KB_USER_LAPLACIAN] = true, [KB_USER_HEAT] = true, [KB_USER_SPECTRAL_RBF] = true};
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

static const bool rule_reads_levels[KB_RULE_N] = {[KB_RULE_SUP_KERNEL] = true};

bool kb_rule_reads_levels(enum kb_rule_type type)
{
    return rule_reads_levels[type];
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
        spec->forgetting.type != KB_FORGET_NONE)
        spec->conf.type = KB_CONF_FIXED;
    spec->conf.is_mixture = spec->conf.is_mixture && spec->conf.type != KB_CONF_FIXED;
}

/* Enums read from a snapshot or filled by a caller: nothing below may index a table with one unchecked. */
static enum kb_err check_types(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const struct {
        const char *pointer;
        int value, n;
    } types[] = {
        {"/user_kernel/type", (int)spec->user_kernel.type, KB_USER_N},
        {"/context_kernel/type", (int)spec->context_kernel.type, KB_VEC_N},
        {"/arm_kernel/type", (int)spec->arm_kernel.type, KB_VEC_N},
        {"/representation/type", (int)spec->repr.type, KB_REPR_N},
        {"/confidence/type", (int)spec->conf.type, KB_CONF_N},
        {"/confidence/form", (int)spec->conf.form, KB_SKETCH_N},
        {"/confidence/score", (int)spec->conf.score, KB_SCORE_N},
        {"/rule/type", (int)spec->rule.type, KB_RULE_N},
        {"/aggregation", (int)spec->aggregation, KB_AGG_N},
        {"/forgetting/type", (int)spec->forgetting.type, KB_FORGET_N},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].value < 0 || types[i].value >= types[i].n)
            return kb_fail(KB_EINVAL, msg, types[i].pointer, "unknown type");
    }
    return KB_OK;
}

/* The stationary kernels: functions of |x - y| / lengthscale. */
bool kb_vec_kernel_has_lengthscale(enum kb_vec_kernel_type type)
{
    return type == KB_VEC_RBF || type == KB_VEC_MATERN12 || type == KB_VEC_MATERN32 || type == KB_VEC_MATERN52;
}

/* Checked for every kernel, read or not: a configuration that is kept must be one that could be used. */
static enum kb_err check_degree(const struct kb_vec_kernel_spec *k, const char *pointer, struct kb_errmsg *msg)
{
    if (k->degree < 1 || k->degree > MAX_DEGREE)
        return kb_fail(KB_EINVAL, msg, pointer, "expected 1 to %d", MAX_DEGREE);
    return KB_OK;
}

bool kb_user_kernel_reads_graph(enum kb_user_kernel_type type)
{
    return user_reads_graph[type];
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
    if (!user_reads_graph[u->type] || is_inverse)
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
    const char *name = kb_user_kernel_name((int)u->type);
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
                       kb_vec_kernel_name((int)arm));
    if (spec->context_dim == 0 && spec->context_kernel.type != KB_VEC_ONES)
        return kb_fail(KB_EUNSUPPORTED, msg, "/context_kernel/type", "%s needs contexts; context_dim is 0",
                       kb_vec_kernel_name((int)spec->context_kernel.type));
    if (spec->context_kernel.is_median && !kb_vec_kernel_has_lengthscale(spec->context_kernel.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/context_kernel/lengthscale", "this kernel has no lengthscale");
    if (spec->arm_kernel.is_median && !kb_vec_kernel_has_lengthscale(arm))
        return kb_fail(KB_EUNSUPPORTED, msg, "/arm_kernel/lengthscale", "this kernel has no lengthscale");
    if (!is_served(spec))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "%s needs representation exact; on %s take ek_plus, amm, dmm or cmm",
                       kb_conf_name((int)spec->conf.type), kb_repr_name((int)spec->repr.type));
    if (spec->conf.is_mixture && (!has_ball(spec->conf.type) || !kb_spec_reads_spectrum(spec)))
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/mixture",
                       "a mixture is the radius of dmm and cmm, and of amm on a dictionary");
    if (needs_first_rewards(spec) && spec->aggregation != KB_AGG_FIRST)
        return kb_fail(KB_EUNSUPPORTED, msg, "/aggregation",
                       "%s on %s needs aggregation first: its radius counts each reward as it was first told",
                       kb_conf_name((int)spec->conf.type), kb_repr_name((int)spec->repr.type));
    return KB_OK;
}

/* Levels are a factor of the kernel that only the exact posterior keeps apart, and the elimination is stated for one
 * width beta sd: the other bounds hold for the whole of the data, not for a level's share of it. */
static enum kb_err check_rule(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const char *rule = kb_rule_name((int)spec->rule.type);
    if (!rule_reads_levels[spec->rule.type])
        return KB_OK;
    if (spec->repr.type != KB_REPR_EXACT)
        return kb_fail(KB_EUNSUPPORTED, msg, "/representation/type",
                       "the rule %s learns by levels and needs representation exact, not %s", rule,
                       kb_repr_name((int)spec->repr.type));
    if (spec->conf.type != KB_CONF_FIXED)
        return kb_fail(KB_EUNSUPPORTED, msg, "/confidence/type",
                       "the rule %s compares widths beta sd and needs confidence fixed, not %s", rule,
                       kb_conf_name((int)spec->conf.type));
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
                       kb_conf_name((int)spec->conf.type));
    if (rule_reads_levels[spec->rule.type])
        return kb_fail(KB_EUNSUPPORTED, msg, "/forgetting/type",
                       "the rule %s eliminates arms for good and cannot forget", kb_rule_name((int)spec->rule.type));
    return KB_OK;
}

/* Who gets the baseline needs one. */
static enum kb_err check_routing(const struct kb_routing_spec *r, struct kb_errmsg *msg)
{
    const bool is_named = r->baseline != KB_BASELINE_ARM || (r->arm[0] != '\0' && r->arm[KB_ID_MAX_BYTES] == '\0');
    if (r->baseline < 0 || r->baseline >= KB_BASELINE_N || !is_named || r->salt[KB_SALT_MAX_BYTES] != '\0')
        return kb_fail(KB_EINVAL, msg, "/routing/holdout/baseline", "expected an arm, or the rule uniform");
    if (r->sticky_ms < 0 || r->sticky_ms > MAX_WINDOW_MS)
        return kb_fail(KB_EINVAL, msg, "/routing/sticky/ttl_s", "expected at most %g", (double)MAX_WINDOW_MS / 1000);
    if (r->baseline != KB_BASELINE_NONE)
        return KB_OK;
    if (r->holdout > 0)
        return kb_fail(KB_EUNSUPPORTED, msg, "/routing/holdout/baseline",
                       "a holdout needs a baseline: an arm, or the rule uniform");
    if (r->is_stopped)
        return kb_fail(KB_EUNSUPPORTED, msg, "/routing/stopped",
                       "a stopped tenant shows the baseline: name one in holdout");
    return KB_OK;
}

/* Types first: what follows indexes tables with them. */
enum kb_err kb_spec_check(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    enum kb_err rc;
    KB_TRY(check_types(spec, msg));
    KB_TRY(check_counts(spec, msg));
    KB_TRY(check_doubles(spec, msg));
    KB_TRY(check_degree(&spec->context_kernel, "/context_kernel/degree", msg));
    KB_TRY(check_degree(&spec->arm_kernel, "/arm_kernel/degree", msg));
    KB_TRY(check_learning(&spec->user_kernel, msg));
    KB_TRY(check_user_kernel(&spec->user_kernel, msg));
    KB_TRY(check_learned(spec, msg));
    KB_TRY(check_combination(spec, msg));
    KB_TRY(check_rule(spec, msg));
    KB_TRY(check_forgetting(spec, msg));
    KB_TRY(check_routing(&spec->routing, msg));
out:
    return rc;
}

/* --- digest ------------------------------------------------------------------------------------------------ */

/* The part of a vector kernel that is not a double. */
static uint64_t digest_vec_kernel(uint64_t h, const struct kb_vec_kernel_spec *k)
{
    h = kb_hash_u64(h, (uint64_t)k->type);
    h = kb_hash_u64(h, k->is_median);
    return kb_hash_u64(h, (uint64_t)k->degree);
}

/* Integers and enums first, then the doubles of `ranges` by their bits, then what neither list holds. */
uint64_t kb_spec_digest(const struct kb_spec *spec, uint64_t h)
{
    const uint64_t whole[] = {spec->context_dim,
                              spec->arm_dim,
                              (uint64_t)spec->user_kernel.type,
                              spec->user_kernel.is_normalized,
                              spec->user_kernel.n_vectors,
                              spec->user_kernel.n_features,
                              spec->user_kernel.refresh,
                              spec->user_kernel.min_observations,
                              (uint64_t)spec->repr.type,
                              spec->repr.max_dictionary,
                              spec->repr.exact_limit,
                              (uint64_t)spec->conf.type,
                              (uint64_t)spec->conf.form,
                              spec->conf.is_mixture,
                              (uint64_t)spec->conf.score,
                              (uint64_t)spec->rule.type,
                              (uint64_t)spec->aggregation,
                              (uint64_t)spec->forgetting.type,
                              spec->has_default_reward,
                              (uint64_t)spec->reward_window_ms,
                              (uint64_t)spec->routing.baseline,
                              (uint64_t)spec->routing.sticky_ms,
                              spec->routing.is_stopped,
                              spec->seed};
    h = kb_hash_str(h, spec->algorithm);
    h = kb_hash_str(kb_hash_str(h, spec->routing.arm), spec->routing.salt);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        h = kb_hash_u64(h, whole[i]);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double v;
        memcpy(&v, (const char *)spec + ranges[i].offset, sizeof v);
        h = kb_hash_double(h, v);
    }
    h = digest_vec_kernel(h, &spec->context_kernel);
    h = digest_vec_kernel(h, &spec->arm_kernel);
    return spec->has_default_reward ? kb_hash_double(h, spec->default_reward) : h;
}
