/* clang-format off */
/* laplacectl import --format, export --format: logs of others in and out of a tenant that serves.
 *
 *     in    reader -> bodies of /observe, up to BATCH_LINES or BATCH_BYTES -> the tenant learns, with propensities
 *     out   GET /export -> a file without a name -> the reader of our own log -> lines of the format
 *
 * What comes in is a warm start. A batch is all or nothing. What was sent before a failure stays learned, and the
 * message of the failure says how much that is.
 *
 * The tenant's configuration says how long vectors are. Names are mapped by its `features` (feature_names.h), and
 * hashed to that length where it has none (hashing.h). */
/* clang-format on */
#include "ctl/move_logs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "common/http_client.h"
#include "common/json.h"
#include "evaluate/log_writer.h"

#define BATCH_LINES 1000u
#define BATCH_BYTES (4u << 20)

static int read_weight(void *arg, const char *key, const struct json_t *v)
{
    double weight = 1;

    return lc_json_number(v, &weight) && kb_split_put(arg, key, weight) == KB_OK ? 0 : -1;
}

/* The tenant's mapping of names, where it has one. 0, or the exit status. */
static int read_mapping(const struct json_t *features, struct ld_name_map *out)
{
    const char *mapping = lc_json_text(features, "mapping"), *user = lc_json_text(features, "user");
    char path[LD_NAMES_PATH_BYTES + 1];

    *out = (struct ld_name_map){.dim = 0};
    if (!lc_json_is_object(features))
        return 0;
    if (mapping == NULL || (strcmp(mapping, LD_NAMES_MAPPING) != 0 && strcmp(mapping, LD_NAMES_OWN_MAPPING) != 0))
        return lc_fail("the tenant's features have a mapping that this program does not know");
    out->dim = (uint32_t)lc_json_real(features, "dim");
    out->seed = (uint32_t)lc_json_real(features, "seed");
    if (lc_json_each(lc_json_get(features, "weights"), read_weight, &out->weights) != 0 ||
        lc_json_each(lc_json_get(features, "namespaces"), read_weight, &out->spaces) != 0)
        return lc_fail("the tenant's features have weights that this program does not know");
    if (user != NULL && ld_names_path(user, path) == 0)
        return lc_fail("the tenant's features have a user that this program does not know");
    strcpy(out->user, user != NULL ? user : "");
    return 0;
}

int lc_move_dimensions(const struct lc_session *s, struct lc_client *c, struct lc_move_options *o)
{
    struct lc_text path = lc_tenant_path(lc_tenant_name(s), "");
    double context = 0, arm = 0;

    const struct lc_reply *r = lc_client_get(c, path.data);
    int status = lc_reply_ok(r) ? 0 : lc_reply_fail(r, path.data);
    lc_text_close(&path);
    if (status != 0)
        return status;
    struct json_t *view = lc_reply_json(r);
    const struct json_t *configuration = lc_json_get(view, "configuration");
    if (!lc_json_number(lc_json_get(configuration, "context_dim"), &context) ||
        !lc_json_number(lc_json_get(configuration, "arm_dim"), &arm))
        status = lc_fail("the server does not tell the tenant's dimensions");
    if (status == 0)
        status = read_mapping(lc_json_get(configuration, "features"), &o->log.read.names);
    lc_json_free(view);
    o->log.read.context_dim = (uint32_t)context;
    o->log.read.arm_dim = (uint32_t)arm;
    o->log.read.hash_seed = (uint32_t)o->hash_seed;
    o->log.read.all_slots = true;
    o->log.read.default_reward = o->default_reward >= 0 ? o->default_reward : (double)NAN;
    return status;
}

/* --- in ------------------------------------------------------------------------------------------------- */

struct batch {
    struct lc_client *client;
    struct lc_text lines;
    size_t n, n_sent, last_line;
};

/* 0, or the exit status after saying how far it came. */
static int send_batch(struct batch *b)
{
    if (b->n == 0)
        return 0;
    const struct lc_reply *r = lc_client_send(b->client, "POST", "/observe", LC_NDJSON_TYPE, b->lines.data, b->lines.n);
    if (!lc_reply_ok(r)) {
        lc_reply_fail(r, "/observe");
        return lc_fail("learned before that: %zu decisions, up to line %zu", b->n_sent, b->last_line);
    }
    b->n_sent += b->n;
    b->n = 0;
    lc_text_clear(&b->lines);
    return 0;
}

