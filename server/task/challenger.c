/* Challengers of a tenant: see challenger.h.
 *
 *   lock        a follower's model and scores: the job's, slice by slice; whoever reads or drops them in between
 *   list_lock   which followers there are, and what is shown of them while the job has the other lock
 *
 * Lines are decoded once for all followers that stand at the same one, which is all of them but those that were
 * declared a moment ago. A slice ends after SLICE_LINES, but never within a summary, so that no follower stands in the
 * midst of one when another takes its place; and a job gives its thread back after JOB_US, so that builds and erasures
 * come in between.
 *
 * Cost: for each challenger that of a decision and of learning, and one parse a line for all. */
#include "task/challenger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "task/follower.h"
#include "base/log.h"
#include "task/tasks.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"

#define SLICE_LINES 64u
#define JOB_US 200000
#define PATIENCE_NS 200000000 /* for a digest */

struct ld_challengers {
    struct ld_task task;
    pthread_mutex_t lock, list_lock;
    struct ld_follower *follower[LD_MAX_CHALLENGERS];
    size_t n;
    struct ld_challenger_view shown[LD_MAX_CHALLENGERS];
    size_t n_shown;
    struct ld_kept_history *loaded; /* what the file had, for the first followers; NULL: they have it */
    size_t n_loaded;
    bool has_looked;         /* into the file */
    atomic_bool is_unsaved;  /* a history is another one than the file's */
    bool has_more;           /* the job's: lines are left */
    atomic_bool was_wanted;  /* when the job last began */
    _Atomic uint64_t cursor; /* all have read so far */
    _Atomic uint64_t
        fired; /* version of the configuration for which the guardrail has asked for a promotion; 0: none */
};

/* ---- life ---------------------------------------------------------------------------------------------------- */

static void init(void *task)
{
    struct ld_challengers *c = task;

    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->list_lock, NULL);
}

static void drop(void *task)
{
    struct ld_challengers *c = task;

    for (size_t i = 0; i < c->n; i++)
        ld_follower_free(c->follower[i]);
    free(c->loaded);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->list_lock);
}

/* Of several servers of a log one follows. */
static bool is_wanted(const struct ld_tenant *t)
{
    return atomic_load(&t->has_challengers) && ld_tenant_is_held(t);
}

uint64_t ld_challengers_lag(const struct ld_tenant *t)
{
    const struct ld_challengers *c = ld_task_find(t, &ld_following);
    const uint64_t tip = atomic_load(&t->tip), cursor = c != NULL ? atomic_load(&c->cursor) : 0;

    return is_wanted(t) && tip > cursor ? tip - cursor : 0;
}

size_t ld_challengers_bytes(const struct ld_tenant *t)
{
    const struct ld_challengers *c = ld_task_find(t, &ld_following);

    return c != NULL ? atomic_load(&c->task.bytes) : 0;
}

/* From its beginning, under the same configuration. list_lock: cancel looks at shadows. */
static void begin_anew(struct ld_challengers *c, struct ld_follower *f)
{
    pthread_mutex_lock(&c->list_lock);
    ld_follower_drop(f);
    pthread_mutex_unlock(&c->list_lock);
    f->why.text[0] = '\0';
}

/* ---- which there are ------------------------------------------------------------------------------------------- */

static struct ld_follower *new_follower(const struct ld_challengers *c, const struct ld_challenger_settings *settings)
{
    struct ld_follower *f = calloc(1, sizeof *f);

    if (f == NULL)
        return NULL;
    f->settings = *settings;
    f->kept.identity = ld_challenger_identity(settings);
    for (size_t i = 0; i < c->n_loaded; i++)
        if (c->loaded[i].identity == f->kept.identity)
            f->kept = c->loaded[i];
    return f;
}

/* Takes the follower of these settings out of the list, or makes one. NULL: no memory. */
static struct ld_follower *take_follower(struct ld_challengers *c, const struct ld_challenger_settings *settings)
{
    struct ld_follower *f = NULL;

    for (size_t i = 0; i < LD_MAX_CHALLENGERS && f == NULL; i++)
        if (c->follower[i] != NULL && ld_challenger_is_same(&c->follower[i]->settings, settings)) {
            f = c->follower[i];
            c->follower[i] = NULL;
        }
    return f != NULL ? f : new_follower(c, settings);
}

