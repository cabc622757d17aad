/* Keys: who gets in by which, what stands in the file, and what is left of a change that was cut off or refused. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <signal.h>
#include <unistd.h>

#include "base/embed.h"
#include "json/json_keys.h"
#include "kbt.h"
#include "keys/keys.h"
#include "base/log.h"

#define T0 1700000000000

static char dir[64], path[96];
static struct ld_message why;
static struct ld_registry_file *file;
static struct ld_keys *keys;

static void open_all(void)
{
    ck_assert_msg(ld_registry_open(&file, path, &why) == LD_STORE_OK, "%s", why.text);
    ck_assert_msg(ld_keys_open(&keys, file, NULL, false, &why) == 0, "%s", why.text);
}

static void close_all(void)
{
    ld_keys_close(keys);
    ld_registry_close(file);
}

/* A registry with the tenants `shop` and `other`. */
static void start(void)
{
    ld_log_set_level(LD_LOG_N);
    strcpy(dir, "/tmp/laplaced-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/registry.db", dir);
    open_all();
    ck_assert_int_eq(ld_registry_add(file, "shop", T0), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_add(file, "other", T0), LD_STORE_OK);
}

static void restart(void)
{
    close_all();
    open_all();
}

static void finish(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[128];
    close_all();
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    rmdir(dir);
}

static struct ld_key made;
static char text[LD_KEY_TEXT_BYTES];

/* 201 with `made` and `text`, or the problem's status. */
static int create_as(const char *tenant, unsigned roles, int64_t expires_at, bool has_other)
{
    struct ld_key wish = {.roles = roles, .expires_at = expires_at};
    struct ld_problem p;
    ld_problem_init(&p);
    strcpy(wish.tenant, tenant);
    return ld_keys_create(keys, &wish, has_other, T0, &made, text, &p) == 0 ? 201 : p.status;
}

static int create(const char *tenant, unsigned roles)
{
    return create_as(tenant, roles, 0, true);
}

static int unmake_as(const char *tenant, const char *id, bool has_other)
{
    struct ld_problem p;
    ld_problem_init(&p);
    return ld_keys_revoke(keys, tenant, id, has_other, &p) == 0 ? 204 : p.status;
}

static int unmake(const char *tenant, const char *id)
{
    return unmake_as(tenant, id, true);
}

static struct ld_caller caller;

static bool allows(const char *key)
{
    return ld_keys_allow(keys, key, T0 + 1000, &caller);
}

static size_t n_keys(const char *tenant)
{
    struct ld_key *list;
    size_t n;
    ck_assert_int_eq(ld_keys_list(keys, tenant, &list, &n), 0);
    free(list);
    return n;
}

START_TEST(a_key_opens_what_it_was_made_for_and_survives_a_restart)
{
    char shop[LD_KEY_TEXT_BYTES], admin[LD_KEY_TEXT_BYTES];
    start();
    ck_assert(!ld_keys_exist(keys));
    ck_assert_int_eq(create("", LD_ROLE_ADMIN), 201);
    strcpy(admin, text);
    ck_assert(ld_keys_exist(keys));
    ck_assert_int_eq(create("shop", LD_ROLE_DECIDE | LD_ROLE_READ), 201);
    strcpy(shop, text);
    for (int round = 0; round < 2; round++) {
        ck_assert(allows(shop));
        ck_assert_str_eq(caller.tenant, "shop");
        ck_assert_uint_eq(caller.roles, LD_ROLE_DECIDE | LD_ROLE_READ);
        ck_assert(allows(admin));
        ck_assert_str_eq(caller.tenant, "");
        ck_assert_uint_eq(caller.roles, LD_ALL_ROLES);
        restart();
        ck_assert(ld_keys_exist(keys));
    }
    finish();
}
END_TEST

/* Every character of a key counts, and so does its length. */
START_TEST(nothing_else_opens)
{
    char wrong[2 * LD_KEY_TEXT_BYTES];
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    for (size_t i = 0; i < LD_KEY_TEXT_BYTES - 1; i++) {
        strcpy(wrong, text);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        ck_assert_msg(!allows(wrong), "character %zu", i);
        strcpy(wrong, text);
        wrong[i] = '\0';
        ck_assert_msg(!allows(wrong), "cut at %zu", i);
    }
    snprintf(wrong, sizeof wrong, "%s0", text);
    ck_assert(!allows(wrong));
    ck_assert(!allows(""));
    ck_assert(allows(text));
    finish();
}
END_TEST

