/* The registry: which tenants there are after starts, creations, removals and interruptions. */
#include <pthread.h>

#include "base/limit.h"
#include "tenants/registry.h"
#include "store/store.h"
#include "tenant_fixture.h"

static struct fixture f;
static struct ld_tenants *tenants;

/* A folder without anything in it. */
static void new_folder(void)
{
    fixture_world(&f);
    remove_dir(f.dir);
}

static void start(void)
{
    struct ld_message why = {""};

    ck_assert_msg(ld_tenants_open(&tenants, &f.world, &why) == 0, "%s", why.text);
}

static void restart(void)
{
    ld_tenants_close(tenants);
    start();
}

static void finish(void)
{
    ld_tenants_close(tenants);
    remove_dir(f.dir);
}

static int create(const char *name)
{
    const struct ld_settings settings = fixture_settings("{\"algorithm\":\"ucb\"}");
    struct ld_problem problem;

    ld_problem_init(&problem);
    return ld_tenants_create(tenants, name, &settings, &problem) == 0 ? 201 : problem.status;
}

static int delete (const char *name)
{
    struct ld_problem problem;

    ld_problem_init(&problem);
    return ld_tenants_delete(tenants, name, &problem) == 0 ? 204 : problem.status;
}

static bool is_there(const char *name)
{
    struct ld_tenant *t = ld_tenants_find(tenants, name);

    ld_tenant_release(t);
    return t != NULL;
}

static void add_name(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t, const char *why)
{
    (void)state;
    (void)t;
    (void)why;
    strcat(strcat(arg, name), " ");
}

static const char *names_of(const char *only)
{
    static char text[512];

    text[0] = '\0';
    ck_assert(ld_tenants_list(tenants, only, add_name, text));
    return text;
}

static const char *names(void)
{
    return names_of("");
}

static void decide(const char *name, const char *id)
{
    struct ld_tenant *t = ld_tenants_find(tenants, name);

    ck_assert_ptr_nonnull(t);
    expect_status(t, op_select(t, "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"]}", id), 200);
    ld_tenant_release(t);
}

static uint64_t n_decided(const char *name)
{
    struct ld_tenant *t = ld_tenants_find(tenants, name);
    const uint64_t n = counts_of(t).decided;

    ld_tenant_release(t);
    return n;
}

START_TEST(a_new_folder_has_the_tenant_default)
{
    new_folder();
    start();
    ck_assert_str_eq(names(), "default ");
    decide("default", "d");
    restart();
    ck_assert_str_eq(names(), "default ");
    ck_assert_uint_eq(n_decided("default"), 1);
    ck_assert_int_eq(delete ("default"), 204);
    restart();
    ck_assert_str_eq(names(), ""); /* only a new folder gets one */
    finish();
}
END_TEST

START_TEST(tenants_are_listed_by_name_and_survive_restarts)
{
    new_folder();
    start();
    ck_assert_int_eq(create("zeta"), 201);
    ck_assert_int_eq(create("alpha"), 201);
    ck_assert_int_eq(create("a.b-c_9"), 201);
    ck_assert_int_eq(create("alpha"), 409);
    ck_assert_str_eq(names(), "a.b-c_9 alpha default zeta ");
    decide("alpha", "d");
    restart();
    ck_assert_str_eq(names(), "a.b-c_9 alpha default zeta ");
    ck_assert_str_eq(names_of("alpha"), "alpha ");
    ck_assert_str_eq(names_of("alph"), "");
    ck_assert_str_eq(names_of("zz"), "");
    ck_assert_uint_eq(n_decided("alpha"), 1);
    ck_assert_uint_eq(n_decided("zeta"), 0);
    ck_assert(!is_there("alph"));
    ck_assert(!is_there("alphax"));
    finish();
}
END_TEST

START_TEST(names_that_are_no_file_names_are_refused)
{
    static const char *const wrong[] = {
        "",        ".",        "..",     "../up",
        ".hidden", "-dash",    "_under", "a/b",
        "a b",     "\xc3\xa4", "a\n",    "x23456789012345678901234567890123456789012345678901234567890123456" /* 67 */};

    new_folder();
    start();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(create(wrong[i]) == 400, "'%s'", wrong[i]);
    ck_assert_int_eq(create("x234567890123456789012345678901234567890123456789012345678901234"), 201);
    finish();
}
END_TEST

