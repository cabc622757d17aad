/* What an engine says of its memory, against the allocator; and what it says before an event, against what it takes
 * then. A quota rests on both. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "kbt.h"
#include "base/rng.h"

#define N_EVENTS 800u
#define N_USERS 150u
#define SMALL 65536.0
#define ROUNDINGS 6144.0 /* of the allocator, and lists of the writer: of weight where nothing else is large */

static size_t n_live; /* bytes that the core holds, blocks rounded up as the C library does */

static void *weighing_realloc(void *ptr, size_t bytes)
{
    const size_t before = ptr != NULL ? malloc_usable_size(ptr) : 0;
    void *block = realloc(ptr, bytes);

    if (block != NULL)
        n_live += malloc_usable_size(block) - before;
    return block;
}

static void weighing_free(void *ptr)
{
    n_live -= malloc_usable_size(ptr);
    free(ptr);
}

static const struct kb_alloc_hook weighing = {weighing_realloc, weighing_free};

/* Exact models and those without bounds to make are foretold closely; of a dictionary the cache of its sweeps is not
 * known before, and of what confidence rules read neither is the working memory. */
static const struct {
    const char *name;
    double least, most; /* said / held */
    double foretold;    /* taken / foretold, at most */
    bool has_open;      /* deviations know open decisions */
} presets[] = {{"laplaced-kors", 0.97, 1.25, 1.4, false},
               {"k-ucb", 0.97, 1.03, 1.03, false},
               {"bkb", 0.97, 1.03, 1.03, false},
               {"lk-gp-ucb", 0.97, 1.03, 1.03, false},
               {"cmm-ucb", 0.97, 1.45, 1.4, false},
               {"gp-ucb", 0.97, 1.03, 1.03, false},
               {"ucb", 0.97, 1.03, 1.03, false},
               {"laplaced-by-arm", 0.95, 1.03, 1.03, false}, /* small */
               {"laplaced-by-component", 0.97, 1.25, 1.4, false},
               {"k-ucb", 0.97, 1.03, 1.03, true},
               {"ek-ucb", 0.97, 1.25, 1.4, true},
               {"ucb", 0.97, 1.03, 1.03, true},
               {"laplaced-by-arm", 0.95, 1.03, 1.03, true}};

struct model {
    struct kb_engine *e;
    uint64_t seq;
    double worst; /* most that was taken, by what was foretold */
};

/* Checks what was foretold of the event; folds it with what follows. */
static void take(struct model *m, struct kb_event ev)
{
    struct kb_event next = {.type = KB_EV_NONE};
    struct kb_errmsg msg = {.text = ""};

    while (kb_engine_due(m->e, m->seq + 1, true, &next) == KB_OK && next.type != KB_EV_NONE) {
        next.seq = ++m->seq;
        ck_assert_int_eq(kb_engine_fold(m->e, &next, NULL), KB_OK);
    }
    const size_t before = kb_engine_bytes(m->e), foretold = kb_engine_bytes_after(m->e, &ev);
    ck_assert_uint_ge(foretold, before);
    ev.seq = ++m->seq;
    ck_assert_msg(kb_engine_reserve(m->e, &ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    ck_assert_int_eq(kb_engine_follow_up(m->e, &ev, &next), KB_OK);
    if (next.type != KB_EV_NONE) {
        next.seq = ++m->seq;
        ck_assert_int_eq(kb_engine_reserve(m->e, &next, NULL), KB_OK);
    }
    ck_assert_int_eq(kb_engine_grow(m->e), KB_OK);
    kb_engine_swap(m->e);
    kb_engine_prepare(m->e, &ev);
    kb_engine_apply(m->e, &ev);
    if (next.type != KB_EV_NONE) {
        kb_engine_prepare(m->e, &next);
        kb_engine_apply(m->e, &next);
    }
    kb_engine_collect(m->e);
    if (m->seq % 100 == 0) { /* what confidence rules keep is made beside the events, and counted from the start */
        ck_assert_int_eq(kb_engine_settle(m->e), KB_OK);
        kb_engine_publish(m->e);
    }
    const size_t after = kb_engine_bytes(m->e);
    const double over = ((double)after - SMALL) / (double)foretold;
    m->worst = over > m->worst ? over : m->worst;
}

static void open_model(struct model *m, const char *preset, bool has_open)
{
    struct kb_spec spec;

    *m = (struct model){.seq = 0};
    ck_assert_int_eq(kb_engine_new(&m->e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, preset, 2, 0), KB_OK);
    spec.repr.max_dictionary = 300;
    spec.pending = has_open ? KB_PENDING_HALLUCINATE : KB_PENDING_IGNORE;
    kb_engine_set_inline_work(m->e, 1e18);
    take(m, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {.spec = &spec, .version = 1}});
}

static void set_graph(struct model *m, size_t n)
{
    static char name[N_USERS][24];
    struct kb_ev_edge edge[N_USERS];
    struct kb_event ev = {.type = KB_EV_GRAPH};

    for (size_t i = 0; i < n; i++)
        snprintf(name[i], sizeof name[i], "u%zu", i);
    for (size_t i = 0; i + 1 < n; i++)
        edge[i] = (struct kb_ev_edge){name[i], name[i + 1], 1.0 + (double)(i % 3)};
    ev.as.graph.is_replace = true;
    ev.as.graph.add = edge;
    ev.as.graph.n_add = n - 1;
    take(m, ev);
}

/* A decision every third time, rewarded later or never; observations at points of their own, some of them again. */
static void traffic(struct model *m, uint64_t i)
{
    char user[16], arm[16], decision[24];
    double x[2] = {kb_rng_uniform(9, KB_STREAM_SIMULATION, i), kb_rng_uniform(9, KB_STREAM_SIMULATION, i / 2)};
    struct kb_ev_slot slot = {.arm = arm};
    struct kb_event ev = {.type = KB_EV_OBSERVED};

    snprintf(user, sizeof user, "u%llu", (unsigned long long)(i % (2 * N_USERS)));
    snprintf(arm, sizeof arm, "a%llu", (unsigned long long)(i % 40));
    if (i % 3 == 0) {
        snprintf(decision, sizeof decision, "d%llu", (unsigned long long)i);
        ev.type = KB_EV_DECIDED;
        ev.as.decided.decision = decision;
        ev.as.decided.user = user;
        ev.as.decided.context = x;
        ev.as.decided.slots = &slot;
        ev.as.decided.n_slots = 1;
        ev.as.decided.expires_at_ms = INT64_MAX;
    } else if (i % 3 == 1 && i > 30) {
        snprintf(decision, sizeof decision, "d%llu", (unsigned long long)(i - 1 - 15 * (i % 2)));
        if (kb_engine_decision_state(m->e, decision) != KB_DECISION_PENDING)
            return;
        ev.type = KB_EV_REWARDED;
        ev.as.rewarded.decision = decision;
        ev.as.rewarded.reward = x[0];
    } else {
        ev.as.observed.user = user;
        ev.as.observed.context = x;
        ev.as.observed.arm = slot;
        ev.as.observed.reward = x[1];
    }
    take(m, ev);
}

START_TEST(bytes_are_those_of_the_allocator_and_foretold)
{
    struct model m;
    double least = 1, most = 1; /* said / held */

    n_live = 0;
    kb_alloc_set_hook(&weighing);
    open_model(&m, presets[_i].name, presets[_i].has_open);
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        traffic(&m, i);
        if (i == 100)
            set_graph(&m, 40);
        if (i == 500)
            set_graph(&m, N_USERS);
        if (i % 50 != 49)
            continue;
        const double said = (double)kb_engine_bytes(m.e), held = (double)n_live;
        least = fmin(least, (said + ROUNDINGS) / held);
        most = fmax(most, said / held);
    }
    ck_assert_msg(least > presets[_i].least && most < presets[_i].most, "%s: from %.3f to %.3f of what it holds",
                  presets[_i].name, least, most);
    ck_assert_msg(m.worst < presets[_i].foretold, "%s: %.3f of what was foretold", presets[_i].name, m.worst);
    kb_engine_free(m.e);
    kb_alloc_set_hook(NULL);
    ck_assert_uint_eq(n_live, 0);
}
END_TEST

