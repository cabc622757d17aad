/* Graphs by users' names: made of an event beforehand or in its turn, and patched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/graph_draft.h"
#include "kbt.h"
#include "model/user_graph.h"

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
    kb_ids_init(&known, kbt_key);
    kb_ids_init(&fresh, kbt_key);
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
    struct kb_graph_draft *draft = ev->as.graph.draft;
    uint64_t h;
    kb_ids_close(&fresh);
    ck_assert_int_eq(kb_user_graph_edit(old, &known, &fresh, ev, &draft, out, &msg), KB_OK);
    h = kb_user_graph_digest(out, fresh.n);
    for (uint32_t i = 0; i < fresh.n; i++)
        h = h * 31 + strlen(kb_ids_str(&fresh, i)) + (uint64_t)kb_ids_str(&fresh, i)[1];
    if (draft != ev->as.graph.draft)
        kb_graph_draft_free(draft);
    return h;
}

/* As the engine does when the graph is in force. */
static void adopt_fresh(void)
{
    for (uint32_t i = 0; i < fresh.n; i++) {
        ck_assert_int_eq(kb_ids_reserve(&known, 1, KB_ID_MAX_BYTES), KB_OK);
        (void)kb_ids_add(&known, kb_ids_str(&fresh, i));
    }
}

