/* Help for tests of the shared log: a PostgreSQL of the kit (pg.py), and writers that take turns on it. */
#ifndef PG_FIXTURE_H
#define PG_FIXTURE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"
#include "kbt.h"
#include "shared/pg_log.h"

static char pg_folder[64];

/* Runs the kit: pg.py FOLDER command. */
static inline void pg_kit(const char *command)
{
    char line[1024];
    (void)snprintf(line, sizeof line, "/usr/bin/python3 -B tests/cluster/pg.py %s/pg %s >/dev/null", pg_folder,
                   command);
    ck_assert_msg(system(line) == 0, "%s", line);
}

/* The first line of what the kit says. */
static inline const char *pg_ask(const char *command)
{
    static char said[256];
    char line[1024];
    (void)snprintf(line, sizeof line, "/usr/bin/python3 -B tests/cluster/pg.py %s/pg %s", pg_folder, command);
    FILE *in = popen(line, "r");
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(fgets(said, sizeof said, in));
    (void)pclose(in);
    said[strcspn(said, "\n")] = '\0';
    return said;
}

static inline const char *pg_url(void)
{
    return pg_ask("url");
}

static inline void pg_begin_with(const char *start)
{
    struct ld_message why;
    bool is_new = false;
    (void)snprintf(pg_folder, sizeof pg_folder, "/tmp/ld-pg-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(pg_folder));
    pg_kit(start);
    ck_assert_msg(ld_pg_init(pg_url(), &is_new, &why) == 0, "%s", why.text);
    ck_assert(is_new);
}

static inline void pg_begin(void)
{
    pg_begin_with("start");
}

static inline void pg_begin_two(void)
{
    pg_begin_with("start 2");
}

static inline void pg_end(void)
{
    char line[128];
    pg_kit("end");
    (void)snprintf(line, sizeof line, "rm -rf %s", pg_folder);
    ck_assert_int_eq(system(line), 0);
}

/* A server, as far as the log knows of it. */
struct writer {
    struct ld_shared_log *log;
    char node[32];
    uint64_t id;
    struct ld_shared_place at; /* its copy */
    int n_told;
    char told[1 << 16]; /* "NODE:FIRST-LAST:BODY|" of each batch that it was told of */
    struct ld_shared_batch last;
    char last_node[32], last_body[1 << 12];
    struct ld_message why;
};

static inline void pg_open_as(struct writer *w, const char *node, const char *tenant, int wait_ms, bool is_trusted)
{
    struct ld_shared_tenant t;
    const struct ld_pg_config config = {.url = pg_url(), .node = node, .wait_ms = wait_ms, .is_trusted = is_trusted};
    memset(w, 0, sizeof *w);
    (void)snprintf(w->node, sizeof w->node, "%s", node);
    ck_assert_msg(ld_pg_log_open(&w->log, &config, &w->why) == 0, "%s", w->why.text);
    ck_assert_msg(w->log->ops->find(w->log, tenant, true, &t, NULL, &w->why) == LD_SHARED_OK, "%s", w->why.text);
    w->id = t.id;
}

static inline void pg_open(struct writer *w, const char *node, const char *tenant)
{
    pg_open_as(w, node, tenant, 5000, false);
}

static inline void pg_open_for(struct writer *w, const char *node, const char *tenant, int wait_ms)
{
    pg_open_as(w, node, tenant, wait_ms, false);
}

static inline void pg_open_trusted(struct writer *w, const char *node, const char *tenant)
{
    pg_open_as(w, node, tenant, 5000, true);
}

static inline void pg_close(struct writer *w)
{
    w->log->ops->close(w->log);
}

static inline enum ld_shared_rc pg_count(void *arg, const struct ld_shared_batch *b)
{
    struct writer *w = arg;
    w->n_told++;
    w->at = b->at;
    return LD_SHARED_OK;
}

/* Notes a batch, and takes it into the copy. */
static inline enum ld_shared_rc pg_tell(void *arg, const struct ld_shared_batch *b)
{
    struct writer *w = arg;
    const size_t n = strlen(w->told);
    (void)snprintf(w->told + n, sizeof w->told - n, "%s:%llu-%llu:%.*s|", b->node,
                   (unsigned long long)(b->at.seq - b->n + 1), (unsigned long long)b->at.seq, (int)b->n_body, b->body);
    w->last = *b;
    (void)snprintf(w->last_node, sizeof w->last_node, "%s", b->node);
    if (b->n_body <= sizeof w->last_body)
        memcpy(w->last_body, b->body, b->n_body);
    return pg_count(w, b);
}

/* Appends behind the writer's copy, in a turn, and moves the copy where it was acknowledged. */
static inline enum ld_shared_rc pg_append_batch(struct writer *w, struct ld_shared_turn *turn,
                                                struct ld_shared_batch *b)
{
    b->at.seq = w->at.seq + b->n;
    b->at.generation = w->at.generation;
    ld_chain(b->at.hash, w->at.hash, b->body, b->n_body);
    const enum ld_shared_rc rc = w->log->ops->append(turn, b, &w->why);
    if (rc == LD_SHARED_OK)
        w->at = b->at;
    return rc;
}

static inline enum ld_shared_rc pg_append_in(struct writer *w, struct ld_shared_turn *turn, const char *body,
                                             uint32_t n)
{
    static uint64_t nonce;
    struct ld_shared_batch b = {.n = n,
                                .at_ms = 1,
                                .node = w->node,
                                .nonce = __atomic_add_fetch(&nonce, 1, __ATOMIC_RELAXED),
                                .body = body,
                                .n_body = strlen(body)};
    return pg_append_batch(w, turn, &b);
}

/* A whole turn. */
static inline enum ld_shared_rc pg_append(struct writer *w, const struct ld_shared_batch *batch)
{
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_batch b = *batch;
    const enum ld_shared_rc rc = w->log->ops->take(w->log, w->id, &w->at, pg_tell, w, &turn, &w->why);
    return rc == LD_SHARED_OK ? pg_append_batch(w, turn, &b) : rc;
}

static inline enum ld_shared_rc pg_write(struct writer *w, const char *body, uint32_t n)
{
    struct ld_shared_turn *turn = NULL;
    const enum ld_shared_rc rc = w->log->ops->take(w->log, w->id, &w->at, pg_tell, w, &turn, &w->why);
    return rc == LD_SHARED_OK ? pg_append_in(w, turn, body, n) : rc;
}

/* Reads until the end. */
static inline enum ld_shared_rc pg_follow(struct writer *w)
{
    enum ld_shared_rc rc = LD_SHARED_OK;
    uint64_t before = UINT64_MAX;
    while (rc == LD_SHARED_OK && w->at.seq != before) {
        before = w->at.seq;
        rc = w->log->ops->read(w->log, w->id, &w->at, 1 << 20, pg_tell, w, &w->why);
    }
    return rc;
}

#endif
