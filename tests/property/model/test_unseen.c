/* What the writer applies beside decisions (kb_engine_is_unseen): over random events, users, arms and routes, no
 * decision says anything else after such an event than before it, to the last bit; and what must not be missed is not.
 */
#include <stdio.h>
#include <string.h>

#include "model/engine_state.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"

#define DIM 2u
#define N_STEPS 400u
#define N_USERS 9u /* the last two are heard of late */
#define N_ARMS 7u

static const char *const presets[] = {"laplaced-kors", "ek-ucb", "lk-gp-ucb", "ucb", "sup-kernel-ucb"};

struct world {
    struct kbt_log log;
    struct kb_spec spec;
    struct kb_scratch *scratch;
    size_t n_decided, n_unseen[KB_EV_REDACTED + 1], n_seen[KB_EV_REDACTED + 1], n_changed;
};

struct said {
    size_t n, chosen;
    uint64_t n_learned, n_support;
    enum kb_route route;
    int64_t assigned_until_ms;
    double value[4][N_ARMS];
};

static uint64_t draw(uint64_t i, uint64_t n)
{
    return kb_rng_bits(21, KB_STREAM_SIMULATION, i) % n;
}

static const double *vector(uint64_t i)
{
    static double x[16][DIM];
    double *at = x[i % 16];

    for (size_t k = 0; k < DIM; k++)
        at[k] = 2 * kb_rng_uniform(22, KB_STREAM_SIMULATION, 8 * i + k) - 1;
    return at;
}

