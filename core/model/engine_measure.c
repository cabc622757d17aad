/* Whether a model can compute with what it is told (magnitude.h): asked of each event before it is taken, so that what
 * has been taken can be applied and folded, and of each query.
 *
 * While a rebuild is open, events must suit the kernels in force and those to come. A configuration must suit all
 * vectors that the tenant has: those it has learned, those of open decisions, and those of the catalogue. */
#include "model/engine_state.h"
#include "base/magnitude.h"
#include "spec/fields.h"
#include "vector/vec_kernel.h"

/* What a factor of the kernel may be: both together have a bound. */
static double most_factor(const struct kb_spec *spec)
{
    const bool has_one =
        kb_vec_kernel_is_bounded(spec->context_kernel.type) || kb_vec_kernel_is_bounded(spec->arm_kernel.type);

    return has_one ? KB_MOST_FACTOR * KB_MOST_FACTOR : KB_MOST_FACTOR;
}

static enum kb_err measure(const struct kb_spec *spec, const struct kb_vec_kernel_spec *k, size_t dim, const double *x,
                           const char *pointer, struct kb_errmsg *msg)
{
    if (kb_vec_kernel_measures(k, dim, x, most_factor(spec)))
        return KB_OK;
    if (kb_first_unmeasurable(x, dim) < dim)
        return kb_fail(KB_ERANGE, msg, pointer, "expected numbers of at most %g in size", KB_MOST_MAGNITUDE);
    return kb_fail(KB_ERANGE, msg, pointer,
                   "too large for the %s kernel: its value for this vector with itself is above %g",
                   kb_word(&kb_vec_kernel_words, (int)k->type), most_factor(spec));
}

/* A kernel of vectors without coordinates is that of zeros. */
static enum kb_err check_origin(const struct kb_spec *spec, const struct kb_vec_kernel_spec *k, const char *pointer,
                                struct kb_errmsg *msg)
{
    if (kb_vec_kernel_measures(k, 0, NULL, most_factor(spec)))
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, pointer,
                   "the offset to the power of the degree is above %g, so no vector can be computed with",
                   most_factor(spec));
}

enum kb_err kb_spec_check_origin(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const enum kb_err rc = check_origin(spec, &spec->context_kernel, "/context_kernel/offset", msg);

    return rc != KB_OK ? rc : check_origin(spec, &spec->arm_kernel, "/arm_kernel/offset", msg);
}

/* The linear component has no bound of its own. */
static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1, .degree = 1};

static bool has_linear(const struct kb_spec *spec)
{
    return kb_repr_is_of_components(spec->repr.type) && spec->context_kernel.type != KB_VEC_ONES &&
           spec->prior.linear > 0;
}

/* As the kernels see it. */
enum kb_err kb_measure_context(const struct kb_spec *spec, const double *context, struct kb_errmsg *msg)
{
    const double *seen = context;
    double room[KB_MOST_SPACED_DIM];
    enum kb_err rc = KB_OK;

    if (spec->n_scaled > 0 && kb_first_unmeasurable(context, spec->context_dim) == spec->context_dim) {
        const size_t n = kb_spec_expand_scales(spec, room);
        for (size_t j = 0; j < n; j++)
            room[j] = context[j] / room[j];
        seen = room;
    }
    if (has_linear(spec))
        rc = measure(spec, &linear, spec->context_dim, seen, "/context", msg);
    return rc != KB_OK ? rc : measure(spec, &spec->context_kernel, spec->context_dim, seen, "/context", msg);
}

enum kb_err kb_measure_features(const struct kb_spec *spec, const double *features, const char *pointer,
                                struct kb_errmsg *msg)
{
    return measure(spec, &spec->arm_kernel, spec->arm_dim, features, pointer, msg);
}

enum kb_err kb_engine_measure_context(const struct kb_engine *e, const double *context, struct kb_errmsg *msg)
{
    const enum kb_err rc = kb_measure_context(&e->spec, context, msg);

    return rc == KB_OK ? kb_measure_context(kb_engine_coming_spec(e), context, msg) : rc;
}

enum kb_err kb_engine_measure_features(const struct kb_engine *e, const double *features, const char *pointer,
                                       struct kb_errmsg *msg)
{
    const enum kb_err rc = kb_measure_features(&e->spec, features, pointer, msg);

    return rc == KB_OK ? kb_measure_features(kb_engine_coming_spec(e), features, pointer, msg) : rc;
}

/* ---- all that is known --------------------------------------------------------------------------------- */

/* A vector of context and features joined. */
static bool suits(const struct kb_spec *spec, const double *x)
{
    const double most = most_factor(spec);

    return (!has_linear(spec) || kb_vec_kernel_measures(&linear, spec->context_dim, x, most)) &&
           kb_vec_kernel_measures(&spec->context_kernel, spec->context_dim, x, most) &&
           kb_vec_kernel_measures(&spec->arm_kernel, spec->arm_dim, x + spec->context_dim, most);
}

static bool suits_history(const struct kb_engine *e, const struct kb_spec *spec)
{
    for (size_t row = 0; row < e->history.n; row++)
        if (!suits(spec, e->history.x + row * e->history.dim))
            return false;
    return true;
}

static bool suits_open_decisions(const struct kb_engine *e, const struct kb_spec *spec)
{
    for (size_t i = 0; i < e->pending.n; i++)
        for (size_t k = 0; k < e->pending.due[i].entry->n_slots; k++)
            if (!suits(spec, e->pending.due[i].entry->slot[k].x))
                return false;
    return true;
}

static bool suits_catalogue(const struct kb_engine *e, const struct kb_spec *spec)
{
    for (size_t i = 0; i < e->arms.n; i++)
        if (e->arms.arm[i].parts.features != NULL &&
            !kb_vec_kernel_measures(&spec->arm_kernel, spec->arm_dim, e->arms.arm[i].parts.features, most_factor(spec)))
            return false;
    return true;
}

/* All of it has passed the test of the kernels that were in force, so only others can fail. */
enum kb_err kb_engine_measure_all(const struct kb_engine *e, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const bool has_bound = !has_linear(spec) && kb_vec_kernel_is_bounded(spec->context_kernel.type) &&
                           kb_vec_kernel_is_bounded(spec->arm_kernel.type);

    if (has_bound || (suits_history(e, spec) && suits_open_decisions(e, spec) && suits_catalogue(e, spec)))
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, "",
                   "the tenant has a vector that is too large for these kernels: a value with itself would be above %g",
                   most_factor(spec));
}
