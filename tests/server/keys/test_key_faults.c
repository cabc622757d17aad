/* Keys on a disk that fails at any call: the first, the second, ... until none does. A change is acknowledged or
 * refused; memory and file agree on which, also for a process that begins on the files as they are at that moment (a
 * crash). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_vfs.h"
#include "kbt.h"
#include "keys/keys.h"
#include "base/log.h"
#include "kbt_files.h"

#define T0 1700000000000
#define MOST_CALLS 200

/* In place of the C library's, for what is synced by other hands than SQLite's (fault_vfs.h). */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

static const enum fault_kind kinds[] = {FAULT_WRITE, FAULT_SHORT, FAULT_FULL,     FAULT_SYNC,
                                        FAULT_SHM,   FAULT_READ,  FAULT_TRUNCATE, FAULT_OPEN};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* A registry and its table of keys: the one that serves, or one that begins on a copy of its files. */
struct shelf {
    char dir[64], path[96];
    struct ld_registry_file *file;
    struct ld_keys *keys;
};

static struct shelf live;
static struct ld_message why;

static void make_dir(struct shelf *s)
{
    strcpy(s->dir, "/tmp/laplaced-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(s->dir));
    snprintf(s->path, sizeof s->path, "%s/registry.db", s->dir);
}

static int open_shelf(struct shelf *s)
{
    s->keys = NULL;
    s->file = NULL;
    if (ld_registry_open(&s->file, s->path, &why) != LD_STORE_OK)
        return -1;
    if (ld_keys_open(&s->keys, s->file, NULL, false, &why) == 0)
        return 0;
    ld_registry_close(s->file);
    s->file = NULL;
    return -1;
}

static void close_shelf(struct shelf *s)
{
    if (s->keys != NULL)
        ld_keys_close(s->keys);
    if (s->file != NULL)
        ld_registry_close(s->file);
}

static void remove_shelf(struct shelf *s)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[128];

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", s->path, suffixes[i]);
        unlink(name);
    }
    ck_assert_int_eq(rmdir(s->dir), 0);
}

/* The files as a killed process leaves them: the -shm is made anew by whoever comes next. */
static void copy_shelf(struct shelf *image)
{
    char from[128], to[128];

    make_dir(image);
    kbt_copy_file(live.path, image->path);
    snprintf(from, sizeof from, "%s-wal", live.path);
    snprintf(to, sizeof to, "%s-wal", image->path);
    kbt_copy_file(from, to);
}

/* ---- what keys there are ------------------------------------------------------------------------------------- */

struct made {
    struct ld_key key;
    char text[LD_KEY_TEXT_BYTES];
};

/* 201 or the problem's status. */
static int create_key(struct made *m, const char *tenant)
{
    struct ld_key wish = {.roles = tenant[0] != '\0' ? LD_ROLE_READ : LD_ROLE_ADMIN};
    struct ld_problem p;

    ld_problem_init(&p);
    strcpy(wish.tenant, tenant);
    return ld_keys_create(live.keys, &wish, true, T0, &m->key, m->text, &p) == 0 ? 201 : p.status;
}

static int unmake(const struct made *m)
{
    struct ld_problem p;

    ld_problem_init(&p);
    return ld_keys_revoke(live.keys, m->key.tenant, m->key.id, true, &p) == 0 ? 204 : p.status;
}

static bool opens(struct shelf *s, const struct made *m)
{
    struct ld_caller caller;

    return ld_keys_allow(s->keys, m->text, T0 + 1000, &caller);
}

static size_t count(struct shelf *s, const char *tenant)
{
    struct ld_key *list;
    size_t n;

    ck_assert_int_eq(ld_keys_list(s->keys, tenant, &list, &n), 0);
    free(list);
    return n;
}

/* With a sound disk. m's key opens as it should, and there are n of its tenant's: here, and after a crash. */
static void check(const struct made *m, bool is_there, size_t n, const char *what, size_t at)
{
    const enum fault_kind kind = fault.kind;
    struct shelf image;

    fault.kind = FAULT_NONE;
    copy_shelf(&image);
    ck_assert_msg(open_shelf(&image) == 0, "%s at %zu: %s", what, at, why.text);
    ck_assert_msg(opens(&live, m) == is_there && count(&live, m->key.tenant) == n, "%s at %zu: in memory", what, at);
    ck_assert_msg(opens(&image, m) == is_there && count(&image, m->key.tenant) == n, "%s at %zu: in the file", what,
                  at);
    close_shelf(&image);
    remove_shelf(&image);
    fault.kind = kind;
}

/* ---- changes ------------------------------------------------------------------------------------------------- */

static struct made first, second, servers;

/* A registry with the tenant `shop`, which has one key, and one key of the server. */
static void start(void)
{
    ld_log_set_level(LD_LOG_N);
    make_dir(&live);
    ck_assert_msg(open_shelf(&live) == 0, "%s", why.text);
    ck_assert_int_eq(ld_registry_add(live.file, "shop", T0), LD_STORE_OK);
    ck_assert_int_eq(create_key(&first, "shop"), 201);
    ck_assert_int_eq(create_key(&servers, ""), 201);
}

static void finish(void)
{
    close_shelf(&live);
    remove_shelf(&live);
}