START_TEST(a_secret_of_one_key_does_not_open_by_the_id_of_another)
{
    char first[LD_KEY_TEXT_BYTES];
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    strcpy(first, text);
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    memcpy(text + 4, first + 4, 16);
    ck_assert(!allows(text));
    finish();
}
END_TEST

/* Nothing in the file, nor in what is listed, is the key. */
START_TEST(the_file_has_the_hash_and_not_the_key)
{
    struct ld_key *list;
    size_t n, n_text;
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    const char *secret = strrchr(text, '_') + 1;
    ck_assert_int_eq(ld_keys_list(keys, "shop", &list, &n), 0);
    char *shown = ld_encode_keys(list, n, &n_text);
    ck_assert_ptr_null(strstr(shown, secret));
    ck_assert_ptr_nonnull(strstr(shown, made.id));
    free(shown);
    free(list);
    for (int wal = 0; wal < 2; wal++) {
        char name[128], *bytes = malloc(1 << 22);
        snprintf(name, sizeof name, "%s%s", path, wal ? "-wal" : "");
        FILE *f = fopen(name, "r");
        size_t size = f != NULL ? fread(bytes, 1, 1 << 22, f) : 0;
        ck_assert(memmem(bytes, size, secret, 32) == NULL);
        if (f != NULL)
            fclose(f);
        free(bytes);
    }
    finish();
}
END_TEST

START_TEST(a_revoked_key_opens_nothing_at_once_and_after_a_restart)
{
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    ck_assert_int_eq(unmake("other", made.id), 404); /* another tenant's key is not there */
    ck_assert_int_eq(unmake("", made.id), 404);
    ck_assert(allows(text));
    ck_assert_int_eq(unmake("shop", made.id), 204);
    ck_assert(!allows(text));
    ck_assert_int_eq(unmake("shop", made.id), 404);
    ck_assert_uint_eq(n_keys("shop"), 0);
    ck_assert(ld_keys_exist(keys)); /* there was one: nobody gets in without */
    restart();
    ck_assert(!allows(text));
    finish();
}
END_TEST

START_TEST(an_expired_key_opens_nothing)
{
    start();
    ck_assert_int_eq(create_as("shop", LD_ROLE_READ, T0 + 1000, true), 201);
    ck_assert(ld_keys_allow(keys, text, T0 + 999, &caller));
    ck_assert(!ld_keys_allow(keys, text, T0 + 1000, &caller));
    restart();
    ck_assert(!ld_keys_allow(keys, text, T0 + 1000, &caller));
    ck_assert(ld_keys_exist(keys)); /* expired ones count: the door stays shut */
    finish();
}
END_TEST

START_TEST(an_admin_can_always_get_in)
{
    char first[LD_KEY_ID_BYTES];
    start();
    ck_assert_int_eq(create_as("shop", LD_ROLE_MANAGE, 0, false), 409);
    ck_assert_int_eq(create_as("", LD_ROLE_METRICS, 0, false), 409);
    ck_assert_int_eq(create_as("", LD_ROLE_ADMIN, T0 + 5000, false), 409);
    ck_assert(!ld_keys_exist(keys));
    ck_assert_int_eq(create_as("", LD_ROLE_ADMIN, 0, false), 201);
    strcpy(first, made.id);
    ck_assert_int_eq(create_as("shop", LD_ROLE_MANAGE, 0, false), 201);
    ck_assert_int_eq(create_as("", LD_ROLE_METRICS, 0, false), 201);
    ck_assert_int_eq(create_as("", LD_ROLE_ADMIN, T0 + 5000, false), 201);
    ck_assert_int_eq(unmake_as("", first, false), 409);
    ck_assert_int_eq(create_as("", LD_ROLE_ADMIN, 0, false), 201);
    ck_assert_int_eq(unmake_as("", first, false), 204);
    ck_assert_int_eq(unmake_as("", made.id, false), 409);
    ck_assert_int_eq(unmake_as("", made.id, true), 204); /* the key file has one */
    finish();
}
END_TEST

