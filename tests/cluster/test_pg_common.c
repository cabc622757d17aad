/* What servers have in common in PostgreSQL beside the logs, against a primary with a synchronous standby: keys, rates,
 * who does what one does for all, and tenants that come whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pg_fixture.h"

static struct ld_message why;

/* --- keys ------------------------------------------------------------------------------------------------- */

struct seen {
    int n;
    char ids[256]; /* "ID@TENANT " each */
    bool is_wanted;
};

static void begin(void *arg)
{
    struct seen *s = arg;
    s->n = 0;
    s->ids[0] = '\0';
}

static bool see(void *arg, const struct ld_key *key, uint64_t tenant)
{
    struct seen *s = arg;
    const size_t at = strlen(s->ids);
    (void)snprintf(s->ids + at, sizeof s->ids - at, "%s@%s ", key->id, key->tenant);
    ck_assert_int_eq(tenant != 0, key->tenant[0] != '\0');
    s->n++;
    return true;
}

static bool judge(void *arg)
{
    return ((struct seen *)arg)->is_wanted;
}

static enum ld_shared_rc change(struct writer *w, const struct ld_key *add, const char *remove, struct seen *s,
                                uint64_t *revision)
{
    const struct ld_shared_key_change c = {
        .add = add, .remove = remove, .begin = begin, .each = see, .judge = judge, .arg = s};
    return w->log->ops->change_key(w->log, &c, revision, &why);
}

static uint64_t keys_of(struct writer *w, struct seen *s)
{
    uint64_t revision = 0;
    begin(s);
    ck_assert_int_eq(w->log->ops->keys(w->log, see, s, &revision, &why), LD_SHARED_OK);
    return revision;
}

static const struct ld_key root = {.id = "00000000000000aa", .roles = 16, .label = "r\xc3\xb6ot", .created_at = 5};

