/* Learning policies: a tenant's model that is fed from a log, without a log of its own and without a clock. It is a
 * shadow (server/evaluate/shadow.h) to which rewards are `observed`, so a model that is replayed is that of a tenant to
 * whom the log was sent by /observe. Chance is keyed by the
 * configuration's seed.
 *
 *   is_blind   neither user nor context enters (kernels `ones`): then the same candidates under an unchanged model get
 *              the same decision, which is what makes the replay of plain A/B rules fast
 *
 * Cost: the engine's. */
#include "evaluate/ope_policy.h"

#include "base/alloc.h"
#include "evaluate/shadow.h"

struct learning {
    struct ld_ope_policy base;
    struct ld_shadow *shadow;
    struct kb_scratch *scratch, *other; /* of decisions, which may be asked for again, and of predictions */
    struct kb_spec spec;
    struct kb_candidate *candidate; /* [cap] */
    size_t cap;
    int64_t at_ms;
    bool is_blind;
    struct {          /* the last decision, good while nothing was learned and the candidates stand */
        size_t epoch; /* 0: none is kept */
        const double *propensity;
    } last;
};

/* 0, or -1 with why. */
static int complain(enum kb_err rc, const struct kb_errmsg *msg, struct ld_message *why)
{
    if (rc == KB_OK)
        return 0;
    return ld_fail(why, "%.40s%s%.80s%s%.120s", kb_strerror((int)rc), msg->pointer[0] != '\0' ? " at " : "",
                   msg->pointer, msg->text[0] != '\0' ? ": " : "", msg->text);
}

/* Predictions and decisions of before are worth nothing any more. */
static int feed(struct learning *l, struct kb_event ev, struct ld_message *why)
{
    struct kb_errmsg msg = {"", ""};

    l->last.epoch = 0;
    ev.at_ms = l->at_ms;
    return complain(ld_shadow_feed(l->shadow, &ev, &msg), &msg, why);
}

/* Room for n candidates. 0, or -1 with why. */
static int make_room(struct learning *l, size_t n, struct ld_message *why)
{
    if (kb_grow((void **)&l->candidate, &l->cap, n, 16, sizeof *l->candidate) == 0)
        return 0;
    return ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
}

static void add_candidate(struct learning *l, const struct ld_decisions *log, const struct ld_logged *ev, size_t at,
                          size_t i)
{
    l->candidate[at] = (struct kb_candidate){kb_ids_str(&log->arms, ev->arm[i]),
                                             l->spec.arm_dim > 0 && ev->features != NULL ? ev->features[i] : NULL};
}

/* The engine on the first n of l->candidate, with the values of n_shown of them (0: all). The draw itself is not looked
 * at: the replay makes its own. */
static int ask(struct learning *l, const struct ld_logged *ev, size_t n, size_t n_shown, struct kb_scratch *s,
               struct kb_decision *out, struct ld_message *why)
{
    const struct kb_query q = {.user = ev->user,
                               .context = l->spec.context_dim > 0 ? ev->context : NULL,
                               .candidates = l->candidate,
                               .n_candidates = n,
                               .n_shown = n_shown};
    struct kb_errmsg msg = {"", ""};

    return complain(ld_shadow_decide(l->shadow, &q, s, out, &msg), &msg, why);
}

/* A decision that cannot differ from the last is not made again. */
static int learning_propensities(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                                 const double **out, struct ld_message *why)
{
    struct learning *l = (struct learning *)p;
    struct kb_decision d;

    if (!l->is_blind || ev->epoch == 0 || l->last.epoch != ev->epoch) {
        if (make_room(l, ev->n, why) != 0)
            return -1;
        for (size_t i = 0; i < ev->n; i++)
            add_candidate(l, log, ev, i, i);
        if (ask(l, ev, ev->n, 1, l->scratch, &d, why) != 0)
            return -1;
        l->last.epoch = ev->epoch;
        l->last.propensity = d.propensity;
    }
    *out = l->last.propensity;
    return 0;
}

/* Through a decision of its own: what is read of it is the mean alone. */
int ld_ope_policy_predict(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                          const size_t *which, size_t n, double *mean, struct ld_message *why)
{
    struct learning *l = (struct learning *)p;
    struct kb_decision d;

    if (make_room(l, n, why) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        add_candidate(l, log, ev, i, which[i]);
    const int rc = ask(l, ev, n, 0, l->other, &d, why);
    for (size_t i = 0; rc == 0 && i < n; i++)
        mean[i] = d.mean[i];
    return rc;
}

/* Times of a log that goes back count as the latest one seen. */
static int learning_learn(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                          struct ld_message *why)
{
    struct learning *l = (struct learning *)p;
    const double *features = l->spec.arm_dim > 0 && ev->features != NULL ? ev->features[ev->chosen] : NULL;
    const struct kb_event observed = {.type = KB_EV_OBSERVED,
                                      .as.observed = {.user = ev->user,
                                                      .context = l->spec.context_dim > 0 ? ev->context : NULL,
                                                      .arm = {kb_ids_str(&log->arms, ev->arm[ev->chosen]), features},
                                                      .reward = ev->reward,
                                                      .propensity = ev->propensity}};

    if (ev->at_ms > l->at_ms)
        l->at_ms = ev->at_ms;
    return feed(l, observed, why);
}

static int learning_graph(struct ld_ope_policy *p, const struct kb_event *ev, struct ld_message *why)
{
    return feed((struct learning *)p, *ev, why);
}

static void learning_free(struct ld_ope_policy *p)
{
    struct learning *l = (struct learning *)p;

    kb_engine_scratch_free(l->scratch);
    kb_engine_scratch_free(l->other);
    ld_shadow_free(l->shadow);
    kb_free(l->candidate);
    kb_free(l);
}

size_t ld_ope_policy_bytes(const struct ld_ope_policy *p)
{
    return p->ops->learn == learning_learn ? kb_engine_bytes(ld_shadow_engine(((const struct learning *)p)->shadow))
                                           : 0;
}

void ld_ope_policy_cancel(struct ld_ope_policy *p)
{
    if (p->ops->learn == learning_learn)
        ld_shadow_cancel(((struct learning *)p)->shadow);
}

struct ld_ope_policy *ld_ope_policy_learning(const struct kb_spec *spec, const struct kb_event *graph,
                                             struct ld_message *why)
{
    static const struct ld_ope_policy_ops ops = {"learning", learning_propensities, learning_learn, learning_free,
                                                 learning_graph};
    struct learning *l = kb_array(1, 1, sizeof *l);
    struct kb_errmsg msg = {"", ""};
    enum kb_err rc;

    if (l == NULL) {
        (void)ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
        return NULL;
    }
    l->base.ops = &ops;
    l->spec = *spec;
    l->is_blind = spec->user_kernel.type == KB_USER_ONES && spec->context_kernel.type == KB_VEC_ONES;
    KB_TRY(ld_shadow_new(&l->shadow, spec, &msg));
    KB_TRY(kb_engine_scratch_new(&l->scratch));
    KB_TRY(kb_engine_scratch_new(&l->other));
out:
    if (complain(rc, &msg, why) == 0 && (graph == NULL || feed(l, *graph, why) == 0))
        return &l->base;
    learning_free(&l->base);
    return NULL;
}
