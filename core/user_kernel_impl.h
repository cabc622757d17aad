/* Inside of the user kernel, shared by its two files: user_kernel.c (making, values) and user_kernel_stage.c
 * (anchors and their columns). Letters as in user_kernel.c. */
#ifndef KB_USER_KERNEL_IMPL_H
#define KB_USER_KERNEL_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ids.h"
#include "laplacian_cg.h"
#include "user_anchors.h"
#include "user_kernel.h"

enum kb_user_form { KB_FORM_ONES, KB_FORM_IDENTITY, KB_FORM_DENSE, KB_FORM_COLUMNS };

struct kb_user_kernel {
    struct kb_user_kernel_spec spec;
    enum kb_user_form form;
    size_t n;             /* nodes of the graph */
    double shared, own;   /* s and v of strangers, see user_kernel.c */
    double *g;            /* dense: n x n */
    struct kb_cg cg;      /* columns: the solver of B */
    _Atomic double *diag; /* columns: [n] known diagonal entries, NaN = not known */
    size_t *n_owners;     /* kernels that share g, cg and diag; the last one frees them (the writer counts) */
    struct kb_anchors anchors;
};

struct kb_user_scratch {
    struct kb_cg_work work; /* empty unless columns */
};

static inline bool is_stranger(struct kb_user u)
{
    return u.node == KB_ID_NONE;
}

/* G_uu of the graph kernel before normalisation, NaN when it has not been solved yet. */
double kb_user_kernel_known_diag(const struct kb_user_kernel *k, struct kb_user u);

#endif
