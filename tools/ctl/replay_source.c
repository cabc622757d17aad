/* Three kinds of lines, told apart by their fields, may stand in one file:
 *
 *   full information   {"user", "context"?, "candidates"?, "exclude"?, "rewards": {arm: value}, "default"?}
 *                      -> /select; the arm that was chosen earns rewards[arm], else "default", else 0
 *   logged             {"user", "context"?, "arm", "reward", "propensity"?}
 *                      -> /observe
 *   our own log        {"seq", "type", ...}: decided + rewarded (or expired with a reward) -> /observe; observed ->
 *                      /observe; other lines are skipped and counted
 *
 * Own log: the decided line is kept until its reward comes; a slate's until the end, since each slot has its own.
 * A second reward of the same decision (aggregation sum or last) is skipped. Memory: one line per open decision,
 * and the ids of all decisions.
 *
 * What a line asks for is decided from its fields alone; values go through unread where the server will check
 * them, so that a refusal names the server's reason. A line that is no JSON object of these kinds is an
 * error. */
#include "ctl/replay_source.h"

#include <math.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash_key.h"
#include "common/network.h"
#include "evaluate/log_guess.h"
#include "evaluate/log_writer.h"

#define MAX_PATH 60 /* bytes of a path in a message */

const char lc_source_help[] =
    "FILE (\"-\": standard input) holds one JSON object a line, of any of these kinds:\n"
    "  full information  {\"user\":\"u1\",\"context\":[..]?,\"candidates\":[..]?,\"exclude\":[..]?,\n"
    "                     \"rewards\":{\"a1\":0.3,\"a2\":1},\"default\":0?}\n"
    "                    sent to /select; the arm chosen earns rewards[arm], else default, else 0.\n"
    "                    Without candidates the arms named in rewards are the candidates.\n"
    "  logged            {\"user\":\"u1\",\"context\":[..]?,\"arm\":\"a1\" or {\"id\",\"features\"},\"reward\":1,\n"
    "                     \"propensity\":0.2?}   sent to /observe.\n"
    "  our own log       as `laplacectl events` prints it: decided lines with their rewarded (or expired, with a\n"
    "                    default reward) lines, and observed lines, sent to /observe; other lines are skipped.\n"
    "With --format FILE is a log as `laplacectl evaluate` reads it; its decisions are sent to /observe.\n"
    "--pace X sends each line at its time (\"at\" or \"time\", as \"2026-11-22T10:00:00.123Z\"), X times as fast:\n"
    "1 is as it happened, 60 is an hour in a minute. Under --pace and --rate a line does not wait for the answers\n"
    "before it, and its latency counts from the moment when it was due.\n"
    "With --shadow the server learns our own log under that configuration, beside the tenant, and tells what came of "
    "it.\n"
    "--bulk N sends N observations in one body, at the time of the last one.\n";

/* "file:line: text" into s->why; returns -1. Of a long path the end is shown, which says more than its beginning. */
static int fail(struct lc_source *s, const char *text)
{
    const size_t n = strlen(s->path);
    snprintf(s->why, sizeof s->why, "%s:%zu: %.180s", s->path + (n > MAX_PATH ? n - MAX_PATH : 0), s->line, text);
    return -1;
}

/* --- opening ---------------------------------------------------------------------------------------- */

/* The stream is closed by lc_source_close, except standard input. total_bytes stays 0: no bar. */
void lc_source_open_stream(struct lc_source *s, FILE *file, const char *name, const char *id_prefix)
{
    *s = (struct lc_source){.path = name, .file = file, .id_prefix = id_prefix};
    kb_ids_init(&s->decisions, ld_hash_key());
}

int lc_source_open(struct lc_source *s, const char *path, const char *id_prefix)
{
    struct stat st;
    int is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    lc_source_open_stream(s, f, is_stdin ? "standard input" : path, id_prefix);
    if (f == NULL) {
        snprintf(s->why, sizeof s->why, "%.160s: %s", path, strerror(errno));
        return -1;
    }
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode))
        s->total_bytes = (size_t)st.st_size;
    return 0;
}

/* Where the file is too short to tell, or packed, there is no bar. */
int lc_source_open_log(struct lc_source *s, const struct lc_log_reader_ops *format, const struct lc_log_options *o)
{
    lc_source_open_stream(s, NULL, o->path, NULL);
    s->log = lc_alloc(1, sizeof *s->log);
    if (lc_log_open(s->log, format, o) == 0)
        return 0;
    snprintf(s->why, sizeof s->why, "%.255s", s->log->base.why.text);
    return -1;
}

