/* laplacectl events, model, stats, health: what a tenant knows and has done.
 *
 * `events --follow` polls GET /events?after=N and prints what is new until it is interrupted; the sequence number
 * of the last line printed is all the state there is, so nothing is lost or printed twice when the server restarts.
 *
 * At most 10,000 lines are asked for at a time, so a log of any length passes in constant memory. When a
 * request fails the command ends with status 1; started again with --after it goes on where it was. */
#include "ctl/commands.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/http_client.h"
#include "common/progress.h"

/* --- events ----------------------------------------------------------------------------------------- */

/* Where the reading stands. */
struct tail {
    struct lc_client *client;
    const char *base; /* "/tenants/x/events" */
    const char *type; /* only lines of this type; NULL: all */
    unsigned long long after;
    size_t left; /* lines still wanted */
    size_t last; /* lines of the last batch, before filtering */
};

/* Byte for byte when it is of the type asked for; only those count against --limit. 0, or 1 after a printed error. */
static int print_line(struct tail *t, const char *line, size_t n)
{
    char why[LC_WHY];
    double seq = 0.0;
    struct json_t *doc = lc_json_parse(line, n, why);
    if (doc == NULL || !lc_json_number(lc_json_get(doc, "seq"), &seq)) {
        lc_fail("events: a line without a sequence number after %llu", t->after);
        lc_json_free(doc);
        return 1;
    }
    const char *type = lc_json_text(doc, "type");
    if (t->type == NULL || (type != NULL && strcmp(type, t->type) == 0)) {
        fwrite(line, 1, n, stdout);
        putchar('\n');
        t->left--;
    }
    t->after = (unsigned long long)seq;
    lc_json_free(doc);
    return 0;
}

/* The lines of one answer, up to the limit. Flushed at its end, so that a pipe sees events as they come. */
static int print_lines(struct tail *t, const struct lc_text *body)
{
    const char *p = body->data, *end = body->data + body->n;
    t->last = 0;
    while (p < end && t->left > 0) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t n = eol != NULL ? (size_t)(eol - p) : (size_t)(end - p);
        if (n > 0) {
            t->last++;
            if (print_line(t, p, n) != 0)
                return 1;
        }
        p += n + 1;
    }
    if (fflush(stdout) != 0) {
        perror("laplacectl: standard output");
        return 1;
    }
    return 0;
}

/* One request; 0, or an exit status after a printed error. With a filter the number of lines wanted says nothing about
 * how many must be read, hence the full batch. */
static int fetch_batch(struct tail *t)
{
    struct lc_text path = {0};
    size_t limit = t->type == NULL && t->left < 10000 ? t->left : 10000;
    lc_text_printf(&path, "%s?after=%llu&limit=%zu", t->base, t->after, limit);
    const struct lc_reply *r = lc_client_get(t->client, path.data);
    int status = lc_reply_ok(r) ? print_lines(t, &r->body) : lc_reply_fail(r, t->base);
    lc_text_close(&path);
    return status;
}

/* Asks again at once while lines come, matching or not. Without --follow the first empty batch is the end of the log;
 * with it each look costs one request. */
static int print_events(struct tail *t, bool follows, double interval_s)
{
    for (;;) {
        int status = fetch_batch(t);
        if (status != 0 || t->left == 0)
            return status;
        if (t->last == 0) {
            if (!follows)
                return 0;
            lc_sleep_until_ns(lc_now_ns() + (uint64_t)(fmin(interval_s, 1e9) * 1e9));
        }
    }
}

static int run_events(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    struct tail t = {0};
    size_t after = 0, limit = 0;
    bool follows = false;
    double interval_s = 0.5;
    const struct lc_opt opts[] = {
        {"after", LC_OPT_COUNT, &after, "SEQ", "begin after this sequence number (default 0: the beginning)"},
        {"limit", LC_OPT_COUNT, &limit, "N", "at most N lines (default: all)"},
        {"type", LC_OPT_TEXT, &t.type, "TYPE", "only decided, rewarded, observed, configured, ..."},
        {"follow", LC_OPT_FLAG, &follows, NULL, "wait for more and print it as it comes"},
        {"interval", LC_OPT_REAL, &interval_s, "SECONDS", "between two looks with --follow (default 0.5)"},
    };
    int rc = lc_args_parse(self, s, opts, 5, argc, argv, &w, 0, 0);
    if (rc != LC_GO)
        return rc;
    struct lc_text base = lc_tenant_path(lc_tenant_name(s), "/events");
    t.client = lc_client_new(s, s->tenant);
    t.base = base.data;
    t.after = after;
    t.left = limit > 0 ? limit : SIZE_MAX;
    rc = print_events(&t, follows, interval_s);
    lc_client_free(t.client);
    lc_text_close(&base);
    return rc;
}

