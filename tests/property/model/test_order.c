/* The order in which a decision shows its arms: the drawn one, then by score, equal ones as drawn; and what is asked of
 * it alone, the first n_shown, is the beginning of the whole. And what each of many arms has earned is told of that
 * arm. */
#include <stdio.h>
#include <string.h>

#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/engine_read.h"

#define N_ARMS 150u /* more than are predicted in one block */
#define N_KEYS 8u

struct world {
    struct kbt_log log;
    struct kb_scratch *scratch;
    size_t n_ties;
    double sum[N_ARMS], count[N_ARMS], lambda; /* of rewards */
};

static uint64_t draw(uint64_t i, uint64_t n)
{
    return kb_rng_bits(31, KB_STREAM_SIMULATION, i) % n;
}

/* Arms that are drawn alike, with scores of which many are equal: few rewards, and most arms have none. */
static void open_world(struct world *w)
{
    struct kb_spec spec;
    char name[N_ARMS][8];
    struct kb_ev_arm put[N_ARMS];

    *w = (struct world){.n_ties = 0};
    kbt_log_open(&w->log);
    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    kb_spec_tune(&spec, false);
    spec.rule.type = KB_RULE_UNIFORM;
    w->lambda = spec.repr.lambda;
    ck_assert_int_eq(kbt_log_live(&w->log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < N_ARMS; i++) {
        snprintf(name[i], sizeof name[i], "a%zu", i);
        put[i] = (struct kb_ev_arm){.id = name[i], .is_active = true};
    }
    const struct kb_event arms = {.type = KB_EV_ARMS, .as.arms = {.put = put, .n_put = N_ARMS}};
    ck_assert_int_eq(kbt_log_live(&w->log, arms, NULL), KB_OK);
    for (uint64_t i = 0; i < 100; i++) {
        const size_t arm = draw(2 * i, N_ARMS);
        const double reward = (double)draw(2 * i + 1, 3);
        const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                    .as.observed = {.user = "u", .arm = {name[arm], NULL}, .reward = reward}};
        ck_assert_int_eq(kbt_log_live(&w->log, ev, NULL), KB_OK);
        w->sum[arm] += reward;
        w->count[arm]++;
    }
    ck_assert_int_eq(kb_engine_scratch_new(&w->scratch), KB_OK);
}

static void ask(struct world *w, uint64_t key, size_t n_shown, struct kb_decision *d)
{
    const struct kb_query q = {.user = "u", .key = key, .n_shown = n_shown};

    ck_assert_int_eq(kb_engine_fit_scratch(w->log.live, w->scratch, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(w->log.live, &q, w->scratch, d, NULL), KB_OK);
    ck_assert_uint_eq(d->n, N_ARMS);
}

START_TEST(what_is_shown_is_the_beginning_of_the_whole_order)
{
    struct world w;
    struct kb_decision d;
    size_t want[N_ARMS], n_descents = 0;
    bool is_best_drawn[2] = {false, false};

    open_world(&w);
    for (uint64_t key = 0; key < N_KEYS; key++) {
        ask(&w, key, 0, &d);
        memcpy(want, d.order, sizeof want);
        is_best_drawn[d.score[want[0]] >= d.score[want[1]]] = true;
        for (size_t i = 2; i < N_ARMS; i++) {
            const bool is_tied = d.score[want[i]] == d.score[want[i - 1]];
            ck_assert(is_tied || d.score[want[i]] < d.score[want[i - 1]]);
            w.n_ties += is_tied;
            n_descents += is_tied && want[i] < want[i - 1];
        }
        for (size_t n_shown = 0; n_shown <= N_ARMS + 1; n_shown++) {
            bool is_there[N_ARMS] = {false};
            ask(&w, key, n_shown, &d);
            ck_assert_uint_eq(d.order[0], d.chosen);
            for (size_t i = 0; i < N_ARMS; i++) {
                ck_assert(n_shown > 0 && i >= n_shown ? !is_there[d.order[i]] : d.order[i] == want[i]);
                is_there[d.order[i]] = true; /* all stand in it once */
            }
        }
    }
    ck_assert(is_best_drawn[false]);
    ck_assert_uint_gt(w.n_ties, 10 * N_KEYS);
    ck_assert_uint_gt(3 * n_descents, w.n_ties); /* half of them, in an order that is drawn */
    ck_assert_uint_lt(3 * n_descents, 2 * w.n_ties);
    kb_engine_scratch_free(w.scratch);
    kbt_log_close(&w.log);
}
END_TEST

START_TEST(each_of_many_arms_has_its_own_mean)
{
    struct world w;
    struct kb_decision d;

    open_world(&w);
    ask(&w, 1, 0, &d);
    for (size_t i = 0; i < N_ARMS; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%zu", i);
        ck_assert_str_eq(d.arm[i], name);
        ck_assert_double_eq_tol(d.mean[i], w.sum[i] / (w.count[i] + w.lambda), 1e-12);
    }
    kb_engine_scratch_free(w.scratch);
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN("order", what_is_shown_is_the_beginning_of_the_whole_order, each_of_many_arms_has_its_own_mean);
}
