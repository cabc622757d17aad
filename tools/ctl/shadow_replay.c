/* laplacectl replay --shadow. The request is the configuration and then the file as it is, sent
 * while the answer comes; each line of the answer moves the progress line, or is the last one, which is kept. */
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "common/http_client.h"
#include "common/progress.h"

struct exchange {
    struct lc_text head; /* the first line of the body */
    size_t n_sent;       /* of it */
    FILE *file;          /* NULL: nothing follows */
    struct lc_text line; /* of the answer, as far as it has come */
    struct lc_text last; /* the last whole one */
    struct lc_progress progress;
};

/* --- out ------------------------------------------------------------------------------------------------ */

/* {"type":"replay","configuration":...}; 0, or 1 after a printed error. */
static int make_head(struct lc_text *out, const struct lc_shadow_options *o)
{
    struct json_t *doc = lc_json_from_file(o->configuration);
    if (doc == NULL)
        return 1;
    lc_text_puts(out, "{\"type\":\"replay\",\"configuration\":");
    lc_json_write(doc, false, out);
    if (o->file == NULL)
        lc_text_puts(out, ",\"log\":\"own\"");
    lc_put_text(out, "commit", o->commit);
    lc_text_puts(out, "}\n");
    lc_json_free(doc);
    return 0;
}

static size_t read_body(void *arg, char *buf, size_t n)
{
    struct exchange *x = arg;
    const size_t left = x->head.n - x->n_sent, part = left < n ? left : n;

    if (part > 0) {
        memcpy(buf, x->head.data + x->n_sent, part);
        x->n_sent += part;
        return part;
    }
    const size_t got = x->file != NULL ? fread(buf, 1, n, x->file) : 0;
    return x->file != NULL && ferror(x->file) ? LC_READ_FAILED : got;
}

/* --- in --------------------------------------------------------------------------------------------------- */

static const char *count(const struct json_t *o, const char *key)
{
    return lc_thousands((unsigned long long)lc_json_real(o, key));
}

static void take_line(struct exchange *x)
{
    char why[LC_WHY], text[128];
    struct json_t *doc = lc_json_parse(x->line.data, x->line.n, why);
    const char *type = lc_json_text(doc, "type");

    if (type != NULL && strcmp(type, "progress") == 0) {
        snprintf(text, sizeof text, "%s events, dictionary %s", count(doc, "events"), count(doc, "dictionary"));
        lc_progress_show(&x->progress, lc_json_real(doc, "progress"), text);
    }
    lc_json_free(doc);
    lc_text_clear(&x->last);
    lc_text_put(&x->last, x->line.data, x->line.n);
    lc_text_clear(&x->line);
}

static ssize_t write_answer(void *arg, const char *data, size_t n)
{
    struct exchange *x = arg;

    for (size_t at = 0; at < n;) {
        const char *end = memchr(data + at, '\n', n - at);
        const size_t part = (end != NULL ? (size_t)(end - data) : n) - at;

        lc_text_put(&x->line, data + at, part);
        at += part + (end != NULL);
        if (end != NULL)
            take_line(x);
    }
    return (ssize_t)n;
}

/* --- the report --------------------------------------------------------------------------------------------- */

/* One row; an estimate that there is nothing to tell from has none. */
static void print_estimate(const struct json_t *policy, const char *key, const char *what)
{
    const struct json_t *e = lc_json_get(policy, key);
    double estimate = 0.0;

    if (lc_json_number(lc_json_get(e, "estimate"), &estimate))
        printf("  %-14s %12.6g   [%.6g, %.6g]\n", what, estimate, lc_json_real(e, "lower"), lc_json_real(e, "upper"));
}

