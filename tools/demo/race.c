/* The race: a thread and a connection per policy; each plays the rounds in order, so its tenant's log is the same in
 * every run whatever the others do: select -> reward -> next round. The main thread only watches and draws.
 *
 * Progress is published by one atomic counter per policy: curve[i] is written before `done` becomes i + 1 (release),
 * and the watcher reads curve[done - 1] after loading `done` (acquire).
 *
 * Failures: the first one of any policy is kept in its runner, all threads stop after the round in hand, and
 * the race counts as failed: a comparison of policies that played different rounds would be worth nothing. */
#include "demo/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http_client.h"
#include "common/json.h"

/* --- before the start ------------------------------------------------------------------------------- */

/* One request of the set-up; 0, or 1 after a printed error. 404 on DELETE is fine: there was no tenant from an earlier
 * run. PUT and DELETE alike; body->data NULL sends none. */
static int step(struct lc_client *c, const char *method, const char *tenant, const char *rest,
                const struct lc_text *body)
{
    struct lc_text path = lc_tenant_path(tenant, rest);
    const struct lc_reply *r = lc_client_json(c, method, path.data, body);
    /* the first run of a demo has nothing to delete */
    bool is_absent = r->status == 404 && strcmp(method, "DELETE") == 0;
    int rc = lc_reply_ok(r) || is_absent ? 0 : lc_reply_fail(r, path.data);
    lc_text_close(&path);
    return rc;
}

/* The old tenant goes first: decision ids repeat from run to run, and the server would answer from its log. A policy
 * without a graph gets none at all; its preset's user kernel does not ask for one. */
int lc_race_prepare(const struct lc_session *s, struct lc_runner *r, const struct lc_world *world)
{
    static const struct lc_text nothing = {0};
    struct lc_client *c = lc_client_new(s, NULL);
    int rc = step(c, "DELETE", r->policy->tenant, "", &nothing);
    if (rc == 0)
        rc = step(c, "PUT", r->policy->tenant, "", &r->config);
    if (rc == 0 && r->policy->graph != LC_NO_GRAPH)
        rc = step(c, "PUT", r->policy->tenant, "/graph",
                  r->policy->graph == LC_WHOLE_GRAPH ? &world->graph : &world->users);
    if (rc == 0)
        rc = step(c, "PUT", r->policy->tenant, "/arms", r->policy->has_features ? &world->arms : &world->names);
    lc_client_free(c);
    return rc;
}

void lc_runner_close(struct lc_runner *r)
{
    lc_text_close(&r->config);
    free(r->curve);
    r->curve = NULL;
}

/* --- one round -------------------------------------------------------------------------------------- */

/* Candidates by id alone: their features are in the catalogue. */
static void put_select(const struct lc_game *g, size_t t, const size_t *arms, size_t n, struct lc_text *out)
{
    lc_text_clear(out);
    lc_text_puts(out, "{");
    lc_put_text(out, "user", g->user(g->state, t));
    lc_text_puts(out, ",\"candidates\":[");
    for (size_t i = 0; i < n; i++) {
        lc_text_puts(out, i > 0 ? "," : "");
        lc_text_json(out, g->arm(g->state, arms[i]));
    }
    lc_text_printf(out, "],\"decision\":\"%s-%zu\"}", g->id_prefix, t);
}

static int fail(struct lc_runner *r, size_t t, const struct lc_reply *reply)
{
    struct lc_text text = {0};
    lc_reply_explain(reply, &text);
    snprintf(r->why, sizeof r->why, "%s, round %zu: %.180s", r->policy->label, t + 1, text.data);
    lc_text_close(&text);
    return -1;
}

/* Latency as the caller sees it, failed requests included. h is the thread's own, so adding takes no lock. */
static const struct lc_reply *timed(struct lc_client *c, const char *path, const struct lc_text *body,
                                    struct lc_histogram *h)
{
    uint64_t start = lc_now_ns();
    const struct lc_reply *reply = lc_client_json(c, "POST", path, body);
    lc_histogram_add(h, lc_now_ns() - start);
    return reply;
}

/* 0, or -1 with r->why: the server may answer with nothing but a candidate. */
static int read_choice(struct lc_runner *r, size_t t, const struct lc_reply *reply, const size_t *arms, size_t n,
                       size_t *chosen)
{
    struct json_t *doc = lc_reply_json(reply);
    const char *arm = lc_json_text(doc, "arm");
    int rc = -1;
    for (size_t i = 0; i < n && arm != NULL && rc != 0; i++)
        if (strcmp(arm, r->game->arm(r->game->state, arms[i])) == 0) {
            *chosen = arms[i];
            rc = 0;
        }
    if (rc != 0)
        snprintf(r->why, sizeof r->why, "%s, round %zu: the server chose \"%.60s\", which is no candidate",
                 r->policy->label, t + 1, arm != NULL ? arm : "(nothing)");
    lc_json_free(doc);
    return rc;
}

/* select, then reward: the next round begins when the reward is durable, so the log is the same in every run, and hence
 * the model. 0, or -1 with r->why; a failed round adds nothing to the curve. */