/* The followers are those of the configuration in force, in its order; who stays, stays as it is. */
static void follow_settings(struct ld_challengers *c, const struct ld_settings *settings)
{
    struct ld_follower *wanted[LD_MAX_CHALLENGERS] = {NULL};
    size_t n = 0;

    pthread_mutex_lock(&c->list_lock);
    for (size_t i = 0; i < settings->n_challengers; i++)
        if ((wanted[n] = take_follower(c, &settings->challenger[i])) != NULL)
            n++;
    for (size_t i = 0; i < LD_MAX_CHALLENGERS; i++)
        if (c->follower[i] != NULL)
            ld_follower_free(c->follower[i]);
    memcpy(c->follower, wanted, sizeof wanted);
    c->n = n;
    pthread_mutex_unlock(&c->list_lock);
}

/* ---- a slice --------------------------------------------------------------------------------------------------- */

struct slice {
    struct ld_tenant *t;
    struct ld_challengers *c;
    uint64_t after; /* where it begins */
    size_t n;
    uint32_t context_dim, arm_dim; /* of the line in hand */
    bool is_over;                  /* nothing more can be done now: the tenant goes, or memory is out */
};

static void stop(struct slice *s, struct ld_follower *f, const char *why)
{
    ld_log(LD_LOG_WARN, "tenant %s: challenger %s follows the log no longer: %s", s->t->name, f->settings.name, why);
    begin_anew(s->c, f);
    ld_fail(&f->why, "%s", why);
}

/* Without memory it stays where it is, and is tried again. */
static void take_failure(struct slice *s, struct ld_follower *f, enum kb_err rc, const struct kb_errmsg *msg)
{
    struct ld_message why;

    if (rc == KB_ENOMEM || rc == KB_ECANCELLED) {
        s->is_over = true;
        return;
    }
    ld_fail(&why, "event %llu: %.200s", (unsigned long long)f->cursor + 1,
            msg->text[0] != '\0' ? msg->text : kb_strerror((int)rc));
    stop(s, f, why.text);
}

static void note_history(struct ld_challengers *c, struct ld_follower *f, uint64_t before, const struct kb_event *ev)
{
    pthread_mutex_lock(&c->list_lock);
    if (ld_score_history_take(&f->kept.history, &f->scores, before, ev))
        atomic_store(&c->is_unsaved, true);
    pthread_mutex_unlock(&c->list_lock);
}

/* The line for each follower that it is the next one of; the log's first line, which may have any number, for who
 * begins. */
static void feed_all(struct slice *s, const struct kb_event *ev)
{
    const bool is_first_line = s->after == 0 && s->n == 0;

    for (size_t i = 0; i < s->c->n && !s->is_over; i++) {
        struct ld_follower *f = s->c->follower[i];
        struct kb_errmsg msg = {"", ""};

        if (f->why.text[0] != '\0' || f->cursor >= ev->seq || (f->cursor == 0 && !is_first_line))
            continue;
        if (ld_follower_has_lost(f, ev)) {
            begin_anew(s->c, f);
            continue;
        }
        const uint64_t before = f->scores.told.sums.n;
        const enum kb_err rc = ld_follower_feed(f, ev, &msg);
        if (rc != KB_OK)
            take_failure(s, f, rc, &msg);
        else
            note_history(s->c, f, before, ev);
    }
}

/* Vectors of a line are as long as the follower's that has come least far says. */
static int look(void *slice, const struct ld_row *row, struct ld_problem *fault)
{
    struct slice *s = slice;

    (void)fault;
    if (atomic_load(&s->t->is_halting) || (s->n >= SLICE_LINES && row->type != KB_EV_SUMMARY))
        return 1;
    s->context_dim = s->arm_dim = 0;
    for (size_t i = 0; i < s->c->n; i++)
        if (s->c->follower[i]->why.text[0] == '\0' && s->c->follower[i]->cursor < row->seq) {
            s->context_dim = s->c->follower[i]->context_dim;
            s->arm_dim = s->c->follower[i]->arm_dim;
        }
    return 0;
}

