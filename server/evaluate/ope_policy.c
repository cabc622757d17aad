/* Policies that need nothing but the log: see ope_policy.h. */
#include "evaluate/ope_policy.h"

#include "base/alloc.h"

void ld_ope_policy_free(struct ld_ope_policy *p)
{
    if (p != NULL)
        p->ops->free(p);
}

/* Uniform over the candidates, or what the log did. */
struct even {
    struct ld_ope_policy base;
    double *share; /* [cap] */
    size_t cap, n; /* n: that it holds the shares of */
};

/* With is_logging the same probabilities as the log's, so that every weight is 1; of arms not shown nothing need be
 * known. */
static int even_propensities(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                             const double **out, struct ld_message *why)
{
    struct even *u = (struct even *)p;

    (void)log;
    if (kb_grow((void **)&u->share, &u->cap, ev->n, 16, sizeof *u->share) != 0)
        return ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
    for (size_t i = 0; (u->n != ev->n || p->is_logging) && i < ev->n; i++)
        u->share[i] = !p->is_logging ? 1.0 / (double)ev->n : i == ev->chosen ? 1 : 0;
    u->n = ev->n;
    *out = u->share;
    return 0;
}

static void even_free(struct ld_ope_policy *p)
{
    kb_free(((struct even *)p)->share);
    kb_free(p);
}

struct ld_ope_policy *ld_ope_policy_even(bool is_logging, struct ld_message *why)
{
    static const struct ld_ope_policy_ops uniform = {"uniform", even_propensities, NULL, even_free, NULL};
    static const struct ld_ope_policy_ops logged = {"logged", even_propensities, NULL, even_free, NULL};
    struct even *u = kb_array(1, 1, sizeof *u);

    if (u == NULL) {
        (void)ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
        return NULL;
    }
    u->base = (struct ld_ope_policy){is_logging ? &logged : &uniform, is_logging};
    return &u->base;
}
