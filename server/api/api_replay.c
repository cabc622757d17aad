/* POST /tenants/{t}/replay: a log through a model of any configuration, beside the tenant, told line by line.
 *
 *     before the answer   the first line is read, the log opened, and its first lines are fed: faults in them are
 *                         answered as anywhere
 *     the answer          200, and lines of NDJSON: `progress` now and then, and one of `report` and `failed`
 *
 * It runs in a thread for transfers. The tenant's own log is copied first, as for an export, so that it is that of one
 * moment and the tenant's file is not held. The replay ends early when its client leaves, or the server. A tenant is
 * made of it as of any log (restore.h), from the shadow's own lines, all or nothing. */
#include "api/api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "task/copy.h"
#include "base/lines.h"
#include "base/log.h"
#include "task/replay.h"
#include "task/restore.h"
#include "base/text.h"
#include "base/trace.h"

#define FIRST_LINES 64u /* fed before the answer begins */
#define STEP_LINES 16u  /* between two looks at the clock */
#define PROGRESS_US 500000

struct ld_replay_job {
    struct ld_replay_job *next;
    struct ld_call *call;
    struct ld_doc *doc; /* of the head */
    struct ld_replay_head head;
    struct ld_replay *replay;
    struct ld_stream *stream;
    struct ld_server *server; /* and what is needed of the call when it is gone: the answer has begun */
    char tenant[LD_PATH_TENANT_BYTES], id[LD_TRACE_BYTES];
    char own[LD_PATH_MAX]; /* file of the shadow's own log */
    bool has_claim;        /* of the name of the tenant to be made */
};

/* --- those that are at work ------------------------------------------------------------------------------------ */

/* One of a tenant bounds what a tenant's keys can have the server do. False: there is one. */
static bool enter(struct ld_replay_job *j)
{
    struct ld_replays *all = &j->server->replays;
    pthread_mutex_lock(&all->lock);
    const struct ld_replay_job *other = all->first;
    while (other != NULL && strcmp(other->tenant, j->tenant) != 0)
        other = other->next;
    if (other == NULL) {
        j->next = all->first;
        all->first = j;
    }
    if (other == NULL && atomic_load(&j->server->is_draining))
        ld_replay_cancel(j->replay);
    pthread_mutex_unlock(&all->lock);
    return other == NULL;
}

static void leave(struct ld_replay_job *j)
{
    struct ld_replays *all = &j->server->replays;
    pthread_mutex_lock(&all->lock);
    struct ld_replay_job **at = &all->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    pthread_mutex_unlock(&all->lock);
}

void ld_replays_cancel(struct ld_server *s)
{
    pthread_mutex_lock(&s->replays.lock);
    for (struct ld_replay_job *j = s->replays.first; j != NULL; j = j->next)
        ld_replay_cancel(j->replay);
    pthread_mutex_unlock(&s->replays.lock);
}

/* --- before the answer ------------------------------------------------------------------------------------------- */

/* Only who may make tenants may make one of a replay. */
static int check_commit(struct ld_replay_job *j, struct ld_problem *p)
{
    const char *name = j->head.commit;
    if (name == NULL)
        return 0;
    if (j->call->caller.roles != LD_ALL_ROLES)
        ld_problem_set(p, 403, "the key lacks the role `admin`, which `commit` asks for");
    else if (ld_call_may_make(j->call, name, p) && !(j->has_claim = ld_spool_claim(j->server->spool, name)))
        ld_problem_set(p, 409, "another copy of \"%.64s\" is being made, sent or taken in", name);
    return p->status == 0 ? 0 : -1;
}

/* The first line. *has_more: another one follows, empty ones aside. */
static int read_head(struct ld_replay_job *j, struct ld_lines *lines, bool *has_more, struct ld_problem *p)
{
    if (ld_lines_next(lines) != LD_LINES_LINE) {
        ld_problem_set(p, 400, "the first line is longer than this server takes");
        ld_problem_limit(p, "line_bytes", (double)lines->max);
    } else if (lines->n == 0) {
        ld_problem_add(p, "/0", "expected the configuration of the replay");
    } else if (ld_doc_parse(&j->doc, lines->text, lines->n, true, p) == 0) {
        ld_doc_bound(j->doc, j->server->limits.magnitude);
        (void)ld_decode_replay(j->doc, true, &j->head, p);
    }
    enum ld_lines_status next = LD_LINES_LINE;
    *has_more = false;
    while (p->status == 0 && !*has_more && next == LD_LINES_LINE) {
        next = ld_lines_next(lines);
        *has_more = next == LD_LINES_LONG || (next == LD_LINES_LINE && lines->n > 0);
    }
    return p->status == 0 ? 0 : -1;
}

