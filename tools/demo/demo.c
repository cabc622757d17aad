/* Common ground of the demos. All policies get the same lambda, beta and noise and keep every other setting of their
 * presets: the demo shows the presets, not somebody's tuning of one of them.
 *
 * A demo is fair when nothing but the policy differs: one world for all, the same rounds in the same order
 * (race.h), noise keyed by round and arm, and the same lambda and beta. `random` has no model and shows what
 * chance earns. */
#include "demo/demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo/chart.h"
#include "common/http_client.h"

/* ANSI colours and, for terminals without, letters; one per policy in the order of the table. */
static const int colours[LC_MAX_POLICIES] = {32, 33, 36, 35, 34, 31, 37, 37};
static const char marks[LC_MAX_POLICIES] = {'*', 'o', '+', '.', 'x', '#', '%', '@'};

/* /readyz and not /healthz: a server that drains or whose disk fails would answer the latter and then refuse the demo.
 */
int lc_demo_check(const struct lc_session *s)
{
    struct lc_client *c = lc_client_new(s, NULL);
    const struct lc_reply *r = lc_client_get(c, "/readyz");
    int rc = 0;
    if (!lc_reply_ok(r)) {
        rc = lc_reply_fail(r, "the demo needs a running server");
        fputs("start one in another terminal:  laplaced --data ./data\n", stderr);
    }
    lc_client_free(c);
    return rc;
}

/* --- the world ---------------------------------------------------------------------------------------- */

void lc_demo_put_graph(const void *state, const char *(*name)(const void *state, size_t user), size_t n_listed,
                       const struct kb_edge *edges, size_t n_edges, struct lc_text *out)
{
    for (size_t i = 0; i < n_listed; i++) {
        lc_text_puts(out, i > 0 ? "," : "{\"users\":[");
        lc_text_json(out, name(state, i));
    }
    lc_text_puts(out, n_listed > 0 ? "],\"edges\":[" : "{\"edges\":[");
    for (size_t i = 0; i < n_edges; i++) {
        lc_text_puts(out, i > 0 ? ",[" : "[");
        lc_text_json(out, name(state, edges[i].u));
        lc_text_puts(out, ",");
        lc_text_json(out, name(state, edges[i].v));
        lc_text_puts(out, ",");
        lc_text_number(out, edges[i].weight);
        lc_text_puts(out, "]");
    }
    lc_text_puts(out, "]}");
}

void lc_demo_put_arms(const struct lc_game *game, size_t n, const double *features, size_t dim, struct lc_text *out)
{
    lc_text_puts(out, "{\"arms\":[");
    for (size_t a = 0; a < n; a++) {
        lc_text_puts(out, a > 0 ? ",{" : "{");
        lc_put_text(out, "id", game->arm(game->state, a));
        if (features != NULL) {
            lc_put_key(out, "features");
            lc_text_vector(out, features + a * dim, dim);
        }
        lc_text_puts(out, "}");
    }
    lc_text_puts(out, "]}");
}

/* --- one race --------------------------------------------------------------------------------------- */

/* JSON body of PUT tenant: only what the demo decides for all is said; the rest is the preset's. rho is set for the
 * policies that have a graph; the others' user kernel has none. */
static void set_config(struct lc_text *out, const struct ld_ope_policy *p, const struct lc_demo_options *o,
                       size_t arm_dim, size_t seed)
{
    lc_text_clear(out);
    lc_text_puts(out, "{");
    lc_put_text(out, "algorithm", p->algorithm);
    lc_put_count(out, "arm_dim", p->has_features ? arm_dim : 0);
    lc_text_puts(out, ",\"representation\":{");
    lc_put_number(out, "lambda", o->lambda);
    lc_text_puts(out, "},\"confidence\":{");
    lc_put_number(out, "beta", o->beta);
    lc_put_number(out, "noise", sqrt(o->lambda));
    if (o->rho > 0.0 && p->graph != LC_NO_GRAPH) {
        lc_text_puts(out, "},\"user_kernel\":{");
        lc_put_number(out, "rho", o->rho);
    }
    lc_text_puts(out, "}");
    lc_put_count(out, "seed", seed);
    lc_text_puts(out, "}");
}

/* Braille needs colours to be told apart and UTF-8 to be seen; else letters. y: copies, because the base is taken off:
 * for hits the curve of `random`, since all of them rise. */