START_TEST(a_second_server_on_the_folder_is_refused)
{
    struct ld_tenants *second = NULL;
    struct ld_message why = {""};

    new_folder();
    start();
    ck_assert_int_eq(ld_tenants_open(&second, &f.world, &why), -1);
    ck_assert_msg(strstr(why.text, f.dir) != NULL && strstr(why.text, "another server") != NULL, "%s", why.text);
    decide("default", "d");
    ld_tenants_close(tenants);
    start(); /* the lock went with its owner */
    ck_assert_uint_eq(n_decided("default"), 1);
    finish();
}
END_TEST

static void *delete_in_thread(void *arg)
{
    *(int *)arg = delete ("x");
    return NULL;
}

START_TEST(a_tenant_deleted_while_held_stays_usable_until_released)
{
    pthread_t thread;
    int status = 0;

    new_folder();
    start();
    ck_assert_int_eq(create("x"), 201);
    struct ld_tenant *t = ld_tenants_find(tenants, "x");
    decide("x", "d");
    ck_assert_int_eq(pthread_create(&thread, NULL, delete_in_thread, &status), 0);
    while (is_there("x"))
        usleep(1000);
    ck_assert_int_eq(create("x"), 409); /* its files are still there */
    ck_assert_uint_eq(counts_of(t).decided, 1);
    expect_status(t, op_select(t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "e"), 404);
    ck_assert(fixture_has_file(&f, "tenants/x.db"));
    ck_assert(fixture_has_file(&f, "tenants/x.db.deleted")); /* from here on a crash cannot bring it back */
    ld_tenant_release(t);
    pthread_join(thread, NULL);
    ck_assert_int_eq(status, 204);
    ck_assert(!fixture_has_file(&f, "tenants/x.db"));
    ck_assert(!fixture_has_file(&f, "tenants/x.db.deleted"));
    ck_assert_int_eq(delete ("x"), 404);
    ck_assert_int_eq(create("x"), 201);
    ck_assert_uint_eq(n_decided("x"), 0);
    finish();
}
END_TEST

/* What a crash between the marker and the removal of the files leaves. */
START_TEST(an_interrupted_removal_is_finished_by_the_next_start)
{
    char path[128];

    new_folder();
    start();
    ck_assert_int_eq(create("x"), 201);
    decide("x", "d");
    ld_tenants_close(tenants);
    snprintf(path, sizeof path, "%s/tenants/x.db.deleted", f.dir);
    fclose(fopen(path, "w"));
    start();
    ck_assert_str_eq(names(), "default ");
    ck_assert(!fixture_has_file(&f, "tenants/x.db"));
    ck_assert(!fixture_has_file(&f, "tenants/x.db.deleted"));
    ck_assert_int_eq(create("x"), 201);
    ck_assert_uint_eq(n_decided("x"), 0);
    finish();
}
END_TEST