static enum kb_err take(void *slice, struct ld_line *line, struct kb_errmsg *msg)
{
    struct slice *s = slice;

    (void)msg;
    feed_all(s, &line->ev);
    s->n++;
    return s->is_over ? KB_ECANCELLED : KB_OK;
}

/* By the next slice another summary may stand there. */
static void leave_summaries(struct ld_challengers *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->follower[i]->is_in_summary)
            begin_anew(c, c->follower[i]);
}

/* Where the one stands that has come least far. False: all have stopped. */
static bool least_cursor(const struct ld_challengers *c, uint64_t *cursor)
{
    bool is_any = false;

    *cursor = UINT64_MAX;
    for (size_t i = 0; i < c->n; i++) {
        const struct ld_follower *f = c->follower[i];

        if (f->why.text[0] == '\0') {
            is_any = true;
            *cursor = f->cursor < *cursor ? f->cursor : *cursor;
        }
    }
    return is_any;
}

/* What serves has the first claim on the tenant's memory. */
static void keep_quota(struct slice *s)
{
    const size_t quota = s->t->world->tenant_quota;
    size_t bytes = 0;

    for (size_t i = 0; i < s->c->n; i++) {
        struct ld_follower *f = s->c->follower[i];

        bytes += ld_follower_bytes(f);
        if (quota > 0 && f->why.text[0] == '\0' && atomic_load(&s->t->model_bytes) + bytes > quota) {
            bytes -= ld_follower_bytes(f);
            stop(s, f, "the tenant's quota of memory has no room for it");
            bytes += ld_follower_bytes(f);
        }
    }
    atomic_store(&s->c->task.bytes, bytes);
}

static bool has_models(struct ld_challengers *c)
{
    bool is_ok = true;

    pthread_mutex_lock(&c->list_lock);
    for (size_t i = 0; i < c->n; i++) {
        struct ld_follower *f = c->follower[i];

        if (f->shadow == NULL && f->why.text[0] == '\0')
            is_ok = is_ok && ld_shadow_new(&f->shadow, &f->settings.spec, NULL) == KB_OK;
    }
    pthread_mutex_unlock(&c->list_lock);
    return is_ok;
}

static void show(struct ld_challengers *c);
static void keep_guard(struct ld_challengers *c);

/* The next lines. False: there are none now, or none can be read. */
static bool run_slice(struct ld_challengers *c)
{
    struct ld_tenant *t = c->task.t;
    struct slice s = {.t = t, .c = c};
    struct ld_fold fold = {.sink = {.take = take, .to = &s, .before = look, .watch = &s}};
    uint64_t cursor = 0;

    fold.sink.context_dim = &s.context_dim;
    fold.sink.arm_dim = &s.arm_dim;
    pthread_mutex_lock(&c->lock);
    if (!has_models(c) || !least_cursor(c, &s.after))
        s.is_over = true;
    else if (ld_fold_store(&fold, t->store, s.after, SIZE_MAX) < 0)
        s.is_over = true; /* memory: a line that cannot be read would not have been written */
    leave_summaries(c);
    keep_quota(&s);
    if (!least_cursor(c, &cursor))
        cursor = atomic_load(&t->tip);
    atomic_store(&c->cursor, cursor);
    show(c);
    keep_guard(c);
    pthread_mutex_unlock(&c->lock);
    return s.n > 0 && !s.is_over && !atomic_load(&t->is_halting);
}

/* ---- the guardrail ------------------------------------------------------------------------------------------------
 */

/* A tenant that cannot take it now is asked again; one whose configuration is another by now has its own guardrail. */
static void promotion_done(struct ld_op *op)
{
    struct ld_challengers *c = op->arg;
    const struct ld_tenant *t = c->task.t;

    if (op->problem->status == 503)
        atomic_store(&c->fired, 0);
    if (op->problem->status == 0)
        ld_log(LD_LOG_WARN, "tenant %s: the guardrail has put challenger %s in force: it is better than what was",
               t->name, op->promotion.challenger);
    else
        ld_log(LD_LOG_INFO, "tenant %s: the guardrail's promotion of %s was refused: %s", t->name,
               op->promotion.challenger, op->problem->detail);
    ld_op_free(op);
}

