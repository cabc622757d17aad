/* A few values of a user kernel that is not there: what a search over its ridge compares (user_kernel.h).
 *
 * Columns of (L + rho I)^-1 for the users that are in the graph, KB_CG_WIDTH at a time; strangers are alike to
 * themselves alone. Divided by the square roots of the diagonal, which the columns hold. */
#include "graph/user_kernel.h"

#include <math.h>

#include "base/alloc.h"
#include "graph/laplacian_cg.h"

bool kb_user_gram_is_served(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph)
{
    return graph != NULL && spec->type == KB_USER_LAPLACIAN && spec->is_normalized && !(spec->population > 0) &&
           spec->power == 1.0;
}

/* Columns of users first..first+n_c-1, all of them in the graph. */
static enum kb_err put_columns(const struct kb_cg *cg, struct kb_cg_work *work, const struct kb_user *users, size_t n,
                               const size_t *known, size_t n_known, size_t first, double *gram)
{
    const size_t n_c = n_known - first < KB_CG_WIDTH ? n_known - first : KB_CG_WIDTH;
    uint32_t node[KB_CG_WIDTH];
    double diag[KB_CG_WIDTH];

    for (size_t c = 0; c < n_c; c++)
        node[c] = users[known[first + c]].node;
    const enum kb_err rc = kb_cg_columns(cg, work, node, n_c, diag);
    if (rc != KB_OK)
        return rc;
    for (size_t c = 0; c < n_c; c++)
        for (size_t i = 0; i < n_known; i++)
            gram[known[first + c] * n + known[i]] = work->x[(size_t)users[known[i]].node * work->width + c];
    return KB_OK;
}

/* The inverse has no diagonal entry below 1 / max diag(A), so an entry that misses by limit / rho misses, after the
 * division, by at most limit max diag(A) / rho. */
static void stop_at(struct kb_cg *cg, double tolerance)
{
    double least = INFINITY;
    for (size_t i = 0; i < cg->order; i++)
        least = fmin(least, cg->inverse_diagonal[i]);
    if (tolerance > 0 && cg->order > 0)
        kb_cg_stop_at(cg, tolerance * cg->rho * least);
}

enum kb_err kb_user_gram(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph,
                         const struct kb_user *users, size_t n, double tolerance, double *gram)
{
    size_t *known = kb_array(n + 1, 1, sizeof *known), n_known = 0;
    double *diag = kb_array(n + 1, 1, sizeof *diag);
    struct kb_cg cg = {0};
    struct kb_cg_work work = {0};
    enum kb_err rc = known != NULL && diag != NULL ? KB_OK : KB_ENOMEM;

    KB_TRY(rc);
    KB_TRY(kb_cg_init(&cg, graph, spec->rho, 0));
    stop_at(&cg, tolerance);
    KB_TRY(kb_cg_work_init(&work, cg.order, KB_CG_WIDTH));
    for (size_t i = 0; i < n * n; i++)
        gram[i] = 0;
    for (size_t i = 0; i < n; i++)
        if (users[i].node != KB_ID_NONE)
            known[n_known++] = i;
        else
            gram[i * n + i] = 1;
    for (size_t first = 0; first < n_known; first += KB_CG_WIDTH)
        KB_TRY(put_columns(&cg, &work, users, n, known, n_known, first, gram));
    for (size_t i = 0; i < n; i++)
        diag[i] = sqrt(gram[i * n + i]);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            gram[j * n + i] = i == j ? 1 : gram[j * n + i] / (diag[i] * diag[j]);
out:
    kb_cg_work_close(&work);
    kb_cg_close(&cg);
    kb_free(known);
    kb_free(diag);
    return rc;
}
