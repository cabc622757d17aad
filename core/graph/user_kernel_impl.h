/* Inside of the user kernel, shared by its two files: user_kernel.c (making, values) and user_kernel_stage.c
 * (anchors and their columns). Letters as in user_kernel.c. */
#ifndef KB_USER_KERNEL_IMPL_H
#define KB_USER_KERNEL_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/ids.h"
#include "graph/laplacian_cg.h"
#include "graph/laplacian_push.h"
#include "graph/user_anchors.h"
#include "graph/user_embedding.h"
#include "graph/user_kernel.h"

enum kb_user_form { KB_FORM_ONES, KB_FORM_IDENTITY, KB_FORM_DENSE, KB_FORM_COLUMNS, KB_FORM_NEAR };

struct kb_user_kernel {
    struct kb_user_kernel_spec spec;
    enum kb_user_form form;
    size_t n;             /* nodes of the graph, or users embedded */
    double shared, own;   /* s and v of strangers, see user_kernel.c */
    double *g;            /* dense: n x n */
    struct kb_cg cg;      /* columns, near: the solver of B */
    _Atomic double *diag; /* columns, near: [n] known diagonal entries, NaN = not known */
    /* kernels that share g, cg and diag, in whatever threads; the last one frees them */
    _Atomic size_t *n_owners;
    struct kb_anchors anchors;
    /* mmd: who has which place in g; empty otherwise */
    struct kb_user_embedding learned;
};

struct kb_user_scratch {
    struct kb_cg_work work; /* empty unless columns or near */
    struct kb_push push;    /* empty unless near */
};

static inline bool is_stranger(struct kb_user u)
{
    return u.node == KB_ID_NONE;
}

/* The user as g knows him: by his graph node, or under a learned kernel by his place among those embedded. */
static inline struct kb_user kb_user_placed(const struct kb_user_kernel *k, struct kb_user u)
{
    if (kb_user_kernel_is_learned(k->spec.type))
        u.node = kb_user_embedding_find(&k->learned, u.index);
    return u;
}

/* Whether G is had by solving for a column. */
static inline bool kb_user_kernel_solves(const struct kb_user_kernel *k)
{
    return k->form == KB_FORM_COLUMNS || k->form == KB_FORM_NEAR;
}

/* B^-1_uu of a node by the solver of the form: s fits. The same bits as in its column. */
double kb_user_kernel_solve_diag(const struct kb_user_kernel *k, uint32_t node, struct kb_user_scratch *s);

/* near: what residuals may be, and with it entries that are left out, of 1 / (rho + w). */
static inline double kb_user_kernel_limit(const struct kb_user_kernel *k)
{
    return k->spec.tolerance / 2;
}

/* u as placed. G_uu of the graph kernel before normalisation, NaN when it has not been solved yet. */
double kb_user_kernel_known_diag(const struct kb_user_kernel *k, struct kb_user u);

#endif