START_TEST(a_key_is_judged_by_all_that_are_there_and_told_byte_for_byte)
{
    struct writer a, b;
    struct seen s = {.is_wanted = true};
    struct ld_key key = root;
    uint64_t before = 0, after = 0;
    pg_open(&a, "a", "keys");
    pg_open(&b, "b", "keys");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    memset(key.hash, 0xf0, sizeof key.hash);
    before = keys_of(&b, &s);
    ck_assert_int_eq(s.n, 0);
    ck_assert_int_eq(change(&a, &key, NULL, &s, &after), LD_SHARED_OK);
    ck_assert_uint_eq(after, before + 1);
    ck_assert_uint_eq(keys_of(&b, &s), after);
    ck_assert_str_eq(s.ids, "00000000000000aa@ ");
    strcpy(key.id, "00000000000000bb");
    strcpy(key.tenant, "keys");
    key.expires_at = 77;
    s.is_wanted = false;
    ck_assert_int_eq(change(&b, &key, NULL, &s, &after), LD_SHARED_BEHIND);
    ck_assert_str_eq(s.ids, "00000000000000aa@ "); /* by what a has made */
    ck_assert_uint_eq(keys_of(&a, &s), before + 1);
    s.is_wanted = true;
    ck_assert_int_eq(change(&b, &key, NULL, &s, &after), LD_SHARED_OK);
    strcpy(key.tenant, "nobodys");
    strcpy(key.id, "00000000000000cc");
    ck_assert_int_eq(change(&b, &key, NULL, &s, &after), LD_SHARED_NONE);
    ck_assert_int_eq(change(&a, NULL, "00000000000000aa", &s, &after), LD_SHARED_OK);
    ck_assert_int_eq(change(&a, NULL, "00000000000000aa", &s, &after), LD_SHARED_NONE);
    (void)keys_of(&b, &s);
    ck_assert_str_eq(s.ids, "00000000000000bb@keys ");
    ck_assert_int_eq(a.log->ops->drop(a.log, a.id, &why), LD_SHARED_OK);
    ck_assert_uint_gt(keys_of(&b, &s), after); /* a drop is news, and takes the tenant's keys along */
    ck_assert_int_eq(s.n, 0);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

START_TEST(a_change_of_keys_that_no_standby_has_is_not_acknowledged)
{
    struct writer a;
    struct seen s = {.is_wanted = true};
    uint64_t revision = 0;
    pg_open_for(&a, "a", "waits", 1000);
    pg_kit("freeze_standbys");
    ck_assert_int_eq(change(&a, &root, NULL, &s, &revision), LD_SHARED_UNKNOWN);
    pg_kit("thaw_standbys");
    pg_kit("wait 1");
    (void)keys_of(&a, &s);
    ck_assert_str_eq(s.ids, "00000000000000aa@ "); /* it came after all */
    ck_assert_int_eq(change(&a, NULL, root.id, &s, &revision), LD_SHARED_OK);
    pg_close(&a);
}
END_TEST

/* --- rates ------------------------------------------------------------------------------------------------ */

static void take_rate(void *arg, const char *name, const struct ld_rate *own)
{
    if (strcmp(name, "rates") == 0)
        *(struct ld_rate *)arg = *own;
}

START_TEST(a_rate_comes_back_bit_for_bit_and_goes_with_its_tenant)
{
    struct writer a;
    const struct ld_rate own = {.rate = 0.1 + 0.2, .burst = 1e-300}, other = {.rate = 7};
    struct ld_rate told = {.rate = -1};
    struct ld_shared_common one, two;
    pg_open(&a, "a", "rates");
    ck_assert_int_eq(a.log->ops->common(a.log, &one, &why), LD_SHARED_OK);
    ck_assert_uint_ge(one.n_nodes, 1);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &other, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &own, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->rates(a.log, take_rate, &told, &why), LD_SHARED_OK);
    ck_assert_mem_eq(&told, &own, sizeof own);
    ck_assert_int_eq(a.log->ops->common(a.log, &two, &why), LD_SHARED_OK);
    ck_assert_uint_eq(two.revision, one.revision + 2);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, NULL, &why), LD_SHARED_OK);
    told.rate = -1;
    ck_assert_int_eq(a.log->ops->rates(a.log, take_rate, &told, &why), LD_SHARED_OK);
    ck_assert(told.rate == -1);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &own, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->drop(a.log, a.id, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->rates(a.log, take_rate, &told, &why), LD_SHARED_OK);
    ck_assert(told.rate == -1);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &own, &why), LD_SHARED_NONE);
    pg_close(&a);
}
END_TEST

/* --- what one does for all ---------------------------------------------------------------------------------- */

static void take_view(void *arg, const char *node, const char *view)
{
    (void)snprintf(arg, 64, "%s: %s", node, view != NULL ? view : "-");
}