void lc_source_close(struct lc_source *s)
{
    if (s->file != NULL && s->file != stdin)
        fclose(s->file);
    for (size_t i = 0; i < s->decisions.n; i++)
        free(s->decided[i]);
    free(s->decided);
    kb_ids_close(&s->decisions);
    if (s->log != NULL)
        lc_log_close(s->log);
    free(s->log);
    free(s->buffer);
    *s = (struct lc_source){0};
}

void lc_task_close(struct lc_task *task)
{
    lc_text_close(&task->body);
    lc_json_free(task->doc);
    *task = (struct lc_task){0};
}

/* --- bodies ----------------------------------------------------------------------------------------- */

/* Left out when absent. */
static void put_member(struct lc_text *out, const char *name, const struct json_t *v)
{
    if (v == NULL)
        return;
    lc_put_key(out, name);
    lc_json_write(v, false, out);
}

/* A context of dimension 0 is left out of bodies, whether the log spells it [] or null. */
static void put_context(struct lc_text *out, const struct json_t *v)
{
    if (lc_json_is_array(v) && lc_json_length(v) > 0)
        put_member(out, "context", v);
}

/* The names of a rewards object, as candidates. Callback of lc_json_each, in the order of the text. */
static int put_key(void *arg, const char *key, const struct json_t *item)
{
    struct lc_text *out = arg;
    (void)item;
    if (out->data[out->n - 1] != '[')
        lc_text_puts(out, ",");
    lc_text_json(out, key);
    return 0;
}

/* Rewards stay in the parsed line, which the task keeps until its decision is back. 1, or -1 with why. The id, when
 * asked for, hangs on the line's number alone, so a repeated run repeats its decisions. */
static int select_task(struct lc_source *s, struct lc_task *task)
{
    const struct json_t *doc = task->doc, *rewards = lc_json_get(doc, "rewards");
    if (!lc_json_is_object(rewards))
        return fail(s, "\"rewards\" is an object {arm: value}");
    task->kind = LC_TASK_SELECT;
    lc_text_puts(&task->body, "{");
    put_member(&task->body, "user", lc_json_get(doc, "user"));
    put_context(&task->body, lc_json_get(doc, "context"));
    if (lc_json_get(doc, "candidates") != NULL) {
        put_member(&task->body, "candidates", lc_json_get(doc, "candidates"));
    } else {
        lc_text_puts(&task->body, ",\"candidates\":[");
        lc_json_each(rewards, put_key, &task->body);
        lc_text_puts(&task->body, "]");
    }
    put_member(&task->body, "exclude", lc_json_get(doc, "exclude"));
    if (s->id_prefix != NULL)
        lc_text_printf(&task->body, ",\"decision\":\"%s-%zu\"", s->id_prefix, s->line);
    lc_text_puts(&task->body, "}");
    return 1;
}

/* arm may be an id, or an object {"id","features"}, which carries its features itself. */
static void put_arm(struct lc_text *out, const struct json_t *arm, const struct json_t *features)
{
    if (!lc_json_is_array(features) || lc_json_length(features) == 0) {
        put_member(out, "arm", arm);
        return;
    }
    lc_text_puts(out, ",\"arm\":{\"id\":");
    lc_json_write(arm, false, out);
    lc_text_puts(out, ",\"features\":");
    lc_json_write(features, false, out);
    lc_text_puts(out, "}");
}

/* slot: where it has a context of its own, that counts. NULL: none. */
static int observe_task(struct lc_task *task, const struct json_t *from, const struct json_t *slot,
                        const struct json_t *arm, const struct json_t *features, const struct json_t *reward,
                        const struct json_t *propensity)
{
    const struct json_t *context = lc_json_get(slot, "context");
    task->kind = LC_TASK_OBSERVE;
    lc_text_puts(&task->body, "{");
    put_member(&task->body, "user", lc_json_get(from, "user"));
    put_context(&task->body, context != NULL ? context : lc_json_get(from, "context"));
    put_arm(&task->body, arm, features);
    put_member(&task->body, "reward", reward);
    put_member(&task->body, "propensity", propensity);
    lc_text_puts(&task->body, "}");
    return 1;
}