/* Decisions of every user over the catalogue, as they would be made now. */
static void ask_all(struct world *w, struct said *out)
{
    char user[8];

    memset(out, 0, N_USERS * sizeof *out);
    for (size_t u = 0; u < N_USERS; u++) {
        struct kb_decision d;
        snprintf(user, sizeof user, "u%zu", u);
        const struct kb_query q = {.user = user, .context = vector(u), .key = u, .now_ms = w->log.now_ms};
        ck_assert_int_eq(kb_engine_fit_scratch(w->log.live, w->scratch, 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(w->log.live, &q, w->scratch, &d, NULL), KB_OK);
        const double *of[4] = {d.mean, d.sd, d.score, d.propensity};
        out[u].n = d.n;
        out[u].chosen = d.chosen;
        out[u].n_learned = d.n_learned;
        out[u].n_support = d.n_support;
        out[u].route = d.route;
        out[u].assigned_until_ms = d.assigned_until_ms;
        for (size_t k = 0; k < 4; k++)
            memcpy(out[u].value[k], of[k], d.n * sizeof(double));
    }
}

static void live(struct world *w, struct kb_event ev)
{
    static struct said before[N_USERS], after[N_USERS];
    struct kb_errmsg msg = {.text = ""};
    const bool is_unseen = kb_engine_is_unseen(w->log.live, &ev);

    ask_all(w, before);
    ck_assert_msg(kbt_log_live(&w->log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    ask_all(w, after);
    const bool is_same = memcmp(before, after, sizeof before) == 0;
    ck_assert_msg(is_same || !is_unseen, "event of type %d changed a decision", (int)ev.type);
    (is_unseen ? w->n_unseen : w->n_seen)[ev.type]++;
    w->n_changed += !is_same;
}

/* By a user and of an arm that may be new; one in four sticks. */
static void decide(struct world *w, uint64_t i)
{
    char id[16], user[8], arm[8];

    snprintf(id, sizeof id, "d%zu", w->n_decided++);
    snprintf(user, sizeof user, "u%u", (unsigned)draw(8 * i, i > N_STEPS / 2 ? N_USERS : N_USERS - 2));
    snprintf(arm, sizeof arm, "a%u", (unsigned)draw(8 * i + 1, i > N_STEPS / 2 ? N_ARMS + 1 : N_ARMS));
    const struct kb_ev_slot slot = {arm, w->spec.arm_dim > 0 ? vector(i) : NULL};
    live(w, (struct kb_event){.type = KB_EV_DECIDED,
                              .as.decided = {.decision = id,
                                             .user = user,
                                             .context = w->spec.context_dim > 0 ? vector(i + 1) : NULL,
                                             .slots = &slot,
                                             .n_slots = 1,
                                             .propensity = 0.5,
                                             .is_deferred = draw(8 * i + 3, 4) == 0,
                                             .assigned_until_ms = draw(8 * i + 2, 4) == 0 ? w->log.now_ms + 1000 : 0,
                                             .expires_at_ms = INT64_MAX}});
}

/* Something that becomes of the i-th decision from the end, if it is still open. */
static void follow(struct world *w, uint64_t i)
{
    char id[16];
    struct kb_event ev = {.type = KB_EV_LATE};

    snprintf(id, sizeof id, "d%zu", w->n_decided - 1 - draw(8 * i, w->n_decided < 6 ? w->n_decided : 6));
    const struct kb_pending_entry *entry = kb_pending_find(&w->log.live->pending, id);
    if (entry == NULL) {
        ev.as.late.decision = id;
        ev.as.late.reward = 1;
    } else if (draw(8 * i + 1, 3) == 0) {
        ev.type = KB_EV_EXPIRED;
        ev.as.expired.decision = id;
    } else if (draw(8 * i + 1, 3) == 1 && entry->is_deferred) {
        ev.type = KB_EV_ACTIVATED;
        ev.as.activated.decision = id;
    } else if (!entry->is_deferred && !entry->slot[0].has_reward) {
        ev = kbt_rewarded(id, (double)draw(8 * i + 2, 3) - 1);
    } else {
        return;
    }
    live(w, ev);
}

static void open_world(struct world *w, const char *preset)
{
    static const char *const names[N_ARMS] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6"};
    struct kb_ev_arm put[N_ARMS];
    struct kb_errmsg msg;

    *w = (struct world){0};
    const bool has_vectors = strcmp(preset, "ucb") != 0;
    ck_assert_int_eq(kb_spec_preset(&w->spec, preset, has_vectors ? DIM : 0, has_vectors ? DIM : 0), KB_OK);
    kb_spec_tune(&w->spec, false); /* a refit, which may stand before any event, changes decisions */
    w->spec.routing.sticky_ms = 1000;
    kbt_log_open(&w->log);
    ck_assert_int_eq(kb_engine_scratch_new(&w->scratch), KB_OK);
    ck_assert_int_eq(kbt_log_live(&w->log, kbt_configured(&w->spec, 1), &msg), KB_OK);
    for (size_t a = 0; a < N_ARMS; a++)
        put[a] = (struct kb_ev_arm){.id = names[a], .features = has_vectors ? vector(a) : NULL, .is_active = true};
    const struct kb_event ev = {.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = put, .n_put = N_ARMS}};
    ck_assert_int_eq(kbt_log_live(&w->log, ev, &msg), KB_OK);
}

START_TEST(what_is_unseen_changes_no_decision)
{
    struct world w;

    open_world(&w, presets[_i]);
    for (uint64_t i = 0; i < N_STEPS; i++) {
        w.log.now_ms++;
        if (w.n_decided == 0 || draw(i + 100000, 2) == 0)
            decide(&w, i);
        else
            follow(&w, i);
    }
    ck_assert_uint_gt(w.n_unseen[KB_EV_DECIDED], N_STEPS / 5);
    ck_assert_uint_gt(w.n_seen[KB_EV_DECIDED], 20); /* new users and arms, and those who stick */
    ck_assert_uint_gt(w.n_unseen[KB_EV_EXPIRED], 5);
    ck_assert_uint_gt(w.n_unseen[KB_EV_LATE], 5);
    ck_assert_uint_eq(w.n_unseen[KB_EV_REWARDED], 0);
    ck_assert_uint_gt(w.n_changed, 30); /* the comparison does see changes */
    kb_engine_scratch_free(w.scratch);
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("unseen", 60, {what_is_unseen_changes_no_decision, sizeof presets / sizeof *presets});
}
