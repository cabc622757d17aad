/* Inside of the user kernel, shared by its two files: user_kernel.c (making, values) and user_kernel_stage.c
 * (anchors and their columns). Letters as in user_kernel.c. */
#ifndef KB_USER_KERNEL_IMPL_H
#define KB_USER_KERNEL_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ids.h"
#include "laplacian_cg.h"
#include "user_anchors.h"
#include "user_embedding.h"
#include "user_kernel.h"

enum kb_user_form { KB_FORM_ONES, KB_FORM_IDENTITY, KB_FORM_DENSE, KB_FORM_COLUMNS };

struct kb_user_kernel {
    struct kb_user_kernel_spec spec;
    enum kb_user_form form;
    size_t n;             /* nodes of the graph, or users embedded */
    double shared, own;   /* s and v of strangers, see user_kernel.c */
    double *g;            /* dense: n x n */
    struct kb_cg cg;      /* columns: the solver of B */
    _Atomic double *diag; /* columns: [n] known diagonal entries, NaN = not known */
    size_t *n_owners;     /* kernels that share g, cg and diag; the last one frees them (the writer counts) */
    struct kb_anchors anchors;
    /* mmd: who has which place in g; empty otherwise */
    struct kb_user_embedding learned;
};

struct kb_user_scratch {
    struct kb_cg_work work; /* empty unless columns */
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

/* u as placed. G_uu of the graph kernel before normalisation, NaN when it has not been solved yet. */
double kb_user_kernel_known_diag(const struct kb_user_kernel *k, struct kb_user u);

#endif