START_TEST(a_tenant_takes_its_keys_along)
{
    start();
    ck_assert_int_eq(create("nobody", LD_ROLE_READ), 404);
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    ck_assert_int_eq(ld_registry_remove(file, "shop"), LD_STORE_OK);
    ld_keys_forget_tenant(keys, "shop");
    ck_assert(!allows(text));
    ck_assert_uint_eq(n_keys("shop"), 0);
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 404);
    ck_assert_int_eq(ld_registry_add(file, "shop", T0), LD_STORE_OK);
    restart();
    ck_assert(!allows(text)); /* the name is another's now */
    ck_assert_uint_eq(n_keys("shop"), 0);
    finish();
}
END_TEST

START_TEST(keys_are_found_among_many_and_their_number_is_bounded)
{
    static char texts[LD_MAX_KEYS][LD_KEY_TEXT_BYTES];
    char id[LD_KEY_ID_BYTES];
    start();
    for (int i = 0; i < LD_MAX_KEYS; i++) {
        ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
        strcpy(texts[i], text);
    }
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 409);
    ck_assert_int_eq(create("other", LD_ROLE_DECIDE), 201);
    for (int i = 0; i < LD_MAX_KEYS; i += 2) {
        ck_assert(ld_secret_id(texts[i], id));
        ck_assert_int_eq(unmake("shop", id), 204);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < LD_MAX_KEYS; i++)
            ck_assert_int_eq(allows(texts[i]), i % 2);
        ck_assert(allows(text));
        ck_assert_uint_eq(n_keys("shop"), LD_MAX_KEYS / 2);
        restart();
    }
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    finish();
}
END_TEST

/* No row is written by a request; a flush writes each use once. */
START_TEST(the_last_use_is_kept_and_written_down_now_and_then)
{
    struct ld_key *list;
    size_t n;
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    ck_assert(!ld_keys_flush_is_due(keys, T0)); /* a minute from now */
    ck_assert(ld_keys_allow(keys, text, T0 + 5000, &caller));
    ck_assert(ld_keys_allow(keys, text, T0 + 5400, &caller)); /* the same second */
    ck_assert_int_eq(ld_keys_list(keys, "shop", &list, &n), 0);
    ck_assert_int_eq(list[0].last_used_at, T0 + 5000);
    free(list);
    ck_assert(!ld_keys_flush_is_due(keys, T0 + 59999));
    ck_assert(ld_keys_flush_is_due(keys, T0 + 60000));
    ck_assert(!ld_keys_flush_is_due(keys, T0 + 60001));
    ck_assert_int_eq(ld_keys_flush(keys), LD_STORE_OK);
    ck_assert(ld_keys_allow(keys, text, T0 + 9000, &caller));
    restart(); /* closing writes the rest */
    ck_assert_int_eq(ld_keys_list(keys, "shop", &list, &n), 0);
    ck_assert_int_eq(list[0].last_used_at, T0 + 9000);
    free(list);
    finish();
}
END_TEST

/* Lets writes of this process beyond a file's first byte fail, or not. */
static void fill_disk(bool is_full)
{
    static struct rlimit all;
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    if (is_full)
        all = limit;
    limit.rlim_cur = is_full ? 1 : all.rlim_cur;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(a_full_disk_changes_nothing)
{
    char kept[LD_KEY_TEXT_BYTES], id[LD_KEY_ID_BYTES];
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    strcpy(kept, text);
    strcpy(id, made.id);
    ck_assert(allows(kept));
    fill_disk(true);
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 503);
    ck_assert(!allows(text));
    ck_assert_int_eq(unmake("shop", id), 503);
    ck_assert(allows(kept));
    ck_assert_int_ne(ld_keys_flush(keys), LD_STORE_OK);
    fill_disk(false);
    ck_assert_uint_eq(n_keys("shop"), 1);
    ck_assert_int_eq(ld_keys_flush(keys), LD_STORE_OK);
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    ck_assert_int_eq(unmake("shop", id), 204);
    restart();
    ck_assert(allows(text));
    ck_assert(!allows(kept));
    finish();
}
END_TEST