/* Features may stand inside the arm or, as in our own log, beside it. */
static int logged_task(struct lc_task *task)
{
    const struct json_t *doc = task->doc;
    return observe_task(task, doc, NULL, lc_json_get(doc, "arm"), lc_json_get(doc, "features"),
                        lc_json_get(doc, "reward"), lc_json_get(doc, "propensity"));
}

/* --- our own log ------------------------------------------------------------------------------------ */

/* Keeps the line as compact text: a fifth of the memory of its parsed form. A decision that stands twice would be
 * learned twice: the file is no log of ours. */
static int remember_decided(struct lc_source *s, const struct json_t *doc)
{
    const char *id = lc_json_text(doc, "decision");
    struct lc_text text = {0};
    if (id == NULL || *id == '\0' || strlen(id) > KB_ID_MAX_BYTES)
        return fail(s, "a decided line without a good \"decision\"");
    if (kb_ids_find(&s->decisions, id) != KB_ID_NONE)
        return fail(s, "a decision that was there before");
    uint32_t ix = lc_intern(&s->decisions, id);
    s->decided = lc_room(s->decided, &s->cap_decided, s->decisions.n, sizeof *s->decided);
    lc_json_write(doc, false, &text);
    s->decided[ix] = text.data;
    return 0;
}

/* The slot called arm of a decided line; the decision itself when it has no slate. NULL: there is no such slot. arm may
 * be NULL in lines of decisions without a slate. *draw: of slots with names how it was drawn; NULL: nothing is told. */
static const struct json_t *find_slot(const struct json_t *decided, const char *arm, const struct json_t **draw)
{
    const struct json_t *slate = lc_json_get(decided, "slate"), *slots = lc_json_get(decided, "slots");
    for (size_t i = 0; i < lc_json_length(slate); i++) {
        const char *id = lc_json_text(lc_json_at(slate, i), "arm");
        *draw = i < lc_json_length(slots) ? lc_json_at(slots, i) : NULL;
        if (arm != NULL && id != NULL && strcmp(id, arm) == 0)
            return lc_json_at(slate, i);
    }
    *draw = decided; /* of its first slot */
    return arm == NULL || lc_json_length(slate) == 0 ? decided : NULL;
}

/* A reward closes the loop: 1 with a task, 0 when there is nothing (any more) to be learned. Lines of decisions that
 * were made before the file begins are skipped: without the decided line nothing is known of their context. */
static int rewarded_task(struct lc_source *s, struct lc_task *task, const struct json_t *doc)
{
    const char *id = lc_json_text(doc, "decision");
    const char *arm = lc_json_text(doc, "arm");
    uint32_t ix = id != NULL ? kb_ids_find(&s->decisions, id) : KB_ID_NONE;
    if (ix == KB_ID_NONE || s->decided[ix] == NULL || lc_json_get(doc, "reward") == NULL)
        return 0;
    struct json_t *decided = lc_json_parse(s->decided[ix], strlen(s->decided[ix]), s->why);
    const struct json_t *draw, *slot = find_slot(decided, arm, &draw);
    int rc = 0;
    if (slot != NULL)
        rc = observe_task(task, decided, draw, lc_json_get(slot, "arm"), lc_json_get(slot, "features"),
                          lc_json_get(doc, "reward"), lc_json_get(draw, "propensity"));
    if (lc_json_get(decided, "slate") == NULL) {
        free(s->decided[ix]);
        s->decided[ix] = NULL;
    }
    lc_json_free(decided);
    return rc;
}

/* 1 with a task, 0 to skip, -1. Of other types nothing is asked: the other tenant has its own. */
static int log_task(struct lc_source *s, struct lc_task *task, const char *type)
{
    if (strcmp(type, "decided") == 0)
        return remember_decided(s, task->doc) == 0 ? 0 : -1;
    if (strcmp(type, "rewarded") == 0 || strcmp(type, "expired") == 0)
        return rewarded_task(s, task, task->doc);
    if (strcmp(type, "observed") == 0)
        return logged_task(task);
    return 0;
}

/* --- lines ------------------------------------------------------------------------------------------ */

/* Of our own log it is called "at", elsewhere "time" is the name. What cannot be read counts as not told. */
static int64_t time_of(const struct json_t *doc)
{
    const char *at = lc_json_text(doc, "at"), *time = lc_json_text(doc, "time");
    int64_t at_ms = 0;
    const char *text = at != NULL ? at : time;
    return text != NULL && lc_log_time(text, &at_ms) ? at_ms : 0;
}

