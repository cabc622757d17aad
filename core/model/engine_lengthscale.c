/* Median lengthscales: the median heuristic of the kernels' inputs.
 *
 * Contexts: over the distinct points of the history. Features: over the catalogue when it holds two arms or more, else
 * over the history. A move is an event (a dictionary reset that carries the new values), so a fold estimates
 * nothing. Values within 5 % of those in force are left alone: a rebuild should buy something. */
#include "model/engine_state.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "vector/vec_kernel.h"

#define MOVE_SHARE 0.05

/* Names that an arms event puts or removes: those arms of the catalogue do not count as they are. */
static enum kb_err name_touched(const struct kb_event *ev, struct kb_ids *touched)
{
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < ev->as.arms.n_put + ev->as.arms.n_remove; i++) {
        const char *id = i < ev->as.arms.n_put ? ev->as.arms.put[i].id : ev->as.arms.remove[i - ev->as.arms.n_put];

        KB_TRY(kb_ids_reserve(touched, 1, strlen(id) + 1));
        kb_ids_add(touched, id);
    }
out:
    return rc;
}

/* Feature vectors of the catalogue as it will be, n rows of arm_dim. */
static enum kb_err gather_catalogue(const struct kb_engine *e, const struct kb_event *ev, double **rows, size_t *n)
{
    const size_t dim = e->spec.arm_dim, n_put = ev != NULL ? ev->as.arms.n_put : 0;
    struct kb_ids touched;
    enum kb_err rc = KB_OK;

    *n = 0;
    kb_ids_init(&touched, e->key);
    *rows = kb_array(e->arms.n + n_put + 1, dim, sizeof **rows);
    if (*rows == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    if (ev != NULL)
        KB_TRY(name_touched(ev, &touched));
    for (uint32_t i = 0; i < e->arms.n && !(ev != NULL && ev->as.arms.is_replace); i++)
        if (e->arms.arm[i].parts.features != NULL && kb_ids_find(&touched, kb_ids_str(&e->arm_ids, i)) == KB_ID_NONE)
            memcpy(*rows + dim * (*n)++, e->arms.arm[i].parts.features, dim * sizeof **rows);
    for (size_t i = 0; i < n_put; i++)
        memcpy(*rows + dim * (*n)++, ev->as.arms.put[i].features, dim * sizeof **rows);
out:
    kb_ids_close(&touched);
    return rc;
}

/* The feature lengthscale that the data say; *value is left alone when there are too few. */
static enum kb_err estimate_arms(const struct kb_engine *e, const struct kb_event *ev, double *value)
{
    double *rows = NULL;
    size_t n = 0;
    enum kb_err rc = gather_catalogue(e, ev, &rows, &n);

    if (rc == KB_OK && n >= 2)
        rc = kb_median_distance(n, e->spec.arm_dim, rows, e->spec.arm_dim, value);
    else if (rc == KB_OK && e->history.n >= 2)
        rc = kb_median_distance(e->history.n, e->spec.arm_dim, e->history.x + e->spec.context_dim, e->history.dim,
                                value);
    kb_free(rows);
    return rc;
}

static bool differs(double a, double b)
{
    return fabs(a - b) > MOVE_SHARE * b;
}

enum kb_err kb_engine_follow_medians(const struct kb_engine *e, const struct kb_event *arms_event, struct kb_spec *spec,
                                     bool *has_moved)
{
    double value = spec->arm_kernel.lengthscale;
    enum kb_err rc = KB_OK;

    *has_moved = false;
    if (spec->arm_kernel.is_median && spec->arm_dim > 0) {
        KB_TRY(estimate_arms(e, arms_event, &value));
        if (differs(value, spec->arm_kernel.lengthscale)) {
            spec->arm_kernel.lengthscale = value;
            *has_moved = true;
        }
    }
    value = spec->context_kernel.lengthscale;
    if (spec->context_kernel.is_median && spec->context_dim > 0 && e->history.n >= 2) {
        KB_TRY(kb_median_distance(e->history.n, spec->context_dim, e->history.x, e->history.dim, &value));
        if (differs(value, spec->context_kernel.lengthscale)) {
            spec->context_kernel.lengthscale = value;
            *has_moved = true;
        }
    }
out:
    return rc;
}