START_TEST(one_server_holds_until_it_is_silent_for_ten_seconds)
{
    struct writer a, b;
    char told[64] = "";
    pg_open(&a, "a", "held");
    pg_open(&b, "b", "held");
    ck_assert_int_eq(b.log->ops->held(b.log, b.id, take_view, told, &why), LD_SHARED_NONE);
    ck_assert_int_eq(a.log->ops->hold(a.log, a.id, NULL, &why), LD_SHARED_OK);
    ck_assert_int_eq(b.log->ops->hold(b.log, b.id, "theirs", &why), LD_SHARED_BEHIND);
    ck_assert_int_eq(a.log->ops->hold(a.log, a.id, "found", &why), LD_SHARED_OK);
    ck_assert_int_eq(b.log->ops->held(b.log, b.id, take_view, told, &why), LD_SHARED_OK);
    ck_assert_str_eq(told, "a: found");
    (void)pg_ask("sql 'UPDATE laplaced.holder SET seen_at = seen_at - 9000'");
    ck_assert_int_eq(b.log->ops->hold(b.log, b.id, NULL, &why), LD_SHARED_BEHIND);
    (void)pg_ask("sql 'UPDATE laplaced.holder SET seen_at = seen_at - 2000'");
    ck_assert_int_eq(b.log->ops->hold(b.log, b.id, NULL, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->held(a.log, a.id, take_view, told, &why), LD_SHARED_OK);
    ck_assert_str_eq(told, "b: found"); /* until b has found something */
    ck_assert_int_eq(a.log->ops->hold(a.log, a.id, NULL, &why), LD_SHARED_BEHIND);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* --- tenants that come whole -------------------------------------------------------------------------------- */

static struct ld_shared_batch batch_of(struct ld_shared_place *at, const char *body, uint32_t n)
{
    struct ld_shared_batch b = {
        .at = {.seq = at->seq + n}, .n = n, .node = "a", .nonce = at->seq, .body = body, .n_body = strlen(body)};
    ld_chain(b.at.hash, at->hash, b.body, b.n_body);
    *at = b.at;
    return b;
}

static void put_two(struct writer *w, struct ld_shared_turn *turn, struct ld_shared_place *at, const char *large)
{
    struct ld_shared_batch b = batch_of(at, "one\ntwo\n", 2);
    ck_assert_int_eq(w->log->ops->put(turn, &b, &why), LD_SHARED_OK);
    b = batch_of(at, large, 1);
    ck_assert_int_eq(w->log->ops->put(turn, &b, &why), LD_SHARED_OK);
}

START_TEST(a_tenant_that_comes_whole_is_seen_by_nobody_before)
{
    struct writer a, b;
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_tenant found;
    struct ld_shared_place at = {.seq = 0};
    uint64_t id = 0;
    static char large[100001]; /* goes the way of long bodies */
    memset(large, 'x', 100000);
    large[99999] = '\n';
    pg_open(&a, "a", "beside");
    pg_open(&b, "b", "beside");
    ck_assert_int_eq(a.log->ops->make(a.log, "whole", &turn, &id, &why), LD_SHARED_OK);
    put_two(&a, turn, &at, large);
    ck_assert_int_eq(b.log->ops->find(b.log, "whole", false, &found, NULL, &why), LD_SHARED_NONE);
    a.log->ops->release(turn);
    ck_assert_int_eq(b.log->ops->find(b.log, "whole", false, &found, NULL, &why), LD_SHARED_NONE);

    at = (struct ld_shared_place){.seq = 0};
    ck_assert_int_eq(a.log->ops->make(a.log, "whole", &turn, &id, &why), LD_SHARED_OK);
    put_two(&a, turn, &at, large);
    pg_kit("wait 3"); /* longer than PostgreSQL lets a turn be silent: it is kept alive */
    const struct ld_shared_batch last = batch_of(&at, "four\n", 1);
    ck_assert_int_eq(a.log->ops->append(turn, &last, &why), LD_SHARED_OK);
    ck_assert_int_eq(b.log->ops->find(b.log, "whole", false, &found, NULL, &why), LD_SHARED_OK);
    ck_assert_uint_eq(found.id, id);
    b.id = id;
    ck_assert_int_eq(pg_follow(&b), LD_SHARED_OK);
    ck_assert_uint_eq(b.at.seq, 4);
    ck_assert_mem_eq(b.at.hash, last.at.hash, LD_CHAIN_BYTES);
    ck_assert_int_eq(b.log->ops->make(b.log, "whole", &turn, &id, &why), LD_SHARED_BEHIND);
    ck_assert_ptr_null(turn);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pg_common");
    TCase *c = tcase_create("common");
    tcase_set_timeout(c, 120);
    tcase_add_unchecked_fixture(c, pg_begin, pg_end);
    tcase_add_test(c, a_key_is_judged_by_all_that_are_there_and_told_byte_for_byte);
    tcase_add_test(c, a_change_of_keys_that_no_standby_has_is_not_acknowledged);
    tcase_add_test(c, a_rate_comes_back_bit_for_bit_and_goes_with_its_tenant);
    tcase_add_test(c, one_server_holds_until_it_is_silent_for_ten_seconds);
    tcase_add_test(c, a_tenant_that_comes_whole_is_seen_by_nobody_before);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return kbt_run_suite(suite());
}
