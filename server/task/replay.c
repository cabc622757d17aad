/* Replays: see replay.h. Before a decision is fed, the shadow is asked how likely it would have shown that arm; from
 * this and the propensities of the log follows what it would have earned (challenger_scores.h). The shadow's own log
 * goes into a file as it comes, line by line; that file is folded once more when a tenant is made of it, which proves
 * it.
 *
 * Cost: the shadow's; with its own log, an encoding and a write of each event. */
#include "task/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "task/challenger_scores.h"
#include "json/json_out.h"
#include "json/json_out_challengers.h"
#include "base/lines.h"
#include "evaluate/shadow.h"

#define QUOTA_LINES 256u /* between two looks at the model's size */

struct ld_replay {
    struct ld_settings settings;
    struct ld_shadow *shadow;
    struct ld_lines lines;
    struct ld_fold fold;
    struct ld_problem *p; /* of the call in hand */
    FILE *own;
    struct ld_scores scores;
    uint64_t n_head, bytes, own_events;
    size_t quota;
};

/* ---- its own log -------------------------------------------------------------------------------------------- */

/* A configuration is told whole, with what only the server uses. */
static enum kb_err keep(void *arg, const struct kb_event *ev)
{
    struct ld_replay *x = arg;
    const struct kb_spec *spec = &x->settings.spec;
    struct ld_settings settings = x->settings;
    size_t n = 0;

    x->own_events++;
    if (x->own == NULL)
        return KB_OK;
    if (ev->type == KB_EV_CONFIGURED)
        settings.spec = *ev->as.configured.spec;
    else if (ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN)
        settings.spec = *ev->as.summary->spec;
    char *text = ld_encode_event(ev, spec->context_dim, spec->arm_dim, &settings, &n);
    if (text == NULL)
        return KB_ENOMEM;
    text[n] = '\n'; /* in the place of the NUL */
    const bool is_written = fwrite(text, 1, n + 1, x->own) == n + 1;
    free(text);
    return is_written ? KB_OK : KB_EFULL;
}

/* ---- a line ---------------------------------------------------------------------------------------------------- */

static int check_quota(const struct ld_replay *x, struct ld_problem *p)
{
    const size_t bytes = x->quota > 0 ? kb_engine_bytes(ld_shadow_engine(x->shadow)) : 0;

    if (bytes <= x->quota)
        return 0;
    ld_problem_set(p, 507, "the shadow's model takes more than the %zu bytes that a tenant may have", x->quota);
    ld_problem_limit(p, "tenant_quota", (double)x->quota);
    return -1;
}

/* The shadow is asked before it is fed: the future stays unknown to it. Decisions are scored as challengers' are, and
 * whatever configuration drew them: their propensities are true. */
static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct ld_replay *x = arg;
    const struct kb_event *ev = &line->ev;
    const struct ld_settings *settings = ld_line_settings(ev);
    const bool is_scored = ev->type == KB_EV_DECIDED && ev->as.decided.route == KB_ROUTE_POLICY;
    enum kb_err rc = ld_shadow_expect(x->shadow, ev, msg);

    KB_TRY(rc);
    const double probability = is_scored ? ld_shadow_probability(x->shadow, ev, NULL) : 0;
    KB_TRY(ld_shadow_feed(x->shadow, ev, msg));
    if (settings != NULL) {
        x->scores.is_late = settings->spec.has_default_reward || settings->spec.aggregation != KB_AGG_FIRST;
        x->scores.is_sum = settings->spec.aggregation == KB_AGG_SUM;
    }
    if (is_scored)
        ld_scores_decide(&x->scores, ev, probability, 0);
    ld_scores_follow(&x->scores, ev);
    if (x->lines.n_lines % QUOTA_LINES == 0 && check_quota(x, x->p) != 0)
        rc = KB_ECANCELLED; /* the problem is told */
out:
    return rc;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static int refuse_configuration(enum kb_err rc, const struct kb_errmsg *msg, struct ld_problem *p)
{
    struct kb_errmsg here = *msg;

    snprintf(here.pointer, sizeof here.pointer, "/0/configuration%.100s", msg->pointer);
    ld_problem_from_core(p, (int)rc, &here);
    return -1;
}

static int open_files(struct ld_replay *x, const struct ld_replay_how *how, struct ld_problem *p)
{
    struct stat st;

    const bool has_size = fstat(how->fd, &st) == 0;

    if (ld_lines_open(&x->lines, how->fd, how->max_line) != 0 || !has_size) {
        ld_problem_set(p, 503, "the log cannot be read back from the disk");
        return -1;
    }
    x->bytes = (uint64_t)st.st_size;
    for (size_t i = 0; i < how->n_head; i++)
        (void)ld_lines_next(&x->lines);
    if (how->own != NULL && (x->own = fopen(how->own, "wbxe")) == NULL) {
        ld_problem_set(p, 507, "the new tenant's log cannot be written");
        return -1;
    }
    return 0;
}

