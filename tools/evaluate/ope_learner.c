/* A model fed from a log: see ope_learner.h. It is a shadow (server/task/shadow.h) to which rewards are `observed`, so
 * a model that is replayed is that of a tenant to whom the log was sent by /observe. Chance is keyed by the
 * configuration's seed.
 *
 *   is_blind   neither user nor context enters (kernels `ones`): then the same candidates under an unchanged model get
 *              the same decision, which is what makes the replay of plain A/B rules fast
 *
 * Cost: the engine's. */
#include "evaluate/ope_learner.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash_key.h"
#include "common/network.h"
#include "task/shadow.h"

struct lc_learner {
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

static enum kb_err complain(enum kb_err rc, const struct kb_errmsg *msg, char *why)
{
    snprintf(why, LC_WHY, "%.40s%s%.80s%s%.120s", kb_strerror(rc), msg->pointer[0] != '\0' ? " at " : "", msg->pointer,
             msg->text[0] != '\0' ? ": " : "", msg->text);
    return rc;
}

/* Predictions and decisions of before are worth nothing any more. */
static enum kb_err feed(struct lc_learner *l, struct kb_event ev, char *why)
{
    struct kb_errmsg msg = {"", ""};

    l->last.epoch = 0;
    ev.at_ms = l->at_ms;
    const enum kb_err rc = ld_shadow_feed(l->shadow, &ev, &msg);
    return rc == KB_OK ? KB_OK : complain(rc, &msg, why);
}

static enum kb_err tell_graph(struct lc_learner *l, const char *path, char *why)
{
    struct lc_network net = {0};
    struct kb_ids users;
    enum kb_err rc = KB_EINVAL;

    kb_ids_init(&users, ld_hash_key());
    if (lc_network_read(&net, &users, path, why) == 0) {
        struct kb_ev_edge *edges = lc_alloc(net.n_edges + 1, sizeof *edges);
        for (size_t i = 0; i < net.n_edges; i++)
            edges[i] = (struct kb_ev_edge){kb_ids_str(&users, net.edges[i].u), kb_ids_str(&users, net.edges[i].v),
                                           net.edges[i].weight};
        const struct kb_event graph = {.type = KB_EV_GRAPH,
                                       .as.graph = {.is_replace = true, .add = edges, .n_add = net.n_edges}};
        rc = feed(l, graph, why);
        free(edges);
        lc_network_close(&net);
    }
    kb_ids_close(&users);
    return rc;
}

enum kb_err lc_learner_new(struct lc_learner **out, const struct kb_spec *spec, const char *graph, char *why)
{
    struct lc_learner *l = lc_alloc(1, sizeof *l);
    struct kb_errmsg msg = {"", ""};
    enum kb_err rc = KB_OK;

    l->spec = *spec;
    l->is_blind = spec->user_kernel.type == KB_USER_ONES && spec->context_kernel.type == KB_VEC_ONES;
    KB_TRY(ld_shadow_new(&l->shadow, spec, &msg));
    KB_TRY(kb_engine_scratch_new(&l->scratch));
    KB_TRY(kb_engine_scratch_new(&l->other));
    if (graph != NULL && (rc = tell_graph(l, graph, why)) != KB_OK) {
        lc_learner_free(l);
        return rc;
    }
    *out = l;
    return KB_OK;
out:
    lc_learner_free(l);
    return complain(rc, &msg, why);
}

void lc_learner_free(struct lc_learner *l)
{
    if (l == NULL)
        return;
    kb_engine_scratch_free(l->scratch);
    kb_engine_scratch_free(l->other);
    ld_shadow_free(l->shadow);
    free(l->candidate);
    free(l);
}

static void add_candidate(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev, size_t at,
                          size_t i)
{
    l->candidate = lc_room(l->candidate, &l->cap, at + 1, sizeof *l->candidate);
    l->candidate[at] = (struct kb_candidate){kb_ids_str(&log->arms, ev->arm[i]),
                                             l->spec.arm_dim > 0 && ev->features != NULL ? ev->features[i] : NULL};
}

/* The engine on the first n of l->candidate. The draw itself is not looked at: the replay makes its own. */
static enum kb_err ask(struct lc_learner *l, const struct lc_logged *ev, size_t n, struct kb_scratch *s,
                       struct kb_decision *out, char *why)
{
    const struct kb_query q = {.user = ev->user,
                               .context = l->spec.context_dim > 0 ? ev->context : NULL,
                               .candidates = l->candidate,
                               .n_candidates = n,
                               .n_shown = 1};
    struct kb_errmsg msg = {"", ""};
    const enum kb_err rc = ld_shadow_decide(l->shadow, &q, s, out, &msg);

    return rc == KB_OK ? KB_OK : complain(rc, &msg, why);
}

enum kb_err lc_learner_decide(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev,
                              const double **propensity, char *why)
{
    struct kb_decision d;
    enum kb_err rc;

    if (!l->is_blind || ev->epoch == 0 || l->last.epoch != ev->epoch) {
        for (size_t i = 0; i < ev->n; i++)
            add_candidate(l, log, ev, i, i);
        rc = ask(l, ev, ev->n, l->scratch, &d, why);
        if (rc != KB_OK)
            return rc;
        l->last.epoch = ev->epoch;
        l->last.propensity = d.propensity;
    }
    *propensity = l->last.propensity;
    return KB_OK;
}

/* Through a decision of its own: what is read of it is the mean alone. */
enum kb_err lc_learner_predict(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev,
                               const size_t *which, size_t n, double *mean, char *why)
{
    struct kb_decision d;

    for (size_t i = 0; i < n; i++)
        add_candidate(l, log, ev, i, which[i]);
    const enum kb_err rc = ask(l, ev, n, l->other, &d, why);
    for (size_t i = 0; rc == KB_OK && i < n; i++)
        mean[i] = d.mean[i];
    return rc;
}

/* Times of a log that goes back count as the latest one seen. */
enum kb_err lc_learner_learn(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev, char *why)
{
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

enum kb_err lc_learner_graph(struct lc_learner *l, const struct kb_event *ev, char *why)
{
    return feed(l, *ev, why);
}
