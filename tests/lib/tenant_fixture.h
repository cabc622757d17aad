/* A tenant in a temporary folder with a clock of our own and no threads: a test submits ops and runs the writer's
 * turns itself, so what shares a batch is the test's choice. */
#ifndef TENANT_FIXTURE_H
#define TENANT_FIXTURE_H

#include <check.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "kbt.h"
#include "base/log.h"
#include "base/metrics.h"
#include "task/tasks.h"
#include "tenant/tenant.h"
#include "json/json_in.h"

struct fixture {
    char dir[64];
    struct ld_metrics metrics;
    struct ld_world world;
    struct ld_settings settings;
    struct ld_tenant *t;
};

static int64_t clock_ms = 1800000000000;

static inline int64_t fixture_now(void)
{
    return clock_ms;
}

/* Settings from the JSON of a configuration. */
static inline struct ld_settings fixture_settings(const char *json)
{
    struct ld_settings out;
    struct ld_problem problem;
    struct ld_doc *doc = NULL;

    ld_problem_init(&problem);
    ck_assert_int_eq(ld_doc_parse(&doc, json, strlen(json), false, &problem), 0);
    ck_assert_msg(ld_decode_settings(doc, &out, &problem) == 0, "%s: %s", json, problem.errors[0].detail);
    ld_doc_free(doc);
    return out;
}

/* A folder and a world; no tenant yet. */
static inline void fixture_world(struct fixture *f)
{
    char path[96];

    memset(f, 0, sizeof *f);
    ld_log_set_level(LD_LOG_N); /* failures are provoked here */
    strcpy(f->dir, "/tmp/laplaced-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    snprintf(path, sizeof path, "%s/tenants", f->dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    f->world = (struct ld_world){.sched = ld_sched_inline(),
                                 .metrics = &f->metrics,
                                 .data_dir = f->dir,
                                 .now_ms = fixture_now,
                                 .max_queue = 100000,
                                 .max_pending = 100000,
                                 .snapshot_events = UINT64_MAX,
                                 .inline_work = KB_INLINE_WORK};
}

static inline void fixture_start(struct fixture *f)
{
    struct ld_message why = {""};

    ck_assert_msg(ld_tenant_open(&f->t, &f->world, "t", &f->settings, &why) == 0, "%s", why.text);
}

static inline void fixture_open(struct fixture *f, const char *configuration)
{
    fixture_world(f);
    f->settings = fixture_settings(configuration);
    fixture_start(f);
}

/* Lets go as a crash would: no snapshot, no checkpoint. */
static inline void fixture_restart(struct fixture *f)
{
    ld_tenant_release(f->t);
    fixture_start(f);
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void remove_dir(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fixture_close(struct fixture *f)
{
    ld_tenant_release(f->t);
    remove_dir(f->dir);
}

static inline bool fixture_has_file(const struct fixture *f, const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return access(path, F_OK) == 0;
}

static inline uint64_t digest_of(struct ld_tenant *t)
{
    const uint64_t digest = kb_engine_digest(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return digest;
}

static inline uint64_t logical_digest_of(struct ld_tenant *t)
{
    const uint64_t digest = kb_engine_logical_digest(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return digest;
}

static inline struct kb_engine_counts counts_of(struct ld_tenant *t)
{
    struct kb_engine_counts counts;

    kb_engine_counts(ld_tenant_read_lock(t, NULL), &counts);
    ld_tenant_read_unlock(t);
    return counts;
}

/* ---- ops: made from the JSON that a client would send ------------------------------------------------ */

static inline void mark_done(struct ld_op *op)
{
    ck_assert_msg(op->arg == NULL, "an op was answered twice");
    op->arg = op;
}

static inline struct ld_op *op_from(struct ld_tenant *t, enum ld_op_type type, const char *json, bool is_ndjson,
                                    uint32_t *context_dim, uint32_t *arm_dim)
{
    struct ld_op *op = ld_op_new(type);

    ck_assert_int_eq(ld_doc_parse(&op->doc, json, strlen(json), is_ndjson, ld_op_problem(op)), 0);
    op->dims_epoch = ld_tenant_dims(t, op->doc, context_dim, arm_dim);
    op->done = mark_done;
    return op;
}

/* Decides; id is what the server would make up unless the body names one. Not submitted. */
static inline struct ld_op *op_select(struct ld_tenant *t, const char *json, const char *id)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_EVENT, json, false, &context_dim, &arm_dim);
    struct ld_select select;

    ck_assert_msg(ld_decode_select(op->doc, context_dim, arm_dim, &select, ld_op_problem(op)) == 0, "%s", json);
    ld_tenant_select(t, &select, select.decision != NULL ? select.decision : id, op, ld_op_problem(op));
    return op;
}

static inline struct ld_op *op_rewards(struct ld_tenant *t, const char *json)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_REWARDS, json, false, &context_dim, &arm_dim);

    ck_assert_int_eq(ld_decode_rewards(op->doc, &op->rewards, &op->n, &op->is_array, ld_op_problem(op)), 0);
    return op;
}

