/* Keys that two servers have in common, on a log in memory: what becomes of a change that nobody can tell, of an answer
 * that is older than a change, and of keys whose tenant is another by now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kbt.h"
#include "kbt_shared_log.h"
#include "keys/keys.h"

#define T0 1700000000000

struct server {
    char dir[64], path[96];
    struct ld_registry_file *file;
    struct ld_keys *keys;
    uint64_t shop; /* the tenant's number, as this server knows it; 0: it has not seen it */
};

static struct kbt_shared_log shared;
static struct server a, b;

static bool has_tenant(void *arg, const char *name, uint64_t id)
{
    const struct server *s = arg;
    return strcmp(name, "shop") == 0 && s->shop == id;
}

static bool follow(struct server *s)
{
    return ld_keys_follow(s->keys, shared.revision, has_tenant, s);
}

static void open_server(struct server *s, bool is_new)
{
    struct ld_message why;
    ck_assert_msg(ld_registry_open(&s->file, s->path, &why) == LD_STORE_OK, "%s", why.text);
    ck_assert_msg(ld_keys_open(&s->keys, s->file, &shared.base, is_new, &why) == 0, "%s", why.text);
}

static void close_server(struct server *s)
{
    ld_keys_close(s->keys);
    ld_registry_close(s->file);
}