/* One key more, and one less. True when the fault was met. */
static bool change_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    const char *what = fault_names[kind];

    start();
    second = (struct made){.text = "lpd_"};
    fault_arm(kind, n, is_lasting);
    const int made = create_key(&second, "shop");
    ck_assert_msg(made == 201 || made == 503, "%s at %zu: %d", what, n, made);
    strcpy(second.key.tenant, "shop");
    check(&second, made == 201, made == 201 ? 2 : 1, what, n);
    const int gone = unmake(&first);
    ck_assert_msg(gone == 204 || gone == 503, "%s at %zu: %d", what, n, gone);
    const size_t left = (made == 201 ? 2U : 1U) - (gone == 204);
    check(&first, gone != 204, left, what, n);
    const bool has_failed = fault_disarm();

    /* The disk is whole again: all goes on. */
    if (gone != 204)
        ck_assert_msg(unmake(&first) == 204, "%s at %zu", what, n);
    ck_assert_msg(create_key(&second, "shop") == 201, "%s at %zu", what, n);
    check(&second, true, made == 201 ? 2 : 1, what, n);
    check(&first, false, made == 201 ? 2 : 1, what, n);
    check(&servers, true, 1, what, n);
    finish();
    return has_failed;
}

START_TEST(a_key_is_made_or_not_and_revoked_or_not_wherever_the_disk_fails)
{
    const enum fault_kind kind = kinds[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && change_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
    if (kind <= FAULT_SYNC)
        ck_assert_uint_ge(n, 2); /* each of both changes writes and syncs */
}
END_TEST

/* Of the tenant that goes no key stays; where it could not go, all do. */
static bool remove_tenant_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    start();
    fault_arm(kind, n, is_lasting);
    const int status = ld_registry_remove(live.file, "shop");
    if (status == LD_STORE_OK)
        ld_keys_forget_tenant(live.keys, "shop");
    const bool has_failed = fault_disarm();
    check(&first, status != LD_STORE_OK, status != LD_STORE_OK, fault_names[kind], n);
    check(&servers, true, 1, fault_names[kind], n);
    ck_assert_int_eq(create_key(&second, "shop"), status == LD_STORE_OK ? 404 : 201);
    finish();
    return has_failed;
}

START_TEST(a_tenant_and_its_keys_go_together_or_not_wherever_the_disk_fails)
{
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && remove_tenant_under(kinds[_i / 2], n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
}
END_TEST

/* Whether the file knows that the tenant's key was used. */
static bool has_use_after_crash(void)
{
    struct shelf image;
    struct ld_key *list;
    size_t n;

    copy_shelf(&image);
    ck_assert_int_eq(open_shelf(&image), 0);
    ck_assert_int_eq(ld_keys_list(image.keys, "shop", &list, &n), 0);
    const bool is_used = n == 1 && list[0].last_used_at >= T0;
    free(list);
    close_shelf(&image);
    remove_shelf(&image);
    return is_used;
}

/* What could not be written down is written by the next call, and no key suffers. */
static bool use_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    start();
    ck_assert(opens(&live, &first) && opens(&live, &servers));
    fault_arm(kind, n, is_lasting);
    const int status = ld_keys_flush(live.keys);
    const bool has_failed = fault_disarm();
    ck_assert_msg((status == LD_STORE_OK) == has_use_after_crash(), "%s at %zu: %d", fault_names[kind], n, status);
    check(&first, true, 1, fault_names[kind], n);
    ck_assert_int_eq(ld_keys_flush(live.keys), LD_STORE_OK);
    ck_assert(has_use_after_crash());
    finish();
    return has_failed;
}

START_TEST(a_last_use_that_could_not_be_written_is_written_later)
{
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && use_under(kinds[_i / 2], n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
}
END_TEST

/* A start reads all keys, or says why it cannot: it must not serve with fewer, lest the last of them open the door. */
static bool open_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct shelf image;

    copy_shelf(&image);
    why.text[0] = '\0';
    fault_arm(kind, n, is_lasting);
    const int rc = open_shelf(&image);
    const bool has_failed = fault_disarm();
    if (rc == 0) {
        ck_assert_msg(opens(&image, &first) && opens(&image, &servers), "%s at %zu", fault_names[kind], n);
        close_shelf(&image);
    } else
        ck_assert_msg(strstr(why.text, "registry.db") != NULL, "%s at %zu: \"%s\"", fault_names[kind], n, why.text);
    ck_assert_int_eq(open_shelf(&image), 0);
    ck_assert(opens(&image, &first) && opens(&image, &servers));
    close_shelf(&image);
    remove_shelf(&image);
    return has_failed;
}

START_TEST(a_start_has_all_keys_or_says_why_not)
{
    size_t n = 0;

    fault_vfs_install();
    start();
    while (n < MOST_CALLS && open_under(kinds[_i / 2], n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
    finish();
}
END_TEST

int main(void)
{
    const int n = (int)(2 * N_KINDS);

    return KBT_RUN_TIMES("key faults", 0, {a_key_is_made_or_not_and_revoked_or_not_wherever_the_disk_fails, n},
                         {a_tenant_and_its_keys_go_together_or_not_wherever_the_disk_fails, n},
                         {a_last_use_that_could_not_be_written_is_written_later, n},
                         {a_start_has_all_keys_or_says_why_not, n});
}
