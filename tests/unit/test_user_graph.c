/* Graphs by users' names: made of an event beforehand or in its turn, and patched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_draft.h"
#include "kbt.h"
#include "rng.h"
#include "user_graph.h"

#define N_NAMES 30
#define N_EDGES 60

static char names[N_NAMES][8];
static struct kb_ev_edge edges[N_EDGES];
static const char *alone[] = {"alone", "u3"};
static struct kb_ids known, fresh;
static struct kb_errmsg msg;

/* Distinct pairs, some of them from one user in a row; some names are known to the engine already. */
static struct kb_event open_event(void)
{
    kb_ids_init(&known);
    kb_ids_init(&fresh);
    ck_assert_int_eq(kb_ids_reserve(&known, N_NAMES, sizeof names), KB_OK);
    for (size_t i = 0; i < N_NAMES; i++)
        snprintf(names[i], sizeof names[i], "u%zu", i);
    for (size_t i = 0; i < N_NAMES; i += 3)
        (void)kb_ids_add(&known, names[N_NAMES - 1 - i]);
    for (size_t i = 0; i < N_EDGES; i++)
        edges[i] = (struct kb_ev_edge){names[i / 2 % N_NAMES], names[(i / 2 + 1 + i % 2) % N_NAMES], 1.0 + (double)i};
    return (struct kb_event){
        .type = KB_EV_GRAPH,
        .as.graph = {.is_replace = true, .users = alone, .n_users = 2, .add = edges, .n_add = N_EDGES}};
}

static void close_names(void)
{
    kb_ids_close(&known);
    kb_ids_close(&fresh);
}

/* The digest of what the event makes, and the names that it brings. */
static uint64_t made(const struct kb_event *ev, const struct kb_user_graph *old, struct kb_user_graph *out)
{
    uint64_t h;
    kb_ids_close(&fresh);
    ck_assert_int_eq(kb_user_graph_edit(old, &known, &fresh, ev, out, &msg), KB_OK);
    h = kb_user_graph_digest(out, fresh.n);
    for (uint32_t i = 0; i < fresh.n; i++)
        h = h * 31 + strlen(kb_ids_str(&fresh, i)) + (uint64_t)kb_ids_str(&fresh, i)[1];
    return h;
}

START_TEST(a_draft_changes_nothing_and_one_that_was_used_up_is_made_again)
{
    struct kb_event ev = open_event();
    struct kb_user_graph none, a, b;
    kb_user_graph_init(&none);
    const uint64_t want = made(&ev, &none, &a);
    kb_user_graph_close(&a);
    ck_assert_int_eq(kb_graph_draft_new(&ev.as.graph.draft, &ev, &msg), KB_OK);
    ck_assert_uint_eq(ev.as.graph.draft->names.n, N_NAMES + 1);
    ck_assert_uint_eq(made(&ev, &none, &a), want);
    ck_assert_ptr_null(ev.as.graph.draft->graph);
    ck_assert_uint_eq(made(&ev, &none, &b), want);
    kb_user_graph_close(&a);
    kb_user_graph_close(&b);
    kb_graph_draft_free(ev.as.graph.draft);
    close_names();
}
END_TEST

/* Nodes keep their numbers under a patch, so that it equals a whole graph whose users are named in that order. */
START_TEST(a_patch_is_the_whole_graph_with_its_changes)
{
    struct kb_event whole = open_event(), patch = {.type = KB_EV_GRAPH};
    struct kb_user_graph none, a, b, c;
    const struct kb_ev_edge gone = edges[7], added[] = {{"u1", "new", 2.5}, {edges[20].v, edges[20].u, 99}};
    const char *order[N_NAMES + 2];
    kb_user_graph_init(&none);
    (void)made(&whole, &none, &a);
    patch.as.graph.remove = &gone;
    patch.as.graph.n_remove = 1;
    patch.as.graph.add = added;
    patch.as.graph.n_add = 2;
    for (size_t i = 0; i < a.n; i++)
        order[i] = a.user_of[i] < known.n ? kb_ids_str(&known, a.user_of[i])
                                          : kb_ids_str(&fresh, a.user_of[i] - (uint32_t)known.n);
    for (size_t i = 0; i < a.n; i++)
        order[i] = strdup(order[i]);
    struct kb_ids kept = fresh;
    kb_ids_init(&fresh);
    ck_assert_int_eq(kb_ids_reserve(&known, kept.n, 1024), KB_OK);
    for (uint32_t i = 0; i < kept.n; i++)
        (void)kb_ids_add(&known, kb_ids_str(&kept, i)); /* as the engine does when the graph is in force */
    kb_ids_close(&kept);
    const uint64_t patched = made(&patch, &a, &b);
    edges[20].weight = 99;
    edges[7] = added[0];
    whole.as.graph.users = order;
    whole.as.graph.n_users = a.n;
    ck_assert_uint_eq(made(&whole, &none, &c), patched);
    for (size_t i = 0; i < a.n; i++)
        free((char *)order[i]);
    kb_user_graph_close(&a);
    kb_user_graph_close(&b);
    kb_user_graph_close(&c);
    close_names();
}
END_TEST

START_TEST(faults_of_a_draft_are_named_and_leave_none)
{
    struct kb_event ev = open_event();
    struct kb_graph_draft *draft = NULL;
    edges[9].v = edges[9].u;
    ck_assert_int_eq(kb_graph_draft_new(&draft, &ev, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/edges/9");
    ck_assert_ptr_null(draft);
    close_names();
}
END_TEST

static struct kb_event brutal_event;

static enum kb_err edit(void *arg)
{
    struct kb_user_graph none;
    struct kb_graph_draft *draft = NULL;
    enum kb_err rc;
    kb_user_graph_init(&none);
    KB_TRY(kb_graph_draft_new(&draft, &brutal_event, NULL));
    brutal_event.as.graph.draft = draft;
    KB_TRY(kb_user_graph_edit(&none, &known, &fresh, &brutal_event, arg, NULL));
out:
    kb_graph_draft_free(draft);
    return rc;
}

static void clean(void *arg)
{
    kb_user_graph_close(arg);
    kb_ids_close(&fresh);
}

START_TEST(without_memory_nothing_is_left)
{
    struct kb_user_graph out;
    kb_user_graph_init(&out);
    brutal_event = open_event();
    ck_assert_uint_gt(kbt_brutal(edit, clean, &out), 10);
    close_names();
}
END_TEST

int main(void)
{
    return KBT_RUN("user_graph", a_draft_changes_nothing_and_one_that_was_used_up_is_made_again,
                   a_patch_is_the_whole_graph_with_its_changes, faults_of_a_draft_are_named_and_leave_none,
                   without_memory_nothing_is_left);
}