/* As beside a writer: a few names at a time, and somebody comes in between. */
static struct kb_graph_draft *draft_beside(const struct kb_event *ev, const struct kb_user_graph *base,
                                           const char *const *newcomers, size_t n_newcomers)
{
    struct kb_graph_draft *d = NULL;
    ck_assert_int_eq(kb_graph_draft_new(&d, ev, base, NULL, kbt_key, &msg), KB_OK);
    for (size_t i = 0; kb_graph_draft_meet(d, &known, 7) || i < n_newcomers; i++) {
        if (i >= n_newcomers)
            continue;
        ck_assert_int_eq(kb_ids_reserve(&known, 1, KB_ID_MAX_BYTES), KB_OK);
        (void)kb_ids_add(&known, newcomers[i]);
    }
    ck_assert_msg(kb_graph_draft_make(d, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    return d;
}

START_TEST(a_draft_changes_nothing_and_one_that_was_used_up_is_made_again)
{
    struct kb_event ev = open_event();
    struct kb_user_graph none, a, b;
    kb_user_graph_init(&none);
    const uint64_t want = made(&ev, &none, &a);
    kb_user_graph_close(&a);
    ev.as.graph.draft = draft_beside(&ev, NULL, NULL, 0);
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

/* Some of those who come are in the graph, one is not; the order of the log decides on their numbers. */
START_TEST(users_who_come_beside_a_draft_have_their_numbers)
{
    static const char *const newcomers[] = {"u1", "nobody", "alone", "u3"};
    struct kb_event ev = open_event();
    struct kb_user_graph none, a, b, other;
    kb_user_graph_init(&none);
    ev.as.graph.draft = draft_beside(&ev, NULL, newcomers, 4);
    const uint64_t drafted = made(&ev, &none, &a);
    kb_graph_draft_free(ev.as.graph.draft);
    ev.as.graph.draft = NULL;
    ck_assert_uint_eq(made(&ev, &none, &b), drafted);
    kb_user_graph_close(&b);
    const struct kb_ev_edge added[] = {{"late", "u1", 2.5}, {"u5", "later", 3}, {edges[20].v, edges[20].u, 99}};
    struct kb_event patch = {.type = KB_EV_GRAPH,
                             .as.graph = {.add = added, .n_add = 3, .remove = edges + 7, .n_remove = 1}};
    adopt_fresh();
    patch.as.graph.draft = draft_beside(&patch, &a, (const char *const[]){"later"}, 1);
    const uint64_t patched = made(&patch, &a, &b);
    ck_assert_ptr_null(patch.as.graph.draft->graph); /* it was this one */
    ck_assert_uint_eq(fresh.n, 1);
    ck_assert_str_eq(kb_ids_str(&fresh, 0), "late");
    kb_user_graph_close(&b);
    kb_graph_draft_free(patch.as.graph.draft);
    patch.as.graph.draft = NULL;
    ck_assert_uint_eq(made(&patch, &a, &b), patched);
    kb_user_graph_close(&b);
    (void)made(&ev, &none, &other);
    patch.as.graph.draft = draft_beside(&patch, &other, NULL, 0);
    ck_assert_uint_eq(made(&patch, &a, &b), patched);
    ck_assert_ptr_nonnull(patch.as.graph.draft->graph); /* of another graph: worth nothing */
    kb_graph_draft_free(patch.as.graph.draft);
    kb_user_graph_close(&a);
    kb_user_graph_close(&b);
    kb_user_graph_close(&other);
    close_names();
}
END_TEST

#define N_MANY 3000u

/* More names than are put into the users' table one by one. */
START_TEST(a_table_made_beside_newcomers_is_that_of_all_ids)
{
    static char many[N_MANY][8];
    static const char *users[N_MANY];
    static const char *const newcomers[] = {"x5", "stranger", "x2999", "another"};
    struct kb_event ev = {.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .users = users, .n_users = N_MANY}};
    struct kb_user_graph none, out;
    struct kb_moves moves;
    kb_user_graph_init(&none);
    kb_moves_init(&moves);
    kb_ids_init(&known, kbt_key);
    kb_ids_init(&fresh, kbt_key);
    for (size_t i = 0; i < N_MANY; i++) {
        snprintf(many[i], sizeof many[i], "x%zu", i);
        users[i] = many[i];
    }
    for (size_t i = 0; i < 90; i += 3) {
        ck_assert_int_eq(kb_ids_reserve(&known, 1, 8), KB_OK);
        (void)kb_ids_add(&known, many[7 * i]);
    }
    struct kb_graph_draft *d = draft_beside(&ev, NULL, newcomers, 4);
    ck_assert_ptr_nonnull(d->slot);
    ck_assert_uint_eq(d->n_placed, 30);
    struct kb_graph_draft *used = d;
    ck_assert_int_eq(kb_user_graph_edit(&none, &known, &fresh, &ev, &used, &out, &msg), KB_OK);
    const uint32_t n_before = (uint32_t)known.n;
    ck_assert_int_eq(kb_moves_finish(&moves, kb_graph_draft_join(used, &known, &fresh, &moves)), KB_OK);
    ck_assert_ptr_null(d->slot); /* it was this one */
    ck_assert_uint_eq(known.n, N_MANY + 2);
    ck_assert_uint_eq(known.n, n_before + fresh.n);
    for (uint32_t i = 0; i < known.n; i++)
        ck_assert_uint_eq(kb_ids_find(&known, kb_ids_str(&known, i)), i);
    ck_assert_uint_eq(kb_ids_find(&known, "nobody"), KB_ID_NONE);
    for (size_t i = 0; i < N_MANY; i++)
        ck_assert_str_eq(kb_ids_str(&known, out.user_of[i]), many[i]);
    kb_user_graph_close(&out);
    kb_graph_draft_free(d);
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
    kb_ids_init(&fresh, kbt_key);
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
    ck_assert_int_eq(kb_graph_draft_new(&draft, &ev, NULL, NULL, kbt_key, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/edges/9");
    ck_assert_ptr_null(draft);
    close_names();
}
END_TEST

START_TEST(faults_of_a_patch_are_named_by_its_own_members)
{
    struct kb_event ev = open_event();
    struct kb_user_graph none, a, b;
    struct kb_graph_draft *draft = NULL;
    const struct kb_ev_edge gone[] = {edges[7], {"u1", "nobody", 0}}, heavier[] = {{"u1", "x", 1}, {"x", "u1", 2}};
    struct kb_event patch = {.type = KB_EV_GRAPH, .as.graph = {.remove = gone, .n_remove = 2}};
    kb_user_graph_init(&none);
    (void)made(&ev, &none, &a);
    adopt_fresh();
    ck_assert_int_eq(kb_user_graph_edit(&a, &known, &fresh, &patch, &draft, &b, &msg), KB_ECONFLICT);
    ck_assert_str_eq(msg.pointer, "/remove/1");
    patch = (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.add = heavier, .n_add = 2}};
    ck_assert_int_eq(kb_user_graph_edit(&a, &known, &fresh, &patch, &draft, &b, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/add/1");
    ck_assert_ptr_null(draft);
    kb_user_graph_close(&a);
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
    KB_TRY(kb_user_graph_edit(&none, &known, &fresh, &brutal_event, &draft, arg, NULL));
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
                   users_who_come_beside_a_draft_have_their_numbers, a_table_made_beside_newcomers_is_that_of_all_ids,
                   a_patch_is_the_whole_graph_with_its_changes, faults_of_a_patch_are_named_by_its_own_members,
                   faults_of_a_draft_are_named_and_leave_none, without_memory_nothing_is_left);
}