static void draw_chart(const struct lc_show *show, const struct lc_runner *runners, size_t n_rounds)
{
    const size_t n = show->n_policies;
    struct ld_ope_series series[LC_MAX_POLICIES];
    struct lc_text out = {0};
    struct lc_chart chart = {.width = 70, .height = 16, .x_label = "round"};
    chart.is_coloured = lc_stdout_has_colours() && lc_is_utf8();
    double *y = lc_alloc(n * n_rounds, sizeof *y);
    for (size_t i = 0; i < n; i++) {
        size_t from = n - 1 - i; /* the first policy is drawn last, on top */
        for (size_t t = 0; t < n_rounds; t++)
            y[i * n_rounds + t] = runners[from].curve[t] - (show->base < n ? runners[show->base].curve[t] : 0.0);
        series[i] =
            (struct ld_ope_series){show->policies[from].label, y + i * n_rounds, n_rounds, marks[from], colours[from]};
    }
    lc_chart_draw(&chart, series, n, &out);
    fputs(out.data, stdout);
    lc_text_close(&out);
    free(y);
}

static int play(const struct lc_session *s, const struct lc_show *show, const struct lc_demo_options *o,
                const struct lc_game *game, const struct lc_world *world, size_t arm_dim, size_t seed,
                struct lc_runner *runners)
{
    struct lc_progress progress;
    for (size_t i = 0; i < show->n_policies; i++) {
        const struct ld_ope_policy *p = &show->policies[i];
        runners[i] = (struct lc_runner){.policy = p};
        set_config(&runners[i].config, p, o, arm_dim, seed);
        const int rc = lc_race_prepare(s, &runners[i], world);
        if (rc != 0)
            return rc;
    }
    lc_progress_init(&progress, o->is_quiet || s->is_json);
    return lc_race_run(s, game, runners, show->n_policies, &progress, show->unit, show->is_rate);
}

int lc_demo_race(const struct lc_session *s, const struct lc_show *show, const struct lc_demo_options *o,
                 struct lc_game *game, struct lc_world *world, size_t arm_dim, size_t seed_ix, struct lc_scores *scores)
{
    const size_t n = show->n_policies, seed = o->seed + seed_ix;
    const bool is_last = seed_ix + 1 == o->n_seeds;
    struct lc_runner *runners = lc_alloc(n, sizeof *runners);
    snprintf(game->id_prefix, sizeof game->id_prefix, "demo-%zu", seed);
    int rc = play(s, show, o, game, world, arm_dim, seed, runners);
    for (size_t i = 0; i < n && rc == 0; i++) {
        scores->label[i] = show->policies[i].label;
        scores->tenant[i] = show->policies[i].tenant;
        lc_scores_add(scores, i, seed_ix, runners[i].curve, game->n_rounds, show->is_rate);
        lc_histogram_merge(&scores->select[i], &runners[i].select);
        lc_histogram_merge(&scores->reward[i], &runners[i].reward);
    }
    if (rc == 0 && !s->is_json && is_last) {
        printf("%s, seed %zu (%s is better)\n\n", show->headline, seed, show->is_rate ? "higher" : "lower");
        draw_chart(show, runners, o->n_rounds);
    }
    if (rc == 0 && o->svg != NULL && is_last)
        rc = lc_demo_picture_write(show, runners, o->n_rounds, o->svg);
    for (size_t i = 0; i < n; i++)
        lc_runner_close(&runners[i]);
    free(runners);
    lc_text_close(&world->graph);
    lc_text_close(&world->users);
    lc_text_close(&world->arms);
    lc_text_close(&world->names);
    return rc;
}

/* --- the end of the show ---------------------------------------------------------------------------- */

/* Commands that can be pasted: the tenants of the demo are still there. The key is not printed: the command line names
 * the variable that holds it. */
void lc_demo_epilogue(const struct lc_session *s, const char *tenant, const char *user)
{
    const char *key = s->key != NULL ? " -H \"Authorization: Bearer $LAPLACED_KEY\"" : "";
    printf("\nThe tenants are still there. Try next:\n"
           "  curl -s %s/select%s -H 'Laplaced-Tenant: %s' \\\n"
           "       -H 'Content-Type: application/json' -d '{\"user\":\"%s\",\"explain\":true,\"dry_run\":true}'\n"
           "  laplacectl select %s --tenant %s --top 3 --dry-run\n"
           "  laplacectl model --tenant %s\n"
           "  laplacectl stats --tenant %s\n"
           "  laplacectl events --tenant %s --limit 5\n",
           s->server, key, tenant, user, user, tenant, tenant, tenant, tenant);
}