/* Of the configuration that was read last: the writer refuses it when there is another by now. */
static void fire(struct ld_challengers *c, const struct ld_follower *f)
{
    struct ld_op *op = ld_op_new(LD_OP_PROMOTE);
    struct ld_problem problem;

    ld_problem_init(&problem);
    if (op == NULL || ld_doc_parse(&op->doc, "{}", 2, false, &problem) != 0) {
        ld_op_free(op);
        return;
    }
    strcpy(op->promotion.challenger, f->settings.name);
    op->promotion.reason = LD_PROMOTED_BY_GUARDRAIL;
    op->promotion.version = f->scores.told.version;
    op->done = promotion_done;
    op->arg = c;
    atomic_store(&c->fired, f->scores.told.version);
    ld_tenant_submit(c->task.t, op);
}

/* lock held. */
static void keep_guard(struct ld_challengers *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct ld_score *s = &c->follower[i]->scores.told;

        if (s->guard.verdict == LD_GUARD_BETTER && s->version != atomic_load(&c->fired) &&
            !atomic_load(&c->task.t->is_halting))
            fire(c, c->follower[i]);
    }
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static void take_settings(struct ld_challengers *c)
{
    const struct ld_settings *settings;
    struct ld_settings copy;

    ld_tenant_read_lock(c->task.t, &settings);
    copy = *settings;
    ld_tenant_read_unlock(c->task.t);
    if (!ld_tenant_is_held(c->task.t))
        copy.n_challengers = 0;
    pthread_mutex_lock(&c->lock);
    follow_settings(c, &copy);
    pthread_mutex_unlock(&c->lock);
}

/* Before anybody follows. Where the file cannot be read now, the timer tries again. */
static bool look_into_file(struct ld_challengers *c)
{
    if (c->has_looked)
        return true;
    c->loaded = calloc(LD_MAX_CHALLENGERS, sizeof *c->loaded);
    c->has_looked = c->loaded != NULL && ld_score_histories_get(c->task.t->store, atomic_load(&c->task.t->tip),
                                                                c->loaded, &c->n_loaded) == LD_STORE_OK;
    return c->has_looked;
}

static void forget_loaded(struct ld_challengers *c)
{
    free(c->loaded);
    c->loaded = NULL;
    c->n_loaded = 0;
}

static void run(void *task)
{
    struct ld_challengers *c = task;
    const int64_t start_us = ld_monotonic_us();

    atomic_store(&c->was_wanted, is_wanted(c->task.t));
    c->has_more = false;
    if (look_into_file(c))
        take_settings(c);
    forget_loaded(c);
    if (!c->has_looked)
        return;
    do
        c->has_more = run_slice(c);
    while (c->has_more && ld_monotonic_us() - start_us < JOB_US);
}

/* A disk that refuses them is a warning: until the log's lines are gone they come again. */
static void keep(struct ld_challengers *c)
{
    struct ld_tenant *t = c->task.t;
    struct ld_kept_history *kept = calloc(LD_MAX_CHALLENGERS, sizeof *kept);
    struct ld_message why = {""};
    size_t n = 0;

    if (kept == NULL)
        return;
    pthread_mutex_lock(&c->list_lock);
    for (; n < c->n; n++)
        kept[n] = c->follower[n]->kept;
    atomic_store(&c->is_unsaved, false);
    pthread_mutex_unlock(&c->list_lock);
    if (ld_score_histories_put(t->store, kept, n, t->seq, &why) != LD_STORE_OK) {
        ld_log(LD_LOG_WARN, "tenant %s: its challengers' scores could not be saved: %s", t->name, why.text);
        atomic_store(&c->is_unsaved, true);
    }
    free(kept);
}

void ld_challengers_keep(struct ld_tenant *t)
{
    struct ld_challengers *c = ld_task_find(t, &ld_following);

    if (c != NULL && atomic_load(&c->is_unsaved) && !atomic_load(&t->is_failing) && !atomic_load(&t->is_doomed))
        keep(c);
}

static enum ld_chore keep_at_rest(struct ld_tenant *t)
{
    ld_challengers_keep(t);
    return LD_CHORE_NONE;
}