static void print_policy(const struct json_t *policy)
{
    if (lc_json_real(policy, "decisions") < 2)
        return;
    printf("\n%s decisions scored, %s of unknown candidates; effective sample size %.1f, mean weight %.4g\n\n"
           "  estimator          estimate   95 %% interval\n",
           count(policy, "decisions"), count(policy, "unknown"), lc_json_real(policy, "ess"),
           lc_json_real(lc_json_get(policy, "weights"), "estimate"));
    print_estimate(policy, "snips", "snips");
    print_estimate(policy, "ips", "ips");
    print_estimate(policy, "in_force", "in force");
    print_estimate(policy, "difference", "snips - in force");
    puts("");
}

static void print_report(const struct json_t *r)
{
    const struct json_t *model = lc_json_get(r, "model");
    const char *digest = lc_json_text(model, "digest");
    const char *tenant = lc_json_text(r, "tenant");

    printf("%s events of the log, %s passed over; %s learned, %.6g in sum\n", count(r, "events"),
           count(r, "passed_over"), count(r, "learned"), lc_json_real(r, "reward_sum"));
    lc_say("model: %s users, %s arms in the catalogue, %s points, dictionary %s, %s bytes, digest %s",
           count(model, "users"), count(model, "arms"), count(model, "points"), count(model, "dictionary"),
           count(model, "bytes"), digest != NULL ? digest : "none");
    print_policy(lc_json_get(r, "policy"));
    if (tenant != NULL)
        lc_say("tenant %s has learned it", tenant);
}

/* The last line of the answer tells: a report, or a problem. Neither: the answer broke off. */
static int conclude(const struct lc_session *s, const struct exchange *x)
{
    char why[LC_WHY];
    struct json_t *doc = x->last.n > 0 ? lc_json_parse(x->last.data, x->last.n, why) : NULL;
    const char *type = lc_json_text(doc, "type");
    int status = 1;

    if (type != NULL && strcmp(type, "report") == 0) {
        if (s->is_json)
            puts(x->last.data);
        else
            print_report(doc);
        status = 0;
    } else if (type != NULL && strcmp(type, "failed") == 0) {
        const struct json_t *problem = lc_json_get(doc, "problem");
        struct lc_reply refused = {.status = (int)lc_json_real(problem, "status")};
        lc_json_write(problem, false, &refused.body);
        status = lc_reply_fail(&refused, "replay");
        lc_text_close(&refused.body);
    } else {
        lc_fail("replay: the answer broke off");
    }
    lc_json_free(doc);
    return status;
}

/* --- the command ---------------------------------------------------------------------------------------------- */

static int run(const struct lc_session *s, struct exchange *x)
{
    const cookie_io_functions_t io = {.write = write_answer};
    FILE *answer = fopencookie(x, "w", io);
    struct lc_client *c = lc_client_new(s, lc_tenant_name(s));
    struct lc_text path = lc_tenant_path(lc_tenant_name(s), "/replay");

    if (answer == NULL)
        lc_out_of_memory(1, sizeof *x);
    setvbuf(answer, NULL, _IONBF, 0); /* lines are told as they come */
    lc_client_be_patient(c);
    const struct lc_reply *r = lc_client_exchange(c, "POST", path.data, LC_NDJSON_TYPE, read_body, x, answer);
    lc_progress_clear(&x->progress);
    const int status = lc_reply_ok(r) ? conclude(s, x) : lc_reply_fail(r, "replay");
    fclose(answer);
    lc_text_close(&path);
    lc_client_free(c);
    return status;
}

int lc_shadow_replay(const struct lc_session *s, const struct lc_shadow_options *o)
{
    const bool is_stdin = o->file != NULL && strcmp(o->file, "-") == 0;
    struct exchange x = {.file = o->file == NULL ? NULL : is_stdin ? stdin : fopen(o->file, "rb")};
    int status = 1;

    lc_progress_init(&x.progress, o->is_quiet || s->is_json);
    if (o->file != NULL && x.file == NULL)
        lc_fail("%s cannot be read", o->file);
    else if (make_head(&x.head, o) == 0)
        status = run(s, &x);
    if (x.file != NULL && !is_stdin)
        fclose(x.file);
    lc_text_close(&x.head);
    lc_text_close(&x.line);
    lc_text_close(&x.last);
    return status;
}