/* A file whose first line is none of the three kinds is likely a log of another format: then what to give is said. */
static int fail_line(struct lc_source *s, size_t n, const char *text)
{
    char guess[LC_WHY];
    return fail(s, s->n_understood == 0 && lc_log_guess(s->buffer, n, guess) ? guess : text);
}

/* Tells the three kinds apart; 1 with a task, 0 to skip, -1 with why. A line of our own log is known by "seq" and
 * "type" together; a logged line might have a member "type" of its own. */
static int task_of_line(struct lc_source *s, struct lc_task *task, size_t n)
{
    char why[LC_WHY];
    task->line = s->line;
    task->doc = lc_json_parse(s->buffer, n, why);
    if (task->doc == NULL)
        return fail_line(s, n, why);
    task->at_ms = time_of(task->doc);
    const char *type = lc_json_text(task->doc, "type");
    if (type != NULL && lc_json_get(task->doc, "seq") != NULL)
        return log_task(s, task, type);
    if (lc_json_get(task->doc, "user") == NULL)
        return fail_line(s, n, "\"user\" is missing");
    if (lc_json_get(task->doc, "rewards") != NULL)
        return select_task(s, task);
    if (lc_json_get(task->doc, "arm") != NULL && lc_json_get(task->doc, "reward") != NULL)
        return logged_task(task);
    return fail(s, "neither \"rewards\" (full information) nor \"arm\" and \"reward\" (logged)");
}

/* Slots of a decision are requests of their own; those without a reward are none. */
static int next_logged(struct lc_source *s, struct ld_logged *out)
{
    for (;;) {
        while (s->n_slots < s->ev.n_more) {
            *out = s->ev.more[s->n_slots++];
            if (!isnan(out->reward))
                return 1;
        }
        const int rc = lc_log_next(s->log, &s->ev);
        s->n_slots = 0;
        *out = s->ev;
        out->n_more = 0;
        if (rc != 1 || !isnan(out->reward))
            return rc;
    }
}

static int next_of_log(struct lc_source *s, struct lc_task *task)
{
    struct ld_logged ev;
    const int rc = next_logged(s, &ev);
    s->line = s->log->base.line;
    s->n_skipped = s->log->base.n_bad;
    for (size_t i = 0; i < LD_DECISIONS_REASONS && s->log->base.skipped[i].reason != NULL; i++)
        s->n_skipped += s->log->base.skipped[i].n;
    if (rc < 0)
        snprintf(s->why, sizeof s->why, "%.255s", s->log->base.why.text);
    if (rc != 1)
        return rc;
    task->kind = LC_TASK_OBSERVE;
    task->line = s->ev.line;
    task->at_ms = ev.at_ms;
    (void)lc_log_put_observation(&task->body, s->log, &ev);
    return 1;
}

/* Lines that ask for nothing are skipped here, so that the caller's clock counts requests only. */
int lc_source_next(struct lc_source *s, struct lc_task *task)
{
    *task = (struct lc_task){0};
    if (s->log != NULL)
        return next_of_log(s, task);
    for (;;) {
        size_t n;
        const enum lc_line got = lc_read_line(s->file, &s->buffer, &s->cap_buffer, &n);
        if (got == LC_LINE_END)
            return 0;
        if (got == LC_LINE_BROKEN)
            return fail(s, strerror(errno));
        s->line++;
        if (got == LC_LINE_LONG)
            return fail(s, LC_LINE_TOO_LONG);
        s->bytes += n;
        while (n > 0 && strchr(" \t\r\n", s->buffer[n - 1]) != NULL)
            n--;
        if (n == 0)
            continue;
        int rc = task_of_line(s, task, n);
        s->n_understood += rc >= 0 ? 1 : 0;
        if (rc == 1)
            return 1;
        lc_task_close(task);
        if (rc < 0)
            return -1;
        s->n_skipped++;
    }
}

double lc_task_reward(const struct lc_task *task, const char *arm)
{
    double v = 0.0;
    if (!lc_json_number(lc_json_get(lc_json_get(task->doc, "rewards"), arm), &v))
        lc_json_number(lc_json_get(task->doc, "default"), &v);
    return v;
}