static int send_log(struct lc_log *log, struct batch *b)
{
    struct ld_logged ev;
    size_t line = 0;
    int rc;

    while ((rc = lc_log_next(log, &ev)) == 1) {
        b->n += lc_log_put_observation(&b->lines, log, &ev);
        line = ev.line;
        if (b->n < BATCH_LINES && b->lines.n < BATCH_BYTES)
            continue;
        if (send_batch(b) != 0)
            return 1;
        b->last_line = line;
    }
    if (send_batch(b) != 0)
        return 1;
    if (rc < 0) {
        lc_fail("%s", log->base.why.text);
        lc_note("learned before that: %zu decisions", b->n_sent);
    }
    return rc < 0 ? 1 : 0;
}

static void report_in(const struct lc_session *s, const struct lc_log *log, const struct batch *b)
{
    struct lc_text t = {0};

    if (!s->is_json) {
        printf("%s decisions learned, %s arms\n", lc_thousands(b->n_sent), lc_thousands(log->base.arms.n));
        return;
    }
    lc_text_puts(&t, "{");
    lc_put_count(&t, "observed", b->n_sent);
    lc_put_count(&t, "arms", log->base.arms.n);
    lc_text_puts(&t, ",\"skipped\":{");
    lc_put_count(&t, "faulty", log->base.n_bad);
    for (size_t i = 0; i < LD_DECISIONS_REASONS && log->base.skipped[i].reason != NULL; i++)
        lc_put_count(&t, log->base.skipped[i].reason, log->base.skipped[i].n);
    lc_text_puts(&t, "}}");
    puts(t.data);
    lc_text_close(&t);
}

int lc_move_in(const struct lc_session *s, struct lc_move_options *o, const char *file)
{
    struct batch b = {.client = lc_client_new(s, lc_tenant_name(s))};
    struct lc_log log;
    int status = lc_move_dimensions(s, b.client, o);

    if (status == 0) {
        o->log.path = file;
        status = lc_log_open(&log, lc_log_format(o->format), &o->log) == 0 ? send_log(&log, &b)
                                                                           : lc_fail("%s", log.base.why.text);
        if (status == 0)
            report_in(s, &log, &b);
        lc_log_close(&log);
    }
    lc_text_close(&b.lines);
    lc_client_free(b.client);
    return status;
}

/* --- out ------------------------------------------------------------------------------------------------ */

/* The tenant's log in a file without a name, to be closed by the caller; NULL, printed. */
static FILE *fetch_log(const struct lc_session *s, struct lc_client *c)
{
    FILE *f = tmpfile();

    if (f == NULL) {
        lc_fail("%s", strerror(errno));
        return NULL;
    }
    struct lc_text path = lc_tenant_path(lc_tenant_name(s), "/export");
    const struct lc_reply *r = lc_client_exchange(c, "GET", path.data, NULL, NULL, NULL, f);
    const bool is_good = lc_reply_ok(r);
    if (!is_good)
        lc_reply_fail(r, path.data);
    lc_text_close(&path);
    if (is_good)
        return f;
    fclose(f);
    return NULL;
}

/* The first pass learns which arms there are, the second writes. The exit status. */
static int write_log(struct lc_log *log, bool is_dsjson, FILE *out)
{
    struct lc_text t = {0};
    struct ld_logged ev;
    size_t n = 0;
    int rc;

    while ((rc = lc_log_next(log, &ev)) == 1)
        ;
    if (rc == 0)
        rc = lc_log_rewind(log);
    while (rc == 0 && (rc = lc_log_next(log, &ev)) == 1) {
        lc_text_clear(&t);
        (is_dsjson ? lc_log_put_dsjson : lc_log_put_ndjson)(&t, log, &ev);
        rc = fwrite(t.data, 1, t.n, out) == t.n ? 0 : -1;
        if (rc != 0)
            snprintf(log->base.why.text, sizeof log->base.why.text, "%s", strerror(errno));
        n++;
    }
    lc_text_close(&t);
    if (rc != 0)
        return lc_fail("%s", log->base.why.text);
    lc_note("%zu decisions with their rewards", n);
    return 0;
}

int lc_move_out(const struct lc_session *s, struct lc_move_options *o, FILE *out)
{
    struct lc_client *c = lc_client_new(s, lc_tenant_name(s));
    struct lc_log log;
    int status = lc_move_dimensions(s, c, o);

    lc_client_be_patient(c);
    FILE *f = status == 0 ? fetch_log(s, c) : NULL;
    if (f != NULL) {
        o->log.path = "-";
        o->log.input = f;
        status = lc_log_open(&log, &lc_log_ndjson, &o->log) == 0
                     ? write_log(&log, strcmp(o->format, "dsjson") == 0, out)
                     : lc_fail("%s", log.base.why.text);
        lc_log_close(&log);
    } else {
        status = 1;
    }
    lc_client_free(c);
    return status;
}
