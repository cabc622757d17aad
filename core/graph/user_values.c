/* The user kernel's values between one user and others, none of whom need be an anchor (user_kernel.h).
 *
 * Where G is at hand they are looked up. Over a large graph the user is made an anchor of the kernel, and the others
 * read their entries of its column, so that they get the very numbers that a model with that anchor works with. */
#include <math.h>

#include "graph/user_kernel_impl.h"

static bool is_same(struct kb_user a, struct kb_user b)
{
    return a.index == b.index && a.node == b.node;
}

/* G_uv of an anchor u; a normalised row wants v's diagonal known. */
static double value_at(const struct kb_user_kernel *k, struct kb_user v, uint32_t slot, struct kb_user_scratch *s)
{
    double value;
    const double diag = k->spec.is_normalized ? kb_user_kernel_diag(k, v, s) : 1;

    kb_user_kernel_row_at(k, v, diag, &slot, 1, &value);
    return value;
}

enum kb_err kb_user_kernel_values(struct kb_user_kernel *k, struct kb_user u, const struct kb_user *v, size_t n,
                                  bool (*goes_on)(void *arg), void *arg, double *out)
{
    struct kb_user_scratch *s = NULL;
    uint32_t slot = KB_ID_NONE;
    enum kb_err rc = KB_OK;
    size_t i = 0;

    for (size_t j = 0; j < n; j++)
        out[j] = (double)NAN;
    for (; kb_user_kernel_has_pairs(k) && i < n; i++)
        out[i] = kb_user_kernel_pair(k, u, v[i]);
    if (i < n)
        KB_TRY(kb_user_scratch_new(&s, k));
    for (; i < n && (goes_on == NULL || goes_on(arg)); i++) {
        if (!is_same(u, v[i]) && slot == KB_ID_NONE)
            KB_TRY(kb_user_kernel_add_anchors(k, &u, 1, &slot, s));
        out[i] = is_same(u, v[i]) ? kb_user_kernel_diag(k, u, s) : value_at(k, v[i], slot, s);
    }
out:
    kb_user_scratch_free(s);
    return rc;
}