const struct lc_command lc_cmd_events = {
    .name = "events",
    .synopsis = "events [--after SEQ] [--limit N] [--type TYPE] [--follow]",
    .about = "the log of a tenant as NDJSON, with --follow as it grows",
    .text =
        "The log is all that a tenant is made of (schema/event.schema.json). `laplacectl replay` teaches its lines\n"
        "to another tenant, which may have another configuration.\n\n"
        "  laplacectl events --tenant shop > shop.ndjson\n"
        "  laplacectl events --tenant shop --follow --type rewarded\n",
    .run = run_events,
};

/* --- model, stats ----------------------------------------------------------------------------------- */

static int run_model(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 0, 0);
    return rc != LC_GO ? rc : lc_tenant_request(s, "GET", "/model", NULL, NULL);
}

const struct lc_command lc_cmd_model = {
    .name = "model",
    .synopsis = "model [--tenant NAME]",
    .about = "the model in numbers: parameters in force, size, digest",
    .run = run_model,
};

static int run_stats(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    size_t window = 3600;
    struct lc_text rest = {0};
    const struct lc_opt opts[] = {
        {"window", LC_OPT_COUNT, &window, "SECONDS",
         "the newest decisions are told by themselves, too; how new (default 3600)"},
    };
    int rc = lc_args_parse(self, s, opts, 1, argc, argv, &w, 0, 0);
    if (rc != LC_GO)
        return rc;
    lc_text_printf(&rest, "/stats?window_s=%zu", window);
    rc = lc_tenant_request(s, "GET", rest.data, NULL, NULL);
    lc_text_close(&rest);
    return rc;
}

const struct lc_command lc_cmd_stats = {
    .name = "stats",
    .synopsis = "stats [--window SECONDS]",
    .about = "decisions, rewards and mean reward, by arm and window",
    .run = run_stats,
};

/* --- health ----------------------------------------------------------------------------------------- */

/* Not ready is an answer, too: printed as an error and told by status 1. For containers: --live is for the check that
 * restarts, without it for the one that keeps traffic away. */
static int run_health(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    bool is_liveness = false;
    const struct lc_opt opts[] = {
        {"live", LC_OPT_FLAG, &is_liveness, NULL, "only: does it answer? (/healthz instead of /readyz)"},
    };
    int rc = lc_args_parse(self, s, opts, 1, argc, argv, &w, 0, 0);
    if (rc != LC_GO)
        return rc;
    return lc_request(s, "GET", is_liveness ? "/healthz" : "/readyz", NULL, NULL);
}

const struct lc_command lc_cmd_health = {
    .name = "health",
    .synopsis = "health [--live]",
    .about = "exit status 0 when the server is ready (for health checks)",
    .run = run_health,
};

/* --- ready ------------------------------------------------------------------------------------------- */

#define ASK_AGAIN_NS 200000000u

/* Asks until the server is ready, or the time is up; then the last answer is the reason, be it that nobody listens. A
 * server that still recovers answers 503, one that is not yet there nothing, and both may come to be ready. */
static int run_ready(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    double wait_s = 0;
    const struct lc_opt opts[] = {
        {"wait", LC_OPT_REAL, &wait_s, "SECONDS", "ask again for so long (default 0: once)"},
    };
    int rc = lc_args_parse(self, s, opts, 1, argc, argv, &w, 0, 0);
    if (rc != LC_GO)
        return rc;
    const uint64_t end_ns = lc_now_ns() + (uint64_t)(fmin(wait_s, 1e9) * 1e9);
    struct lc_client *c = lc_client_new(s, NULL);
    const struct lc_reply *reply = lc_client_get(c, "/readyz");
    while (!lc_reply_ok(reply) && lc_now_ns() < end_ns) {
        lc_sleep_until_ns(lc_now_ns() + ASK_AGAIN_NS);
        reply = lc_client_get(c, "/readyz");
    }
    rc = lc_reply_print(s, reply, "/readyz");
    lc_client_free(c);
    return rc;
}

const struct lc_command lc_cmd_ready = {
    .name = "ready",
    .synopsis = "ready [--wait SECONDS]",
    .about = "exit status 0 when the server may be sent traffic (for scripts and health checks)",
    .run = run_ready,
};