static void finish(void *task)
{
    struct ld_challengers *c = task;

    ld_challengers_keep(c->task.t);
    if (c->has_more)
        ld_task_run(&c->task);
}

/* The log has something that not all have read, or there are followers that nobody wants any more, or not here. */
static enum ld_chore tick(struct ld_tenant *t)
{
    struct ld_challengers *c = NULL;

    if (!is_wanted(t) && ld_challengers_bytes(t) == 0)
        return LD_CHORE_NONE;
    if ((c = ld_task_of(t, &ld_following)) != NULL &&
        (atomic_load(&c->cursor) != atomic_load(&t->tip) || atomic_load(&c->was_wanted) != is_wanted(t)) &&
        atomic_load(&c->task.state) == LD_TASK_RESTS)
        ld_task_run(&c->task);
    return LD_CHORE_NONE;
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

static void cancel(void *task)
{
    struct ld_challengers *c = task;

    pthread_mutex_lock(&c->list_lock);
    for (size_t i = 0; i < c->n; i++)
        if (c->follower[i]->shadow != NULL)
            ld_shadow_cancel(c->follower[i]->shadow);
    pthread_mutex_unlock(&c->list_lock);
}

/* A build that is under way is not waited for. */
void ld_challengers_forget(struct ld_tenant *t)
{
    struct ld_challengers *c = ld_task_find(t, &ld_following);

    if (c == NULL)
        return;
    cancel(c);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n; i++)
        begin_anew(c, c->follower[i]);
    atomic_store(&c->cursor, 0);
    pthread_mutex_unlock(&c->lock);
}

static void show(struct ld_challengers *c)
{
    pthread_mutex_lock(&c->list_lock);
    for (size_t i = 0; i < c->n; i++)
        ld_follower_view(c->follower[i], &c->shown[i]);
    c->n_shown = c->n;
    pthread_mutex_unlock(&c->list_lock);
}

/* The lock, unless the job keeps it for long. */
static bool lock_a_while(pthread_mutex_t *lock)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(lock, &until) == 0;
}

size_t ld_challengers_glance(const struct ld_tenant *t, struct ld_challenger_view out[LD_MAX_CHALLENGERS])
{
    struct ld_challengers *c = ld_task_find(t, &ld_following);

    if (c == NULL)
        return 0;
    pthread_mutex_lock(&c->list_lock);
    const size_t n = c->n_shown;
    memcpy(out, c->shown, n * sizeof *out);
    pthread_mutex_unlock(&c->list_lock);
    return n;
}

size_t ld_challengers_view(const struct ld_tenant *t, struct ld_challenger_view out[LD_MAX_CHALLENGERS])
{
    struct ld_challengers *c = ld_task_find(t, &ld_following);
    size_t n;

    if (c == NULL)
        return 0;
    if (lock_a_while(&c->lock)) {
        for (size_t i = 0; i < c->n; i++) {
            const struct ld_follower *f = c->follower[i];

            ld_follower_view(f, &out[i]);
            out[i].has_digest = ld_follower_has_begun(f);
            out[i].digest = out[i].has_digest ? kb_engine_digest(ld_shadow_engine(f->shadow)) : 0;
        }
        n = c->n;
        pthread_mutex_unlock(&c->lock);
        return n;
    }
    return ld_challengers_glance(t, out);
}

void ld_challengers_histories(const struct ld_tenant *t, const struct ld_challenger_view *views, size_t n,
                              struct ld_score_history *out)
{
    struct ld_challengers *c = ld_task_find(t, &ld_following);

    for (size_t i = 0; i < n; i++)
        out[i].n = 0;
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->list_lock);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c->n; k++)
            if (ld_challenger_is_same(&c->follower[k]->settings, &views[i].settings))
                out[i] = c->follower[k]->kept.history;
    pthread_mutex_unlock(&c->list_lock);
}

const struct ld_task_kind ld_following = {.size = sizeof(struct ld_challengers),
                                          .threads = LD_LONG_WORK,
                                          .init = init,
                                          .at = {[LD_AT_TICK] = tick, [LD_AT_REST] = keep_at_rest},
                                          .run = run,
                                          .finish = finish,
                                          .cancel = cancel,
                                          .drop = drop};
