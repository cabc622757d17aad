/* Uniform, logged and learning policies: see ope_policy.h. */
#include "evaluate/ope_policy.h"

#include <stdlib.h>
#include <string.h>

#include "evaluate/ope_learner.h"

void lc_policy_free(struct lc_policy *p)
{
    if (p != NULL)
        p->ops->free(p);
}

/* --- uniform ------------------------------------------------------------------------------------------ */

struct uniform {
    struct lc_policy base;
    double *share; /* [cap] */
    size_t cap, n; /* n: that it holds the shares of */
};

static int uniform_propensities(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev,
                                const double **out, char *why)
{
    struct uniform *u = (struct uniform *)p;

    (void)log;
    (void)why;
    u->share = lc_room(u->share, &u->cap, ev->n, sizeof *u->share);
    for (size_t i = 0; u->n != ev->n && i < ev->n; i++)
        u->share[i] = 1.0 / (double)ev->n;
    u->n = ev->n;
    *out = u->share;
    return 0;
}

static void uniform_free(struct lc_policy *p)
{
    free(((struct uniform *)p)->share);
    free(p);
}

struct lc_policy *lc_policy_uniform(void)
{
    static const struct lc_policy_ops ops = {"uniform", uniform_propensities, NULL, uniform_free, NULL};
    struct uniform *u = lc_alloc(1, sizeof *u);

    u->base.ops = &ops;
    return &u->base;
}

/* --- logged ------------------------------------------------------------------------------------------- */

/* The same probabilities as the log's, so that every weight is 1; of arms not shown nothing need be known. */
static int logged_propensities(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev,
                               const double **out, char *why)
{
    struct uniform *u = (struct uniform *)p;

    (void)log;
    (void)why;
    u->share = lc_room(u->share, &u->cap, ev->n, sizeof *u->share);
    memset(u->share, 0, ev->n * sizeof *u->share);
    u->share[ev->chosen] = 1.0;
    *out = u->share;
    return 0;
}

struct lc_policy *lc_policy_logged(void)
{
    static const struct lc_policy_ops ops = {"logged", logged_propensities, NULL, uniform_free, NULL};
    struct uniform *u = lc_alloc(1, sizeof *u);

    u->base.ops = &ops;
    u->base.is_logging = true;
    return &u->base;
}

/* --- learning ----------------------------------------------------------------------------------------- */

struct learning {
    struct lc_policy base;
    struct lc_learner *learner;
};

static int learning_propensities(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev,
                                 const double **out, char *why)
{
    return lc_learner_decide(((struct learning *)p)->learner, log, ev, out, why) == KB_OK ? 0 : -1;
}

static int learning_learn(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev, char *why)
{
    return lc_learner_learn(((struct learning *)p)->learner, log, ev, why) == KB_OK ? 0 : -1;
}

static int learning_graph(struct lc_policy *p, const struct kb_event *ev, char *why)
{
    return lc_learner_graph(((struct learning *)p)->learner, ev, why) == KB_OK ? 0 : -1;
}

static void learning_free(struct lc_policy *p)
{
    lc_learner_free(((struct learning *)p)->learner);
    free(p);
}

struct lc_policy *lc_policy_learning(const struct kb_spec *spec, const char *graph, char *why)
{
    static const struct lc_policy_ops ops = {"learning", learning_propensities, learning_learn, learning_free,
                                             learning_graph};
    struct learning *l = lc_alloc(1, sizeof *l);

    l->base.ops = &ops;
    if (lc_learner_new(&l->learner, spec, graph, why) == KB_OK)
        return &l->base;
    free(l);
    return NULL;
}