/* What decisions keep of the catalogue's arms is laid out, and let go, to the byte as told. */
START_TEST(bytes_kept_for_the_catalogue_are_those_of_the_allocator)
{
    struct model m = {.seq = 0};
    struct kb_spec spec;
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    const double x[2] = {0.5, -0.5};
    struct kb_ev_arm put[100];
    char name[100][8];
    const struct kb_query q = {.user = "u"};

    n_live = 0;
    kb_alloc_set_hook(&weighing);
    ck_assert_int_eq(kb_engine_new(&m.e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, "ek-ucb", 0, 2), KB_OK);
    take(&m, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {.spec = &spec, .version = 1}});
    for (size_t i = 0; i < 100; i++) {
        snprintf(name[i], sizeof name[i], "a%zu", i);
        put[i] = (struct kb_ev_arm){.id = name[i], .features = x, .is_active = true};
    }
    take(&m, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.put = put, .n_put = 100}});
    take(&m, (struct kb_event){.type = KB_EV_OBSERVED, .as.observed = {.user = "u", .arm = {"a0", x}, .reward = 1}});
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(m.e, s, 0, 0), KB_OK);
    kb_engine_set_most_kept(m.e, KB_MOST_KEPT);
    ck_assert_int_eq(kb_engine_decide(m.e, &q, s, &d, NULL), KB_OK);
    for (size_t i = 0; i < 2; i++) { /* laid out, then given back */
        const size_t held = n_live, said = kb_engine_bytes(m.e), kept = kb_engine_kept_bytes(m.e);
        ck_assert_int_eq(kb_engine_settle(m.e), KB_OK);
        kb_engine_publish(m.e);
        kb_engine_collect(m.e);
        const double more = (double)kb_engine_kept_bytes(m.e) - (double)kept;
        ck_assert(i == 0 ? more > 50000 : more < -50000);
        ck_assert_double_eq((double)kb_engine_bytes(m.e) - (double)said, more);
        ck_assert_double_eq_tol((double)n_live - (double)held, more, 1024);
        kb_engine_set_most_kept(m.e, 0);
    }
    kb_engine_scratch_free(s);
    kb_engine_free(m.e);
    kb_alloc_set_hook(NULL);
    ck_assert_uint_eq(n_live, 0);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("engine_bytes", 0,
                         {bytes_are_those_of_the_allocator_and_foretold, sizeof presets / sizeof *presets},
                         {bytes_kept_for_the_catalogue_are_those_of_the_allocator, 1});
}
