/* Points that enter a dictionary while the posterior goes on learning: the model is that of the whole history, as if
 * they had been there from the start [EK, Prop. 4.2], against dense solves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt_world.h"
#include "base/rng.h"

#define N_ROUNDS 60u
#define N_QUERIES 8u

static struct kb_history view_of(const struct kb_history *h)
{
    struct kb_history view = *h;
    view.count = malloc((h->n + 1) * sizeof *view.count);
    view.sum = malloc((h->n + 1) * sizeof *view.sum);
    memcpy(view.count, h->count, h->n * sizeof *view.count);
    memcpy(view.sum, h->sum, h->n * sizeof *view.sum);
    return view;
}

/* Learns `late` more observations, one of them corrected, between the beginning of each admission and its end. */
static size_t run(struct kbt_world *w, size_t late)
{
    uint64_t next = 0;
    size_t n_entered = 0;
    for (size_t round = 0; round < N_ROUNDS; round++) {
        struct kbt_observation o = kbt_world_draw(w, 5, next++);
        kbt_world_learn(w, &o);
        if (!kbt_world_begin(w, &o, kb_rng_uniform(5, KB_STREAM_DICTIONARY, round)))
            continue;
        struct kb_history view = view_of(&w->history);
        for (size_t i = 0; i < late; i++) {
            o = kbt_world_draw(w, 5, next++);
            kbt_world_learn(w, &o);
        }
        /* the arrays may have moved; the rows in them have not */
        view.user = w->history.user, view.arm = w->history.arm, view.level = w->history.level;
        view.x = w->history.x, view.halvings = w->history.halvings;
        kbt_world_end(w, &view);
        free(view.count);
        free(view.sum);
        n_entered++;
    }
    return n_entered;
}

static void check(const char *preset, size_t late)
{
    struct kbt_world w;
    struct kb_spec spec;
    struct kbt_observation query[N_QUERIES], atoms[256];
    double mean[N_QUERIES], variance[N_QUERIES];
    ck_assert_int_eq(kb_spec_preset(&spec, preset, 2, 2), KB_OK);
    kbt_world_open(&w, &spec, 7, 5, true, 3);
    ck_assert_uint_gt(run(&w, late), 3);
    for (uint64_t i = 0; i < N_QUERIES; i++)
        query[i] = kbt_world_draw(&w, 9, i);
    size_t m = kbt_support(w.posterior, atoms);
    kbt_dense_nystrom(&w, atoms, m, query, N_QUERIES, mean, variance);
    ck_assert_int_eq(kb_posterior_fit_scratch(w.posterior, &w.scratch, 0), KB_OK);
    for (size_t i = 0; i < N_QUERIES; i++) {
        double got_mean, got_sd;
        kbt_predict(w.posterior, &w.scratch, &w, &query[i], &got_mean, &got_sd);
        ck_assert(kbt_close(got_mean, mean[i], 1e-8));
        ck_assert(kbt_close(got_sd * got_sd, variance[i], 1e-8));
    }
    kbt_world_close(&w);
}

START_TEST(what_is_learned_while_a_point_enters_counts_for_it)
{
    static const size_t late[] = {0, 1, 7};
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
        check("laplaced-kors", late[i]);
        check("ek-ucb", late[i]);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("entering", what_is_learned_while_a_point_enters_counts_for_it);
}