static inline struct ld_op *op_observe(struct ld_tenant *t, const char *json, bool is_ndjson)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_OBSERVE, json, is_ndjson, &context_dim, &arm_dim);

    op->is_array = is_ndjson;
    ck_assert_int_eq(
        ld_decode_observe(op->doc, is_ndjson, context_dim, arm_dim, &op->events, &op->n, ld_op_problem(op)), 0);
    return op;
}

static inline struct ld_op *op_activate(struct ld_tenant *t, const char *json)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_ACTIVATE, json, false, &context_dim, &arm_dim);

    ck_assert_int_eq(ld_decode_activate(op->doc, &op->event.as.activated.decision, ld_op_problem(op)), 0);
    return op;
}

static inline struct ld_op *op_arms(struct ld_tenant *t, const char *json)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_EVENT, json, false, &context_dim, &arm_dim);

    ck_assert_int_eq(ld_decode_arms(op->doc, false, arm_dim, &op->event, ld_op_problem(op)), 0);
    return op;
}

static inline struct ld_op *op_graph(struct ld_tenant *t, const char *json)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_EVENT, json, false, &context_dim, &arm_dim);

    ck_assert_int_eq(ld_decode_graph(op->doc, false, &op->event, ld_op_problem(op)), 0);
    return op;
}

static inline struct ld_op *op_settings(const char *json)
{
    struct ld_op *op = ld_op_new(LD_OP_SETTINGS);

    *op->settings = fixture_settings(json);
    op->done = mark_done;
    return op;
}

static inline struct ld_op *op_task(const struct ld_task_kind *task)
{
    struct ld_op *op = ld_op_new(LD_OP_TASK);

    op->task = task;
    op->done = mark_done;
    return op;
}

static inline void run_all(struct ld_tenant *t)
{
    while (ld_tenant_run_writer(t))
        ;
}

/* Submits op, runs the writer, and gives the answer's status: 200 or the problem's. */
static inline int settle_op(struct ld_tenant *t, struct ld_op *op)
{
    if (op->problem->status == 0 && op->reply == NULL) {
        ld_tenant_submit(t, op);
        run_all(t);
        ck_assert_msg(op->arg == op, "an op was not answered");
    }
    return op->problem->status != 0 ? op->problem->status : op->reply_status;
}

/* The same, comparing the whole reply, and freeing op. */
static inline void expect_reply(struct ld_tenant *t, struct ld_op *op, const char *want)
{
    ck_assert_msg(settle_op(t, op) == 200, "%d %s", op->problem->status, op->problem->detail);
    ck_assert_str_eq(op->reply, want);
    ck_assert_uint_eq(op->n_reply, strlen(want));
    ld_op_free(op);
}

static inline void expect_status(struct ld_tenant *t, struct ld_op *op, int want)
{
    const int status = settle_op(t, op);

    ck_assert_msg(status == want, "%d instead of %d: %s", status, want, op->problem->detail);
    ld_op_free(op);
}

#define APPLIED "{\"applied\":true}"
#define DUPLICATE "{\"applied\":false,\"duplicate\":true}"

/* ---- traffic ----------------------------------------------------------------------------------------- */

/* A configuration for it. */
#define FIXTURE_TRAFFIC                                                                                                \
    "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"                 \
    "\"arm_kernel\":{\"type\":\"rbf\"},\"reward_window_s\":1000}"
/* Decisions and rewards numbered from..to-1; every fifth decision stays open. */
static inline void fixture_run_traffic(struct fixture *f, int from, int to)
{
    char text[192], id[16];

    for (int i = from; i < to; i++) {
        snprintf(id, sizeof id, "d%d", i);
        snprintf(text, sizeof text,
                 "{\"user\":\"u%d\",\"context\":[%d.25],\"candidates\":[{\"id\":\"a\",\"features\":[%d]}]}", i % 3,
                 i % 11, i % 4);
        expect_status(f->t, op_select(f->t, text, id), 200);
        snprintf(text, sizeof text, "{\"decision\":\"d%d\",\"reward\":0.%d}", i, i % 9);
        if (i % 5 != 0)
            expect_status(f->t, op_rewards(f->t, text), 200);
    }
}

/* ---- a disk that refuses ----------------------------------------------------------------------------- */

/* Files of this process grow to n bytes at most. */
static inline void limit_files(rlim_t n)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = n;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static inline void mend_disk(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

#endif
