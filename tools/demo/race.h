/* Several policies play the same game over HTTP, each in its own tenant and thread.
 *
 * demo.c fills runners, lc_race_prepare makes each one's tenant, lc_race_run plays. Every round is a real
 * decision: POST /select, then POST /reward, each answered when it is durable. */
#ifndef LC_RACE_H
#define LC_RACE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/args.h"
#include "common/histogram.h"
#include "common/progress.h"
#include "common/text.h"

/* What is played. All functions are pure, so that every policy sees the same rounds in any order of threads. */
struct lc_game {
    const void *state;
    size_t n_rounds, max_candidates;
    char id_prefix[48]; /* decision ids "<prefix>-<round>" */
    const char *(*user)(const void *state, size_t t);
    size_t (*candidates)(const void *state, size_t t, size_t *arms); /* how many */
    const char *(*arm)(const void *state, size_t arm);               /* its id */
    double (*reward)(const void *state, size_t t, size_t arm);
    double (*score)(const void *state, size_t t, size_t arm); /* what the curve adds up: regret, or reward */
};

enum lc_graph_use { LC_NO_GRAPH, LC_USERS_ONLY, LC_WHOLE_GRAPH };

/* One policy of a demo. Static rows; the tenant's name is fixed, so that a second demo replaces the first. */
struct ld_ope_policy {
    const char *label, *tenant, *algorithm;
    enum lc_graph_use graph;
    bool has_features;
};

/* What a demo shows of its races. */
struct lc_show {
    const struct ld_ope_policy *policies;
    size_t n_policies, base; /* base: index of the policy whose curve is taken off all in the drawings; n: none */
    const char *unit;        /* of the score, in the live line; divided by the rounds when is_rate */
    bool is_rate;
    const char *headline;                /* of the chart; the seed follows */
    const char *title, *y_label, *about; /* of the picture (demo_picture.c) */
};

/* One policy in the race. The caller fills what stands before the results; threads write the results, the caller reads
 * them after lc_race_run, or `curve` up to `done` while it runs. */
struct lc_runner {
    const struct ld_ope_policy *policy;
    struct lc_text config; /* JSON */

    /* results */
    double *curve; /* [n_rounds] running total of score; valid up to `done` */
    _Atomic size_t done;
    struct lc_histogram select, reward; /* latencies */
    double earned;
    char why[LC_WHY]; /* after a failure */

    /* in the race */
    const struct lc_session *session;
    const struct lc_game *game;
    _Atomic bool *is_stopped; /* one fails, all stop */
    pthread_t thread;
};

/* What is loaded into the tenants before the start. */
struct lc_world {
    struct lc_text graph, users; /* JSON bodies of PUT graph: whole, and without edges */
    struct lc_text arms, names;  /* JSON bodies of PUT arms, with and without features */
};

/* Deletes and recreates the runner's tenant and loads the world. 0, or 1 after a printed error. */
int lc_race_prepare(const struct lc_session *s, struct lc_runner *r, const struct lc_world *world);

/* Runs all; `unit` names the score in the live line, divided by the rounds when is_rate. 0 or 1 (printed). Blocks until
 * the last thread is done. Each runner's curve is allocated here and freed by lc_runner_close. */
int lc_race_run(const struct lc_session *s, const struct lc_game *game, struct lc_runner *runners, size_t n,
                struct lc_progress *progress, const char *unit, bool is_rate);

void lc_runner_close(struct lc_runner *r);

#endif