int ld_replay_open(struct ld_replay **out, const struct ld_replay_how *how, struct ld_problem *p)
{
    struct kb_errmsg msg = {"", ""};
    struct ld_replay *x = calloc(1, sizeof *x);
    enum kb_err rc = x != NULL ? ld_shadow_new(&x->shadow, &how->settings->spec, &msg) : KB_ENOMEM;

    if (rc == KB_OK) {
        x->settings = *how->settings;
        x->quota = how->quota;
        x->fold.sink = ld_shadow_sink(x->shadow);
        x->fold.sink.take = take;
        x->fold.sink.to = x;
        ld_shadow_keep_log(x->shadow, keep, x);
    }
    if (rc != KB_OK)
        (void)close(how->fd);
    if (rc != KB_OK ? refuse_configuration(rc, &msg, p) != 0 : open_files(x, how, p) != 0) {
        ld_replay_close(x);
        return -1;
    }
    *out = x;
    return 0;
}

void ld_replay_close(struct ld_replay *x)
{
    if (x == NULL)
        return;
    ld_shadow_free(x->shadow);
    ld_scores_close(&x->scores);
    ld_lines_close(&x->lines);
    if (x->own != NULL)
        (void)fclose(x->own);
    free(x);
}

void ld_replay_cancel(struct ld_replay *x)
{
    ld_shadow_cancel(x->shadow);
}

/* ---- the log ---------------------------------------------------------------------------------------------------- */

int ld_replay_go_on(struct ld_replay *x, size_t n, struct ld_problem *p)
{
    int end;

    x->p = p;
    if (ld_fold_lines(&x->fold, &x->lines, n, &end))
        return 1;
    if (x->fold.rc != 0)
        ld_fold_blame(&x->fold, x->fold.fault.status, p);
    else if (end == LD_LINES_BROKEN)
        ld_problem_set(p, 503, "the log cannot be read back from the disk");
    else if (end == LD_LINES_LONG) {
        ld_problem_set(p, 400, "line %" PRIu64 " of the log is longer than this server takes", x->fold.line);
        ld_problem_limit(p, "line_bytes", (double)x->lines.max);
    }
    return p->status == 0 ? 0 : -1;
}

int ld_replay_finish(struct ld_replay *x, struct ld_problem *p)
{
    struct kb_errmsg msg = {"", ""};
    enum kb_err rc = KB_OK;

    if (ld_shadow_counts(x->shadow).n_read == 0) {
        ld_problem_set(p, 400, "the log has no event");
        return -1;
    }
    if (x->own != NULL && (rc = ld_shadow_take_own_books(x->shadow, &msg)) != KB_OK)
        return refuse_configuration(rc, &msg, p);
    if (x->own == NULL)
        return check_quota(x, p);
    const int closed = fclose(x->own);
    x->own = NULL;
    if (closed != 0)
        ld_problem_set(p, 507, "the new tenant's log cannot be written; the disk may be full");
    return closed != 0 ? -1 : check_quota(x, p);
}

/* ---- what is told -------------------------------------------------------------------------------------------------
 */

bool ld_replay_is_read(const struct ld_replay *x)
{
    return x->lines.n_bytes >= x->bytes;
}

uint64_t ld_replay_digest(const struct ld_replay *x)
{
    return kb_engine_digest(ld_shadow_engine(x->shadow));
}

void ld_replay_put_progress(const struct ld_replay *x, struct ld_text *t)
{
    struct kb_engine_counts counts;

    kb_engine_counts(ld_shadow_engine(x->shadow), &counts);
    ld_text_put_count(t, "events", ld_shadow_counts(x->shadow).n_read);
    ld_text_put_count(t, "learned", counts.learned);
    ld_text_put_count(t, "dictionary", counts.n_support);
    ld_text_put_number(t, "progress", fmin(1, (double)x->lines.n_bytes / (double)x->bytes));
}

void ld_replay_put_report(const struct ld_replay *x, struct ld_text *t)
{
    const struct ld_shadow_counts fed = ld_shadow_counts(x->shadow);
    struct kb_engine_counts counts;
    char digest[24];

    kb_engine_counts(ld_shadow_engine(x->shadow), &counts);
    snprintf(digest, sizeof digest, "%016" PRIx64, ld_replay_digest(x));
    ld_text_put_count(t, "events", fed.n_read);
    ld_text_put_count(t, "passed_over", fed.n_passed);
    ld_text_put_count(t, "learned", counts.learned);
    ld_text_put_number(t, "reward_sum", counts.reward_sum);
    ld_text_key(t, "model");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "events", x->own_events);
    ld_text_put_count(t, "users", counts.users);
    ld_text_put_count(t, "arms", counts.arms);
    ld_text_put_count(t, "points", counts.history_rows);
    ld_text_put_count(t, "dictionary", counts.n_support);
    ld_text_put_count(t, "pending", counts.pending);
    ld_text_put_count(t, "bytes", counts.bytes);
    ld_text_put_string(t, "digest", digest);
    ld_text_lit(t, "}");
    ld_text_key(t, "policy");
    ld_text_lit(t, "{");
    ld_put_scores(t, &x->scores.told);
    ld_put_estimate(t, "ips", kb_snips_plain(&x->scores.told.sums, LD_CHALLENGERS_LEVEL));
    ld_text_lit(t, "}");
}