/* A file of version 1, as the server before this one left it. */
START_TEST(a_registry_without_keys_gets_their_table)
{
    sqlite3 *db;
    start();
    finish();
    ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/laplaced-keys-XXXXXX")));
    snprintf(path, sizeof path, "%s/registry.db", dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, ld_embed_registry_0001_sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db,
                                  "PRAGMA application_id = 1819308647; PRAGMA user_version = 1;"
                                  "INSERT INTO tenants VALUES ('shop', 1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    open_all();
    ck_assert(!ld_keys_exist(keys));
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    restart();
    ck_assert(allows(text));
    finish();
}
END_TEST

/* A file of version 3 with a key, whose column of patterns is new; then one that has them. */
START_TEST(keys_of_before_span_nothing_and_those_that_do_survive_a_restart)
{
    char old[LD_KEY_TEXT_BYTES], several[LD_KEY_TEXT_BYTES];
    struct ld_key spanning = {.roles = LD_ROLE_DECIDE, .patterns = "home-*,shop"};
    struct ld_problem p;
    sqlite3 *db;
    start();
    ck_assert_int_eq(create("", LD_ROLE_ADMIN), 201);
    strcpy(old, text);
    close_all();
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(
        sqlite3_exec(db, "ALTER TABLE keys DROP COLUMN tenants; PRAGMA user_version = 3", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    open_all();
    ld_problem_init(&p);
    ck_assert_int_eq(ld_keys_create(keys, &spanning, true, T0, &made, several, &p), 0);
    for (int round = 0; round < 2; round++) {
        ck_assert(allows(old));
        ck_assert(ld_caller_spans(&caller, "other") && caller.roles == LD_ALL_ROLES);
        ck_assert(allows(several));
        ck_assert_uint_eq(caller.roles, LD_ROLE_DECIDE);
        ck_assert(ld_caller_spans(&caller, "home-") && ld_caller_spans(&caller, "home-a") &&
                  ld_caller_spans(&caller, "shop"));
        ck_assert(!ld_caller_spans(&caller, "home") && !ld_caller_spans(&caller, "shops") &&
                  !ld_caller_spans(&caller, "sho") && !ld_caller_spans(&caller, "other"));
        restart();
    }
    spanning.roles |= LD_ROLE_READ; /* which the table refuses, whoever would ask */
    ld_problem_init(&p);
    ck_assert_int_eq(ld_keys_create(keys, &spanning, true, T0, &made, several, &p), -1);
    finish();
}
END_TEST

/* Readers while keys come and go: a key that stays opens always, one that is gone never. For ThreadSanitizer as well.
 */
static char steady[LD_KEY_TEXT_BYTES];
static atomic_bool is_over;

static void *ask(void *arg)
{
    struct ld_caller who;
    size_t n = 0;
    (void)arg;
    for (; !atomic_load(&is_over); n++)
        ck_assert(ld_keys_allow(keys, steady, T0 + (int64_t)n * 500, &who));
    return NULL;
}

START_TEST(requests_go_on_while_keys_change)
{
    pthread_t thread[3];
    start();
    ck_assert_int_eq(create("shop", LD_ROLE_READ), 201);
    strcpy(steady, text);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, ask, NULL), 0);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(create("other", LD_ROLE_READ), 201);
        ck_assert(allows(text));
        ck_assert_int_eq(ld_keys_flush(keys), LD_STORE_OK);
        ck_assert_int_eq(unmake("other", made.id), 204);
        ck_assert(!allows(text));
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    finish();
}
END_TEST

/* Keys are made while their tenant goes and its name is used again: none of before opens what comes after. */
static atomic_bool is_gone;

static void *make_many(void *arg)
{
    struct ld_key key, old_wish = {.roles = LD_ROLE_READ, .tenant = "shop"};
    struct ld_problem p;
    char(*texts)[LD_KEY_TEXT_BYTES] = arg;
    for (int i = 0; i < 50 && !atomic_load(&is_gone); i++) {
        ld_problem_init(&p);
        (void)ld_keys_create(keys, &old_wish, true, T0, &key, texts[i], &p);
    }
    return NULL;
}

START_TEST(a_name_that_is_used_again_has_no_key_of_before)
{
    static char texts[50][LD_KEY_TEXT_BYTES];
    const struct timespec ms = {.tv_nsec = 1000000};
    start();
    for (int round = 0; round < 10; round++) {
        pthread_t maker;
        memset(texts, 0, sizeof texts);
        atomic_store(&is_gone, false);
        ck_assert_int_eq(pthread_create(&maker, NULL, make_many, texts), 0);
        nanosleep(&ms, NULL);
        ck_assert_int_eq(ld_registry_remove(file, "shop"), LD_STORE_OK);
        ld_keys_forget_tenant(keys, "shop");
        atomic_store(&is_gone, true);
        pthread_join(maker, NULL);
        for (int i = 0; i < 50; i++)
            ck_assert(!allows(texts[i]));
        ck_assert_int_eq(ld_registry_add(file, "shop", T0), LD_STORE_OK);
        ck_assert_uint_eq(n_keys("shop"), 0);
        restart();
        ck_assert_uint_eq(n_keys("shop"), 0);
    }
    finish();
}
END_TEST

/* --- bodies ------------------------------------------------------------------------------------------- */

static struct ld_problem problem;
static struct ld_key wish;

static int decode(const char *body, bool is_tenants)
{
    struct ld_doc *doc = NULL;
    ld_problem_init(&problem);
    int rc = ld_doc_parse(&doc, body, strlen(body), false, &problem);
    if (rc == 0)
        rc = ld_decode_key(doc, is_tenants, T0, &wish, &problem);
    ld_doc_free(doc);
    return rc;
}

START_TEST(bodies_say_roles_label_and_expiry)
{
    ck_assert_int_eq(decode("{}", false), 0);
    ck_assert_uint_eq(wish.roles, LD_ROLE_ADMIN);
    ck_assert_int_eq(wish.expires_at, 0);
    ck_assert_int_eq(decode("{\"roles\":[\"metrics\"]}", false), 0);
    ck_assert_uint_eq(wish.roles, LD_ROLE_METRICS);
    ck_assert_int_eq(decode("{\"roles\":[\"read\",\"decide\"],\"label\":\"w\xc3\xa9\",\"expires_in_s\":60}", true), 0);
    ck_assert_uint_eq(wish.roles, LD_ROLE_DECIDE | LD_ROLE_READ);
    ck_assert_str_eq(wish.label, "w\xc3\xa9");
    ck_assert_int_eq(wish.expires_at, T0 + 60000);
}
END_TEST

START_TEST(faults_of_a_body_are_named)
{
    static const struct {
        const char *body;
        bool is_tenants;
        const char *pointer;
    } bad[] = {
        {"{}", true, "/roles"},
        {"{\"roles\":[]}", true, "/roles"},
        {"{\"roles\":\"read\"}", true, "/roles"},
        {"{\"roles\":[\"read\",\"admin\"]}", true, "/roles/1"},
        {"{\"roles\":[\"metrics\"]}", true, "/roles/0"},
        {"{\"roles\":[\"read\",\"read\"]}", true, "/roles/1"},
        {"{\"roles\":[1]}", true, "/roles/0"},
        {"{\"roles\":[\"Read\"]}", true, "/roles/0"},
        {"{\"roles\":[\"read\"]}", false, "/roles/0"},
        {"{\"role\":[\"read\"]}", false, "/role"},
        {"{\"label\":\"\"}", false, "/label"},
        {"{\"label\":\"a\\nb\"}", false, "/label"},
        {"{\"label\":\"x2345678901234567890123456789012345678901234567890123456789012345\"}", false, "/label"},
        {"{\"expires_in_s\":0}", false, "/expires_in_s"},
        {"{\"expires_in_s\":1.5}", false, "/expires_in_s"},
        {"{\"expires_in_s\":3153600001}", false, "/expires_in_s"},
        {"[]", false, ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(decode(bad[i].body, bad[i].is_tenants) == -1, "%s", bad[i].body);
        ck_assert_int_eq(problem.status, 400);
        ck_assert_uint_eq(problem.n_errors, 1);
        ck_assert_msg(strcmp(problem.errors[0].pointer, bad[i].pointer) == 0, "%s: %s", bad[i].body,
                      problem.errors[0].pointer);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "keys", a_key_opens_what_it_was_made_for_and_survives_a_restart, nothing_else_opens,
        a_secret_of_one_key_does_not_open_by_the_id_of_another, the_file_has_the_hash_and_not_the_key,
        a_revoked_key_opens_nothing_at_once_and_after_a_restart, an_expired_key_opens_nothing,
        an_admin_can_always_get_in, a_tenant_takes_its_keys_along,
        keys_are_found_among_many_and_their_number_is_bounded, the_last_use_is_kept_and_written_down_now_and_then,
        a_full_disk_changes_nothing, a_registry_without_keys_gets_their_table,
        keys_of_before_span_nothing_and_those_that_do_survive_a_restart, requests_go_on_while_keys_change,
        a_name_that_is_used_again_has_no_key_of_before, bodies_say_roles_label_and_expiry, faults_of_a_body_are_named);
}
