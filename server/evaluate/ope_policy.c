/* Policies that need nothing but the log: see ope_policy.h. */
#include "evaluate/ope_policy.h"

#include <string.h>

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

/* --- one arm ------------------------------------------------------------------------------------------- */

struct fixed {
    struct ld_ope_policy base;
    double *share; /* [cap] */
    size_t cap;
    bool is_first;
    char arm[KB_ID_MAX_BYTES + 1];
};

/* Where the arm is no candidate all is 0, which counts as mass that the log cannot speak of. */
static int fixed_propensities(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                              const double **out, struct ld_message *why)
{
    struct fixed *f = (struct fixed *)p;
    const uint32_t arm = f->is_first ? ev->arm[0] : kb_ids_find(&log->arms, f->arm);

    if (kb_grow((void **)&f->share, &f->cap, ev->n, 16, sizeof *f->share) != 0)
        return ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
    for (size_t i = 0; i < ev->n; i++)
        f->share[i] = ev->arm[i] == arm ? 1 : 0;
    *out = f->share;
    return 0;
}

static void fixed_free(struct ld_ope_policy *p)
{
    kb_free(((struct fixed *)p)->share);
    kb_free(p);
}

static struct ld_ope_policy *make_fixed(const struct ld_ope_policy_ops *ops, const char *arm, struct ld_message *why)
{
    struct fixed *f = kb_array(1, 1, sizeof *f);

    if (f == NULL) {
        (void)ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
        return NULL;
    }
    f->base.ops = ops;
    f->is_first = arm == NULL;
    if (arm != NULL)
        strncpy(f->arm, arm, KB_ID_MAX_BYTES);
    return &f->base;
}

struct ld_ope_policy *ld_ope_policy_arm(const char *arm, struct ld_message *why)
{
    static const struct ld_ope_policy_ops ops = {"arm", fixed_propensities, NULL, fixed_free, NULL};

    return make_fixed(&ops, arm, why);
}

struct ld_ope_policy *ld_ope_policy_first(struct ld_message *why)
{
    static const struct ld_ope_policy_ops ops = {"first", fixed_propensities, NULL, fixed_free, NULL};

    return make_fixed(&ops, NULL, why);
}