static int play_round(struct lc_runner *r, struct lc_client *c, size_t t, size_t *arms, struct lc_text *body)
{
    const struct lc_game *g = r->game;
    size_t chosen = 0, n = g->candidates(g->state, t, arms);
    put_select(g, t, arms, n, body);
    const struct lc_reply *reply = timed(c, "/select", body, &r->select);
    if (!lc_reply_ok(reply))
        return fail(r, t, reply);
    if (read_choice(r, t, reply, arms, n, &chosen) != 0)
        return -1;
    double reward = g->reward(g->state, t, chosen);
    lc_text_clear(body);
    lc_text_printf(body, "{\"decision\":\"%s-%zu\",\"reward\":", g->id_prefix, t);
    lc_text_number(body, reward);
    lc_text_puts(body, "}");
    reply = timed(c, "/reward", body, &r->reward);
    if (!lc_reply_ok(reply))
        return fail(r, t, reply);
    r->earned += reward;
    r->curve[t] = (t > 0 ? r->curve[t - 1] : 0.0) + g->score(g->state, t, chosen);
    return 0;
}

/* The thread of one policy; leaves at the end, at a failure of its own, or when another has failed. */
static void *play(void *arg)
{
    struct lc_runner *r = arg;
    struct lc_client *c = lc_client_new(r->session, r->policy->tenant);
    struct lc_text body = {0};
    size_t *arms = lc_alloc(r->game->max_candidates, sizeof *arms);
    for (size_t t = 0; t < r->game->n_rounds && !atomic_load(r->is_stopped); t++) {
        if (play_round(r, c, t, arms, &body) != 0) {
            atomic_store(r->is_stopped, true);
            break;
        }
        atomic_store_explicit(&r->done, t + 1, memory_order_release);
    }
    free(arms);
    lc_text_close(&body);
    lc_client_free(c);
    return NULL;
}

/* --- watching --------------------------------------------------------------------------------------- */

static size_t slowest(struct lc_runner *runners, size_t n)
{
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t done = atomic_load_explicit(&runners[i].done, memory_order_acquire);
        least = done < least ? done : least;
    }
    return least;
}

/* Every policy at its own round would not compare: all are shown at the round that the slowest has reached. Only
 * curve[t - 1] with t <= done of each runner is read, which no thread writes any more. */
static void show(struct lc_progress *p, const struct lc_game *g, struct lc_runner *runners, size_t n, const char *unit,
                 bool is_rate)
{
    struct lc_text line = {0};
    size_t t = slowest(runners, n), done = 0;
    lc_text_printf(&line, "%s/%s  %s:", lc_thousands(t), lc_thousands(g->n_rounds), unit);
    for (size_t i = 0; i < n; i++) {
        done += atomic_load_explicit(&runners[i].done, memory_order_acquire);
        /* before the first common round there is nothing to show */
        double v = t > 0 ? runners[i].curve[t - 1] : 0.0;
        if (is_rate)
            lc_text_printf(&line, " %s %.3f", runners[i].policy->label, t > 0 ? v / (double)t : 0.0);
        else
            lc_text_printf(&line, " %s %.0f", runners[i].policy->label, v);
    }
    lc_progress_show(p, (double)done / ((double)n * (double)g->n_rounds), line.data);
    lc_text_close(&line);
}

static void watch(struct lc_progress *p, const struct lc_game *g, struct lc_runner *runners, size_t n, const char *unit,
                  bool is_rate, const _Atomic bool *is_stopped)
{
    while (slowest(runners, n) < g->n_rounds && !atomic_load(is_stopped)) {
        show(p, g, runners, n, unit, is_rate);
        lc_sleep_until_ns(lc_now_ns() + 20000000u);
    }
    lc_progress_clear(p);
}

/* When a thread cannot start, those that run are stopped and waited for. Results are valid after the joins, which order
 * the threads' writes before the caller's reads. */
int lc_race_run(const struct lc_session *s, const struct lc_game *game, struct lc_runner *runners, size_t n,
                struct lc_progress *progress, const char *unit, bool is_rate)
{
    _Atomic bool is_stopped = false;
    size_t n_started = 0;
    int rc = 0;
    for (; n_started < n; n_started++) {
        struct lc_runner *r = &runners[n_started];
        r->session = s;
        r->game = game;
        r->is_stopped = &is_stopped;
        r->curve = lc_alloc(game->n_rounds, sizeof *r->curve);
        lc_histogram_clear(&r->select);
        lc_histogram_clear(&r->reward);
        if (pthread_create(&r->thread, NULL, play, r) != 0) {
            snprintf(r->why, sizeof r->why, "%s: no thread could be started", r->policy->label);
            atomic_store(&is_stopped, true);
            rc = 1;
            break;
        }
    }
    if (n_started == n)
        watch(progress, game, runners, n, unit, is_rate, &is_stopped);
    for (size_t i = 0; i < n_started; i++)
        pthread_join(runners[i].thread, NULL);
    for (size_t i = 0; i < n; i++)
        if (runners[i].why[0] != '\0') {
            lc_fail("%s", runners[i].why);
            rc = 1;
        }
    return rc;
}