static bool is_stopping(void *arg)
{
    const struct ld_server *s = arg;
    return atomic_load(&s->is_draining);
}

/* A descriptor of the log, or -1 with the problem. */
static int open_log(struct ld_replay_job *j, const char *body, struct ld_problem *p)
{
    struct ld_copy copy = {.fd = -1};
    char path[LD_PATH_MAX];
    if (!j->head.is_own) {
        const int fd = open(body, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            ld_problem_set(p, 503, "the body cannot be read back from the disk");
        return fd;
    }
    ld_spool_path(j->server->spool, path);
    return ld_copy_make(&copy, j->call->tenant, LD_COPY_LOG, path, is_stopping, j->server, p) == 0 ? copy.fd : -1;
}

/* What the tenant has left of its quota; 0: any. */
static size_t quota_of(const struct ld_call *c)
{
    const size_t quota = c->server->world.tenant_quota, bytes = ld_tenant_bytes(c->tenant);
    return quota == 0 ? 0 : quota > bytes ? quota - bytes : 1;
}

static int open_replay(struct ld_replay_job *j, struct ld_problem *p)
{
    const char *body = ld_request_body_file(j->call->request);
    const size_t max_line = 2 * j->server->limits.bulk_body;
    struct ld_lines lines;
    bool has_more = false;
    int rc = ld_lines_open(&lines, body != NULL ? open(body, O_RDONLY | O_CLOEXEC) : -1, max_line);
    if (rc != 0)
        ld_problem_set(p, 503, "the body cannot be read back from the disk");
    if (rc == 0)
        rc = read_head(j, &lines, &has_more, p);
    ld_lines_close(&lines);
    if (rc == 0 && j->head.is_own == has_more) {
        ld_problem_add(p, "/1", j->head.is_own ? "expected no line: the log is the tenant's own" : "required");
        rc = -1;
    }
    if (rc != 0 || check_commit(j, p) != 0)
        return -1;
    const int fd = open_log(j, body, p);
    if (fd < 0)
        return -1;
    ld_spool_path(j->server->spool, j->own);
    const struct ld_replay_how how = {.settings = &j->head.settings,
                                      .fd = fd,
                                      .own = j->head.commit != NULL ? j->own : NULL,
                                      .n_head = j->head.is_own ? 0 : 1,
                                      .max_line = max_line,
                                      .quota = quota_of(j->call)};
    return ld_replay_open(&j->replay, &how, p);
}

/* --- the answer ------------------------------------------------------------------------------------------------------
 */

/* NULL without memory: then a line is missing, and with the last one the answer is not whole. */
static char *line_of(struct ld_replay_job *j, const char *type,
                     void (*put)(const struct ld_replay_job *, struct ld_text *))
{
    struct ld_text t;
    size_t n = 0;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "type", type);
    put(j, &t);
    ld_text_lit(&t, "}\n");
    return ld_text_take(&t, &n);
}

static void put_progress(const struct ld_replay_job *j, struct ld_text *t)
{
    ld_replay_put_progress(j->replay, t);
}

static void put_report(const struct ld_replay_job *j, struct ld_text *t)
{
    ld_replay_put_report(j->replay, t);
    ld_text_put_string(t, "tenant", j->head.commit);
}

static char *failure_of(const struct ld_replay_job *j, const struct ld_problem *p)
{
    size_t n = 0;
    char *problem = ld_problem_json(p, j->id, &n);
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{\"type\":\"failed\",\"problem\":");
    ld_text_lit(&t, problem != NULL ? problem : "{}");
    ld_text_lit(&t, "}\n");
    free(problem);
    return ld_text_take(&t, &n);
}

/* Takes text over. */
static void write_line(struct ld_replay_job *j, char *text)
{
    if (text != NULL)
        ld_stream_write(j->stream, text, strlen(text));
    free(text);
}

/* Progress is told when the last of it is under way: a client that reads slowly gets less of it. Behind the last line
 * there is none, since the report comes next. */