static void begin_server(struct server *s)
{
    strcpy(s->dir, "/tmp/laplaced-shared-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(s->dir));
    snprintf(s->path, sizeof s->path, "%s/registry.db", s->dir);
    s->shop = 0;
    open_server(s, true);
    ck_assert_int_eq(ld_registry_add(s->file, "shop", T0), LD_STORE_OK);
}

static uint64_t make_shop(void)
{
    struct ld_shared_tenant t;
    struct ld_message why;
    bool is_new;
    ck_assert_int_eq(shared.base.ops->find(&shared.base, "shop", true, &t, &is_new, &why), LD_SHARED_OK);
    return t.id;
}

static void begin(void)
{
    ld_log_set_level(LD_LOG_N);
    kbt_shared_log_init(&shared, 1);
    begin_server(&a);
    begin_server(&b);
    a.shop = b.shop = make_shop();
}

static void end(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    struct server *all[] = {&a, &b};
    for (size_t k = 0; k < 2; k++) {
        close_server(all[k]);
        for (size_t i = 0; i < 3; i++) {
            char path[128];
            snprintf(path, sizeof path, "%s%s", all[k]->path, suffixes[i]);
            (void)remove(path);
        }
        (void)remove(all[k]->dir);
    }
    kbt_shared_log_close(&shared);
}

/* 201 with *text and *made, or the problem's status. */
static int make(struct server *s, const char *tenant, unsigned roles, char text[LD_KEY_TEXT_BYTES], struct ld_key *made)
{
    struct ld_key wish = {.roles = roles};
    struct ld_problem p;
    ld_problem_init(&p);
    strcpy(wish.tenant, tenant);
    return ld_keys_create(s->keys, &wish, false, T0, made, text, &p) == 0 ? 201 : p.status;
}

static int revoke(struct server *s, const char *tenant, const char *id)
{
    struct ld_problem p;
    ld_problem_init(&p);
    return ld_keys_revoke(s->keys, tenant, id, false, &p) == 0 ? 204 : p.status;
}

static bool opens(struct server *s, const char *text)
{
    struct ld_caller caller;
    return ld_keys_allow(s->keys, text, T0 + 1, &caller);
}

START_TEST(a_new_folder_is_shut_until_the_log_has_told_that_there_are_no_keys)
{
    begin();
    ck_assert(ld_keys_exist(a.keys) && ld_keys_are_guessed(a.keys));
    shared.odds.untaken = 1;
    ck_assert(!follow(&a) && ld_keys_exist(a.keys));
    shared.odds.untaken = 0;
    ck_assert(follow(&a));
    ck_assert(!ld_keys_exist(a.keys) && !ld_keys_are_guessed(a.keys));
    end();
}
END_TEST

START_TEST(a_change_is_in_force_here_at_once_and_there_when_it_is_read)
{
    begin();
    char root[LD_KEY_TEXT_BYTES], other[LD_KEY_TEXT_BYTES];
    struct ld_key made, second;
    ck_assert_int_eq(make(&a, "", LD_ROLE_METRICS, root, &made), 409); /* the first one */
    ck_assert_int_eq(make(&a, "", LD_ROLE_ADMIN, root, &made), 201);
    ck_assert(opens(&a, root) && !opens(&b, root));
    ck_assert(follow(&b) && opens(&b, root));
    ck_assert_int_eq(make(&b, "", LD_ROLE_METRICS, other, &second), 201); /* b knows that it is not the first */
    ck_assert_int_eq(revoke(&b, "", made.id), 409);
    ck_assert_int_eq(revoke(&a, "", second.id), 204); /* a has never read it */
    ck_assert(opens(&b, other));
    ck_assert(follow(&b) && !opens(&b, other));
    ck_assert_int_eq(revoke(&b, "", second.id), 404);
    end();
}
END_TEST

/* Whatever was made of it: no answer says that it worked, and what is true comes with the next reading. */
START_TEST(a_change_whose_outcome_nobody_knows_is_told_so_and_read_later)
{
    begin();
    char root[LD_KEY_TEXT_BYTES], text[LD_KEY_TEXT_BYTES];
    struct ld_key made, second;
    ck_assert_int_eq(make(&a, "", LD_ROLE_ADMIN, root, &made), 201);
    shared.is_key_unknown = true;
    ck_assert_int_eq(make(&a, "", LD_ROLE_METRICS, text, &second), 503);
    ck_assert(!opens(&a, text));
    ck_assert(follow(&a) && opens(&a, text));
    shared.is_key_unknown = true;
    ck_assert_int_eq(revoke(&a, "", second.id), 503);
    ck_assert(opens(&a, text));
    ck_assert(follow(&a) && !opens(&a, text));
    shared.odds.untaken = 1;
    ck_assert_int_eq(make(&a, "", LD_ROLE_METRICS, text, &second), 503);
    ck_assert(opens(&a, root));
    shared.odds.untaken = 0;
    end();
}
END_TEST

/* The answer to a question that was asked before a key was revoked here. */
static enum ld_shared_rc (*keys_before)(struct ld_shared_log *l, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                                        struct ld_message *why);
static const char *to_revoke;

static enum ld_shared_rc answer_late(struct ld_shared_log *l, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                                     struct ld_message *why)
{
    const enum ld_shared_rc rc = keys_before(l, fn, arg, revision, why);
    ck_assert_int_eq(revoke(&a, "", to_revoke), 204);
    return rc;
}

START_TEST(an_answer_that_is_older_than_a_revocation_does_not_bring_the_key_back)
{
    begin();
    char root[LD_KEY_TEXT_BYTES], text[LD_KEY_TEXT_BYTES];
    struct ld_key made, second;
    struct ld_shared_ops ops = *shared.base.ops;
    const struct ld_shared_ops *const own = shared.base.ops;
    ck_assert_int_eq(make(&a, "", LD_ROLE_ADMIN, root, &made), 201);
    ck_assert_int_eq(make(&a, "", LD_ROLE_METRICS, text, &second), 201);
    keys_before = ops.keys;
    ops.keys = answer_late;
    to_revoke = second.id;
    shared.base.ops = &ops;
    (void)follow(&a);
    shared.base.ops = own;
    ck_assert(!opens(&a, text) && opens(&a, root));
    ck_assert(follow(&a) && !opens(&a, text) && opens(&a, root));
    end();
}
END_TEST

START_TEST(what_was_read_is_known_after_a_start_without_the_log)
{
    begin();
    char root[LD_KEY_TEXT_BYTES], text[LD_KEY_TEXT_BYTES];
    struct ld_key made, second;
    ck_assert_int_eq(make(&a, "", LD_ROLE_ADMIN, root, &made), 201);
    ck_assert_int_eq(make(&a, "", LD_ROLE_METRICS, text, &second), 201);
    ck_assert(follow(&a) && opens(&a, root));
    ck_assert_int_eq(revoke(&a, "", second.id), 204);
    shared.odds.untaken = 1;
    close_server(&a);
    open_server(&a, false);
    ck_assert(!follow(&a));
    ck_assert(opens(&a, root) && !opens(&a, text));
    shared.odds.untaken = 0;
    struct ld_key *list;
    size_t n;
    ck_assert_int_eq(ld_keys_list(a.keys, "", &list, &n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(list[0].last_used_at, T0 + 1); /* reading anew forgets no use */
    free(list);
    end();
}
END_TEST

START_TEST(a_key_of_a_tenant_that_is_another_one_here_does_not_count)
{
    begin();
    char root[LD_KEY_TEXT_BYTES], old[LD_KEY_TEXT_BYTES], text[LD_KEY_TEXT_BYTES];
    struct ld_key made, second;
    struct ld_message why;
    ck_assert_int_eq(make(&a, "", LD_ROLE_ADMIN, root, &made), 201);
    ck_assert_int_eq(make(&a, "nobodys", LD_ROLE_READ, text, &second), 404);
    ck_assert_int_eq(make(&a, "shop", LD_ROLE_READ, old, &second), 201);
    ck_assert(follow(&b) && opens(&b, old));
    ck_assert_int_eq(shared.base.ops->drop(&shared.base, a.shop, &why), LD_SHARED_OK);
    a.shop = make_shop(); /* another one of the name; b has not seen that */
    ck_assert_int_eq(make(&a, "shop", LD_ROLE_READ, text, &second), 201);
    ck_assert(!follow(&b)); /* not all of it could be put in force */
    ck_assert(opens(&b, root) && !opens(&b, text));
    b.shop = a.shop;
    ck_assert(follow(&b));
    ck_assert(opens(&b, text));
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN("shared keys", a_new_folder_is_shut_until_the_log_has_told_that_there_are_no_keys,
                   a_change_is_in_force_here_at_once_and_there_when_it_is_read,
                   a_change_whose_outcome_nobody_knows_is_told_so_and_read_later,
                   an_answer_that_is_older_than_a_revocation_does_not_bring_the_key_back,
                   what_was_read_is_known_after_a_start_without_the_log,
                   a_key_of_a_tenant_that_is_another_one_here_does_not_count);
}
