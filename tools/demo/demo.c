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
#include <string.h>

#include "demo/chart.h"
#include "common/http_client.h"

/* ANSI colours and, for terminals without, letters; one per policy in the order of the table. */
static const int colours[LC_MAX_POLICIES] = {32, 33, 36, 35, 34, 31, 37, 37};
static const char marks[LC_MAX_POLICIES] = {'*', 'o', '+', '.', 'x', '#', '%', '@'};

/* Asks before anything is computed: the most likely failure is that no server runs. /readyz and not /healthz:
 * one that drains or whose disk fails would answer the latter and then refuse the demo. The hint about
 * starting a server goes to standard error, like the error itself. */
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

/* --- one race --------------------------------------------------------------------------------------- */

/* Only what the demo decides for all is said; the rest is the preset's. JSON body of PUT tenant. The policy's
 * tenant learns with noise = sqrt(lambda), its standard deviation. rho is set for the policies that have
 * a graph; the others' user kernel has none. */
static void set_config(struct lc_text *out, const struct lc_policy *p, const struct lc_demo_options *o, size_t arm_dim,
                       size_t seed)
{
    lc_text_clear(out);
    lc_text_puts(out, "{\"algorithm\":");
    lc_text_json(out, p->algorithm);
    lc_text_printf(out, ",\"arm_dim\":%zu,\"representation\":{\"lambda\":", p->has_features ? arm_dim : (size_t)0);
    lc_text_number(out, o->lambda);
    lc_text_puts(out, "},\"confidence\":{\"beta\":");
    lc_text_number(out, o->beta);
    lc_text_puts(out, ",\"noise\":");
    lc_text_number(out, sqrt(o->lambda));
    if (o->rho > 0.0 && p->graph != LC_NO_GRAPH) {
        lc_text_puts(out, "},\"user_kernel\":{\"rho\":");
        lc_text_number(out, o->rho);
    }
    lc_text_printf(out, "},\"seed\":%zu}", seed);
}

/* Tenants are made one after another, before the clock of the progress line starts. `seed_ix` counts from 0
 * and selects the column of `scores`; the tenants' seed is that of the options plus it. On failure the scores
 * of this seed are left as they were. What is merged into `scores` are copies: the runners may be closed
 * right after. A failure of one policy fails the seed, and the demo ends with it. */
int lc_demo_race(const struct lc_session *s, const struct lc_policy *policies, size_t n, const struct lc_game *game,
                 const struct lc_world *world, const struct lc_demo_options *o, size_t arm_dim, const char *unit,
                 bool is_rate, size_t seed_ix, struct lc_runner *runners, struct lc_scores *scores)
{
    struct lc_progress progress;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct lc_policy *p = &policies[i];
        runners[i] = (struct lc_runner){
            .label = p->label, .tenant = p->tenant, .graph = p->graph, .has_features = p->has_features};
        set_config(&runners[i].config, p, o, arm_dim, o->seed + seed_ix);
        rc = lc_race_prepare(s, &runners[i], world);
    }
    if (rc != 0)
        return rc;
    lc_progress_init(&progress, o->is_quiet || s->is_json);
    rc = lc_race_run(s, game, runners, n, &progress, unit, is_rate);
    for (size_t i = 0; i < n && rc == 0; i++) {
        scores->label[i] = policies[i].label;
        scores->tenant[i] = policies[i].tenant;
        lc_scores_add(scores, i, seed_ix, runners[i].curve, game->n_rounds, is_rate);
        lc_histogram_merge(&scores->select[i], &runners[i].select);
        lc_histogram_merge(&scores->reward[i], &runners[i].reward);
    }
    return rc;
}

/* --- the end of the show ---------------------------------------------------------------------------- */

/* Braille needs colours to be told apart and UTF-8 to be seen; else letters. Curves have n_rounds values
 * each. y: copies, because the base is taken off. base = n draws the curves as they are. For hits the
 * curve of `random` is taken off, since all of them rise. */
void lc_demo_chart(const struct lc_runner *runners, size_t n, size_t base, size_t n_rounds, const char *x_label)
{
    struct lc_series series[LC_MAX_POLICIES];
    struct lc_text out = {0};
    struct lc_chart chart = {.width = 70, .height = 16, .x_label = x_label};
    chart.is_coloured = lc_stdout_has_colours() && lc_is_utf8();
    double *y = lc_alloc(n * n_rounds, sizeof *y);
    for (size_t i = 0; i < n; i++) {
        size_t from = n - 1 - i; /* the first policy is drawn last, on top */
        for (size_t t = 0; t < n_rounds; t++)
            y[i * n_rounds + t] = runners[from].curve[t] - (base < n ? runners[base].curve[t] : 0.0);
        series[i] = (struct lc_series){runners[from].label, y + i * n_rounds, n_rounds, marks[from], colours[from]};
    }
    lc_chart_draw(&chart, series, n, &out);
    fputs(out.data, stdout);
    lc_text_close(&out);
    free(y);
}

/* Commands that can be pasted: the tenants of the demo are still there. The key is not printed: the command
 * line names the variable that holds it. Printed behind the town's report, not with --json. */
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