static void copy_file(const char *from, const char *to)
{
    char command[256];

    snprintf(command, sizeof command, "cp %s/tenants/%s %s/tenants/%s", f.dir, from, f.dir, to);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(a_file_copied_into_the_folder_is_taken_in)
{
    new_folder();
    start();
    decide("default", "d");
    ld_tenants_close(tenants);
    copy_file("default.db", "copy.db");
    start();
    ck_assert_str_eq(names(), "copy default ");
    ck_assert_uint_eq(n_decided("copy"), 1);
    decide("copy", "e");
    restart();
    ck_assert_uint_eq(n_decided("copy"), 2);
    ck_assert_uint_eq(n_decided("default"), 1);
    finish();
}
END_TEST

START_TEST(a_tenant_without_its_file_stops_a_start_that_opens_all)
{
    struct ld_tenants *none = NULL;
    char path[128];
    struct ld_message why = {""};

    new_folder();
    start();
    ck_assert_int_eq(create("x"), 201);
    ld_tenants_close(tenants);
    snprintf(path, sizeof path, "%s/tenants/x.db", f.dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(ld_tenants_open(&none, &f.world, &why), 0);
    ck_assert_int_eq(ld_tenants_open_all(none, &why), -1);
    ld_tenants_close(none);
    ck_assert_msg(strstr(why.text, "x.db") != NULL, "%s", why.text);
    ck_assert(!fixture_has_file(&f, "tenants/x.db"));
    remove_dir(f.dir);
}
END_TEST

START_TEST(a_damaged_file_stops_a_start_that_opens_all_and_keeps_its_bytes)
{
    struct ld_tenants *none = NULL;
    char path[128], bytes[16] = "";
    struct ld_message why = {""};
    FILE *file;

    new_folder();
    start();
    ld_tenants_close(tenants);
    snprintf(path, sizeof path, "%s/tenants/default.db", f.dir);
    file = fopen(path, "w");
    fputs("not a database", file);
    fclose(file);
    ck_assert_int_eq(ld_tenants_open(&none, &f.world, &why), 0);
    ck_assert_int_eq(ld_tenants_open_all(none, &why), -1);
    ld_tenants_close(none);
    ck_assert_msg(strstr(why.text, "default.db") != NULL, "%s", why.text);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(bytes, sizeof bytes, file));
    fclose(file);
    ck_assert_str_eq(bytes, "not a database");
    remove_dir(f.dir);
}
END_TEST

START_TEST(a_rate_that_cannot_be_kept_is_refused_and_shows_in_readiness)
{
    const struct ld_rate own = {.rate = 3, .burst = 30};
    struct ld_rate limit;
    struct ld_problem problem;
    char path[96], away[96];
    bool is_own = true;
    double fill;

    new_folder();
    start();
    snprintf(path, sizeof path, "%s/registry.db", f.dir);
    snprintf(away, sizeof away, "%s/away", f.dir);
    ck_assert_int_eq(rename(path, away), 0);
    ld_problem_init(&problem);
    ld_tenants_set_rate(tenants, "default", &own, &problem);
    ck_assert_int_eq(problem.status, 503);
    ck_assert(ld_tenants_get_rate(tenants, "default", &limit, &is_own, &fill) && !is_own);
    ck_assert(ld_registry_is_failing(ld_tenants_registry(tenants)));
    ck_assert_int_eq(rename(away, path), 0);
    ck_assert(!ld_registry_is_failing(ld_tenants_registry(tenants)));
    ld_problem_init(&problem);
    ld_tenants_set_rate(tenants, "default", &own, &problem);
    ck_assert_int_eq(problem.status, 0);
    restart();
    ck_assert(ld_tenants_get_rate(tenants, "default", &limit, &is_own, &fill) && is_own);
    ck_assert(limit.rate == 3 && limit.burst == 30);
    finish();
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_named)
{
    struct ld_tenants *none = NULL;
    struct ld_message why = {""};

    fixture_world(&f);
    f.world.data_dir = "/proc/laplaced-no-such-folder";
    ck_assert_int_eq(ld_tenants_open(&none, &f.world, &why), -1);
    ck_assert_msg(strstr(why.text, "/proc/laplaced-no-such-folder") != NULL, "%s", why.text);
    remove_dir(f.dir);
}
END_TEST

START_TEST(closing_leaves_a_snapshot_of_every_tenant_in_memory)
{
    new_folder();
    start();
    ck_assert_int_eq(create("x"), 201);
    decide("x", "d");
    decide("default", "d");
    ld_tenants_close(tenants);
    ck_assert(fixture_has_file(&f, "tenants/x.snapshot"));
    ck_assert(fixture_has_file(&f, "tenants/default.snapshot"));
    remove_dir(f.dir);
}
END_TEST

int main(void)
{
    return KBT_RUN("registry", a_new_folder_has_the_tenant_default, tenants_are_listed_by_name_and_survive_restarts,
                   names_that_are_no_file_names_are_refused, a_second_server_on_the_folder_is_refused,
                   a_tenant_deleted_while_held_stays_usable_until_released,
                   an_interrupted_removal_is_finished_by_the_next_start, a_file_copied_into_the_folder_is_taken_in,
                   a_tenant_without_its_file_stops_a_start_that_opens_all,
                   a_damaged_file_stops_a_start_that_opens_all_and_keeps_its_bytes,
                   a_rate_that_cannot_be_kept_is_refused_and_shows_in_readiness, a_folder_that_cannot_be_made_is_named,
                   closing_leaves_a_snapshot_of_every_tenant_in_memory);
}
