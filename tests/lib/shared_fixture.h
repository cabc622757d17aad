/* Three servers in one process, each with a folder of its own, on one log in memory whose outcomes are drawn. */
#ifndef SHARED_FIXTURE_H
#define SHARED_FIXTURE_H

#include "tenant_fixture.h"

#include "base/rng.h"
#include "base/text.h"
#include "json/json_out.h"
#include "kbt_shared_log.h"
#include "tenant/tenant_state.h"

enum { N_NODES = 3 };

static struct kbt_shared_log shared;
static struct fixture node[N_NODES + 1]; /* the last one folds anew */
static uint64_t key, n_draws;

static inline uint64_t draw(uint64_t n)
{
    return kb_rng_bits(key, KB_STREAM_SIMULATION, n_draws++) % n;
}

/* Servers' clocks differ. */
static inline int64_t now_behind(void)
{
    return clock_ms - 1700;
}

static inline int64_t now_ahead(void)
{
    return clock_ms + 900;
}

static inline void make_nodes(void)
{
    static int64_t (*const clocks[])(void) = {fixture_now, now_behind, now_ahead, fixture_now};
    static const char *const names[] = {"a", "b", "c", "d"};

    for (int i = 0; i <= N_NODES; i++) {
        fixture_world(&node[i]);
        node[i].world.shared = &shared.base;
        node[i].world.node = names[i];
        node[i].world.now_ms = clocks[i];
        node[i].world.is_finishing_builds = true;
    }
}

/* A log that is down now may be there at the next try. */
static inline void open_node(int i, const struct ld_settings *initial)
{
    struct ld_message why = {""};
    int rc = LD_STORE_IO;

    for (int n = 0; n < 100 && rc == LD_STORE_IO; n++)
        rc = ld_tenant_open(&node[i].t, &node[i].world, "t", initial, &why);
    ck_assert_msg(rc == LD_STORE_OK, "node %d: %s", i, why.text);
}

static inline void begin(uint64_t seed, const char *configuration)
{
    const struct ld_settings initial = fixture_settings(configuration);
    struct ld_shared_tenant found;
    struct ld_message why;
    bool is_new;

    key = seed;
    n_draws = 0;
    clock_ms = 1800000000000;
    kbt_shared_log_init(&shared, seed);
    make_nodes();
    ck_assert_int_eq(shared.base.ops->find(&shared.base, "t", true, &found, &is_new, &why), LD_SHARED_OK);
    open_node(0, &initial);
    for (int i = 1; i < N_NODES; i++)
        open_node(i, NULL);
}

static inline void end(void)
{
    for (int i = 0; i <= N_NODES; i++)
        fixture_close(&node[i]);
    kbt_shared_log_close(&shared);
}

static inline void follow(int i)
{
    ld_tenant_follow(node[i].t);
    run_all(node[i].t);
}

/* ---- what the log has -------------------------------------------------------------------------------------- */

static inline struct kbt_shared_tenant *the_tenant(void)
{
    return kbt_shared_log_tenant(&shared, "t");
}

static inline void all_lines(struct ld_text *out)
{
    const struct kbt_shared_tenant *t = the_tenant();

    ld_text_init(out);
    for (size_t i = 0; i < t->n; i++)
        ld_text_raw(out, t->batch[i].body, t->batch[i].n_body);
    ld_text_raw(out, "", 1);
}

/* Lines of the log that have the text, and how many of them are rewards that came too late. */
static inline size_t n_lines_with(const char *text, const char *lines, size_t *n_late)
{
    size_t n = 0;

    *n_late = 0;
    for (const char *at = strstr(lines, text); at != NULL; at = strstr(at, text)) {
        const char *stop = strchr(at, '\n'), *start = at;

        while (start > lines && start[-1] != '\n')
            start--;
        const char *late = strstr(start, "\"type\":\"late\"");
        *n_late += late != NULL && late < at;
        n++;
        at = stop != NULL ? stop : at + strlen(at);
    }
    return n;
}

static inline int add_line(void *arg, const struct ld_row *row)
{
    return ld_text_export(arg, row->text, row->n_text, row->answer);
}

static inline int check_time(void *arg, const struct ld_row *row)
{
    int64_t *last = arg;

    ck_assert_int_ge(row->at_ms, *last);
    *last = row->at_ms;
    return 0;
}

/* All copies are the log, and all models the same. */
static inline void compare_nodes(void)
{
    struct ld_text want;
    int64_t last = 0;

    all_lines(&want);
    if (node[N_NODES].t != NULL) /* it was compared before */
        ld_tenant_release(node[N_NODES].t);
    open_node(N_NODES, NULL);
    for (int i = 0; i <= N_NODES; i++) {
        struct ld_text got;

        ld_text_init(&got);
        ck_assert_int_eq(ld_store_read(ld_tenant_store(node[i].t), 0, SIZE_MAX, add_line, &got), LD_STORE_OK);
        ck_assert_uint_eq(got.n + 1, want.n);
        ck_assert_mem_eq(got.data, want.data, got.n);
        ld_text_close(&got);
        ck_assert_msg(digest_of(node[i].t) == digest_of(node[0].t), "node %d has another model", i);
    }
    ck_assert_int_eq(ld_store_read(ld_tenant_store(node[0].t), 0, SIZE_MAX, check_time, &last), LD_STORE_OK);
    for (int i = 0; i < N_NODES; i++) {
        ld_tenant_release(node[i].t);
        open_node(i, NULL);
        ck_assert_uint_eq(digest_of(node[i].t), digest_of(node[N_NODES].t));
    }
    ld_text_close(&want);
}

#endif
