/* Whether two specifications make the same model: the same kernel values, the same features, the same sums for
 * confidence rules. Where they do, a change of configuration takes effect at once; where not, it is followed by a
 * rebuild from the history. Parameters that a type does not read are not compared.
 *
 * A new parameter belongs here as soon as a posterior reads it; tests/unit/spec/test_spec.c walks them
 * (only_what_moves_a_kernel_value_or_a_feature_makes_another_model). */
#include "spec/spec.h"

/* Equal values for all arguments; parameters that the type does not read are not compared. */
static bool same_vec_kernel(const struct kb_vec_kernel_spec *a, const struct kb_vec_kernel_spec *b)
{
    if (a->type != b->type)
        return false;
    if (kb_vec_kernel_has_lengthscale(a->type))
        return a->lengthscale == b->lengthscale && a->is_median == b->is_median;
    return a->type != KB_VEC_POLYNOMIAL || (a->degree == b->degree && a->offset == b->offset);
}

/* Likewise for the users; normalisation belongs to the kernels over the graph. */
static bool same_user_kernel(const struct kb_user_kernel_spec *a, const struct kb_user_kernel_spec *b)
{
    if (a->type != b->type)
        return false;
    if (kb_user_kernel_is_learned(a->type))
        return a->lengthscale == b->lengthscale && a->bandwidth == b->bandwidth && a->n_features == b->n_features &&
               a->min_observations == b->min_observations;
    if (!kb_user_kernel_reads_graph(a->type))
        return true;
    if (a->is_normalized != b->is_normalized)
        return false;
    if (a->type == KB_USER_HEAT)
        return a->tau == b->tau;
    if (a->type == KB_USER_SPECTRAL_RBF)
        return a->n_vectors == b->n_vectors && a->lengthscale == b->lengthscale;
    return a->rho == b->rho && a->population == b->population && a->power == b->power && a->tolerance == b->tolerance;
}

/* Fields of the other representations are not read; exact_limit is the engine's, not the posterior's. */
static bool same_repr(const struct kb_repr_spec *a, const struct kb_repr_spec *b)
{
    if (a->type != b->type || a->lambda != b->lambda)
        return false;
    if (a->type == KB_REPR_EXACT)
        return true;
    if (a->max_dictionary != b->max_dictionary)
        return false;
    if (a->type == KB_REPR_THRESHOLD)
        return a->threshold == b->threshold;
    if (kb_repr_is_resampled(a->type))
        return a->q == b->q && (a->type == KB_REPR_BKB || a->batch_ratio == b->batch_ratio);
    return a->mu == b->mu && a->gamma == b->gamma && a->epsilon == b->epsilon;
}

bool kb_spec_same_model(const struct kb_spec *a, const struct kb_spec *b)
{
    return a->context_dim == b->context_dim && a->arm_dim == b->arm_dim &&
           same_user_kernel(&a->user_kernel, &b->user_kernel) &&
           same_vec_kernel(&a->context_kernel, &b->context_kernel) && same_vec_kernel(&a->arm_kernel, &b->arm_kernel) &&
           same_repr(&a->repr, &b->repr) && kb_spec_reads_spectrum(a) == kb_spec_reads_spectrum(b) &&
           (!kb_spec_reads_spectrum(a) || a->conf.score == b->conf.score) && a->conf.is_mixture == b->conf.is_mixture &&
           kb_rule_reads_levels(a->rule.type) == kb_rule_reads_levels(b->rule.type);
}

void kb_spec_take_books(struct kb_spec *to, const struct kb_spec *from)
{
    to->aggregation = from->aggregation;
    to->has_default_reward = from->has_default_reward;
    to->default_reward = from->default_reward;
    to->reward_window_ms = from->reward_window_ms;
    to->routing = from->routing;
}