static int run(struct ld_replay_job *j, struct ld_problem *p)
{
    int64_t told_us = ld_monotonic_us();
    int rc;
    write_line(j, line_of(j, "progress", put_progress));
    while ((rc = ld_replay_go_on(j->replay, STEP_LINES, p)) == 1) {
        const int64_t now_us = ld_monotonic_us();
        if (now_us - told_us < PROGRESS_US || ld_replay_is_read(j->replay) || !ld_stream_is_sent(j->stream))
            continue;
        told_us = now_us;
        write_line(j, line_of(j, "progress", put_progress));
    }
    return rc == 0 ? ld_replay_finish(j->replay, p) : -1;
}

static bool is_over(void *arg)
{
    const struct ld_replay_job *j = arg;
    return atomic_load(&j->server->is_draining) || ld_stream_is_gone(j->stream);
}

/* The shadow's own log is folded once more, as any that comes in; it must come to the shadow. */
static int commit(struct ld_replay_job *j, struct ld_problem *p)
{
    char path[LD_PATH_MAX], snapshot[LD_PATH_MAX + 16];
    struct ld_restored restored;
    if (j->head.commit == NULL)
        return 0;
    ld_spool_path(j->server->spool, path);
    snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, path);
    const struct ld_restore how = {
        .path = path, .lines = j->own, .max_line = SIZE_MAX / 2, .is_over = is_over, .arg = j};
    int rc = ld_restore(&how, &restored, p);
    if (rc == 0 && restored.digest != ld_replay_digest(j->replay)) {
        ld_log(LD_LOG_ERROR, "tenant %s: a replay's own log folds to another model", j->tenant);
        ld_problem_set(p, 500, "the shadow's log folds to another model: no tenant was made");
        rc = -1;
    }
    if (rc == 0)
        rc = ld_tenants_adopt(j->server->tenants, j->head.commit, &(struct ld_tenant_file){path, snapshot, is_over, j},
                              p);
    ld_spool_remove(path);
    return rc;
}

static void gone(void *arg)
{
    ld_replay_cancel(arg);
}

/* What the replay keeps from others. */
static void let_go(struct ld_replay_job *j)
{
    leave(j);
    if (j->has_claim)
        ld_spool_let_go(j->server->spool, j->head.commit);
    ld_spool_remove(j->own);
    j->has_claim = false;
}

/* The request is not touched once the answer has begun. Nothing is left of the replay when its last line is told: who
 * has read it may ask for the next. */
static void answer(struct ld_replay_job *j)
{
    struct ld_metrics *m = &j->server->metrics;
    struct ld_problem p;
    ld_problem_init(&p);
    atomic_fetch_add(&m->replays_running, 1);
    j->stream = ld_reply_stream(j->call->request, "application/x-ndjson", gone, j->replay);
    if (j->stream == NULL) {
        let_go(j);
        atomic_fetch_sub(&m->replays_running, 1);
        return;
    }
    const int rc = run(j, &p) == 0 ? commit(j, &p) : -1;
    if (rc != 0 && atomic_load(&j->server->is_draining)) {
        ld_problem_init(&p);
        ld_problem_set(&p, 503, "the server is stopping");
    }
    char *last = rc == 0 ? line_of(j, "report", put_report) : failure_of(j, &p);
    let_go(j);
    atomic_fetch_sub(&m->replays_running, 1);
    ld_count(rc == 0 ? &m->replays : &m->replay_failures, 1);
    write_line(j, last);
    ld_stream_end(j->stream);
}

static void replay(struct ld_replay_job *j, struct ld_problem *p)
{
    if (!enter(j)) {
        ld_problem_set(p, 409, "another replay of \"%.64s\" is at work", j->tenant);
        ld_spool_remove(j->own);
    } else if (ld_replay_go_on(j->replay, FIRST_LINES, p) >= 0) {
        answer(j);
    } else {
        let_go(j);
    }
}

bool api_replay(struct ld_call *c, struct ld_reply *out)
{
    struct ld_server *s = c->server;
    struct ld_replay_job j = {.call = c, .server = s};
    snprintf(j.tenant, sizeof j.tenant, "%s", c->name);
    ld_trace_format(ld_request_trace(c->request), j.id);
    if (open_replay(&j, out->problem) == 0)
        replay(&j, out->problem);
    if (j.has_claim)
        ld_spool_let_go(s->spool, j.head.commit);
    ld_replay_close(j.replay);
    ld_doc_free(j.doc);
    return out->problem->status != 0;
}
