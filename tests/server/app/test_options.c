/* Options: the order of the sources, ranges, and errors that say where. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kbt.h"
#include "base/log.h"
#include "app/options.h"

static struct ld_options o;
static struct ld_message why;

/* A pretended environment: pairs of name and value. */
static const char *environment[8];

static char *env_of(const char *name)
{
    for (size_t i = 0; environment[i] != NULL; i += 2)
        if (strcmp(environment[i], name) == 0)
            return (char *)(uintptr_t)environment[i + 1];
    return NULL;
}

static void set_env(const char *name, const char *value)
{
    environment[0] = name;
    environment[1] = value;
    environment[2] = NULL;
}

/* Up to four arguments. */
static int parse(const char *a, const char *b, const char *c, const char *d)
{
    const char *args[] = {"laplaced", a, b, c, d, NULL};
    int n = 1;
    char *argv[6] = {NULL};
    why.text[0] = '\0';
    while (args[n] != NULL)
        n++;
    for (int i = 0; i < n; i++)
        argv[i] = strdup(args[i]);
    int rc = ld_options_parse(&o, n, argv, env_of, &why);
    for (int i = 0; i < n; i++)
        free(argv[i]);
    return rc;
}

static void write_file(char path[64], const char *text)
{
    strcpy(path, "/tmp/laplaced-options-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
}

START_TEST(defaults_are_valid_and_in_force)
{
    ck_assert_msg(parse(NULL, NULL, NULL, NULL) == 0, "%s", why.text);
    ck_assert_str_eq(o.listen, "127.0.0.1:8080");
    ck_assert_str_eq(o.data, "./data");
    ck_assert_str_eq(o.admin_key_file, "");
    ck_assert_uint_eq(o.max_body, 1u << 20);
    ck_assert_uint_eq(o.max_bulk_body, 256u << 20);
    ck_assert_uint_eq(o.log_level, LD_LOG_INFO);
    ck_assert_uint_eq(o.drain_timeout_s, 30);
    ck_assert_uint_ge(o.threads, 1);
    ck_assert(!o.is_verifying);
    ck_assert_int_eq(o.action, LD_DO_SERVE);
    ck_assert_int_eq(ld_options_check(&o, &why), 0);
}
END_TEST

START_TEST(flag_beats_environment_beats_file_beats_default)
{
    char path[64];
    write_file(path, "# a comment\n\n  timeout = 7\nmax-queue=70\nmax-pending = 700\n");
    set_env("LAPLACED_TIMEOUT", "8");
    environment[2] = "LAPLACED_MAX_QUEUE";
    environment[3] = "80";
    environment[4] = NULL;
    ck_assert_msg(parse("--config", path, "--timeout", "9") == 0, "%s", why.text);
    ck_assert_uint_eq(o.timeout_s, 9);
    ck_assert_uint_eq(o.max_queue, 80);
    ck_assert_uint_eq(o.max_pending, 700);
    ck_assert_uint_eq(o.snapshot_events, 10000);
    unlink(path);
}
END_TEST

START_TEST(configuration_file_may_be_named_by_the_environment)
{
    char path[64];
    write_file(path, "data = /srv/x\n");
    set_env("LAPLACED_CONFIG", path);
    ck_assert_msg(parse(NULL, NULL, NULL, NULL) == 0, "%s", why.text);
    ck_assert_str_eq(o.data, "/srv/x");
    unlink(path);
}
END_TEST

START_TEST(flags_take_their_value_behind_a_blank_or_an_equals_sign)
{
    ck_assert_int_eq(parse("--timeout=5", "--data", "/d=e", "--verify"), 0);
    ck_assert_uint_eq(o.timeout_s, 5);
    ck_assert_str_eq(o.data, "/d=e");
    ck_assert(o.is_verifying);
    ck_assert_int_eq(parse("--verify=no", NULL, NULL, NULL), 0);
    ck_assert(!o.is_verifying);
}
END_TEST

START_TEST(sizes_take_units)
{
    ck_assert_int_eq(parse("--max-body", "64k", "--max-bulk-body", "1G"), 0);
    ck_assert_uint_eq(o.max_body, 65536);
    ck_assert_uint_eq(o.max_bulk_body, 1u << 30);
}
END_TEST

START_TEST(empty_variable_counts_as_unset)
{
    set_env("LAPLACED_DATA", "");
    ck_assert_int_eq(parse(NULL, NULL, NULL, NULL), 0);
    ck_assert_str_eq(o.data, "./data");
}
END_TEST

START_TEST(bad_flags_are_named)
{
    static const struct {
        const char *a, *b, *said;
    } bad[] = {
        {"--nonsense", NULL, "unknown option \"--nonsense\""},
        {"stray", NULL, "unknown option \"stray\""},
        {"--timeout", NULL, "--timeout: a value must follow"},
        {"--timeout", "0", "--timeout: expected a whole number from 1 to 3600, got \"0\""},
        {"--timeout", "3601", "3600"},
        {"--timeout", "-1", "whole number"},
        {"--timeout", "5s", "whole number"},
        {"--timeout", "5k", "whole number"}, /* units are for sizes */
        {"--max-body", "99999999999999999999", "whole number"},
        {"--max-body", "18014398509481984M", "whole number"}, /* overflows when scaled */
        {"--verify=perhaps", NULL, "expected true or false"},
        {"--log-level", "loud", "debug, info, warn or error"},
        {"--listen", "example.org:80", "numeric HOST:PORT"},
        {"--listen", "127.0.0.1", "numeric HOST:PORT"},
        {"--listen", "127.0.0.1:65536", "numeric HOST:PORT"},
        {"--listen", "::1:8080", "numeric HOST:PORT"},
        {"--data", "", "--data: expected a text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(parse(bad[i].a, bad[i].b, NULL, NULL) == -1, "%s was taken", bad[i].a);
        ck_assert_msg(strstr(why.text, bad[i].said) != NULL, "%s: \"%s\"", bad[i].a, why.text);
    }
}
END_TEST

START_TEST(bad_lines_are_named_by_file_and_number)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"timeout = 3\nmax-queue 5\n", ":2: expected NAME = VALUE"},
        {"\n\nqueue = 5\n", ":3: unknown option \"queue\""},
        {"timeout = x\n", ":1: timeout: expected a whole number"},
        {"config = /other\n", ":1: unknown option \"config\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[64];
        write_file(path, bad[i].text);
        ck_assert_int_eq(parse("--config", path, NULL, NULL), -1);
        ck_assert_msg(strstr(why.text, bad[i].said) != NULL && strstr(why.text, path) == why.text, "\"%s\"", why.text);
        unlink(path);
    }
    ck_assert_int_eq(parse("--config", "/nonexistent/file", NULL, NULL), -1);
    ck_assert_ptr_nonnull(strstr(why.text, "/nonexistent/file"));
}
END_TEST

START_TEST(bad_variables_are_named)
{
    set_env("LAPLACED_MAX_CONNECTIONS", "many");
    ck_assert_int_eq(parse(NULL, NULL, NULL, NULL), -1);
    ck_assert_ptr_nonnull(strstr(why.text, "environment variable LAPLACED_MAX_CONNECTIONS: expected a whole number"));
}
END_TEST

START_TEST(actions_are_recognised)
{
    set_env("LAPLACED_TIMEOUT", "nonsense"); /* --help helps even then */
    ck_assert_int_eq(parse("--help", NULL, NULL, NULL), 0);
    ck_assert_int_eq(o.action, LD_DO_HELP);
    ck_assert_int_eq(parse("--version", NULL, NULL, NULL), 0);
    ck_assert_int_eq(o.action, LD_DO_VERSION);
    environment[0] = NULL;
    ck_assert_int_eq(parse("--check-config", "--timeout", "4", NULL), 0);
    ck_assert_int_eq(o.action, LD_DO_CHECK);
    ck_assert_uint_eq(o.timeout_s, 4);
}
END_TEST

START_TEST(reachable_addresses_want_keys)
{
    static const char *const reachable[] = {"0.0.0.0:80", "[::]:80", "10.1.2.3:80", "[::ffff:10.1.2.3]:80",
                                            "128.0.0.1:80"};
    static const char *const local[] = {"127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "localhost:80",
                                        "[::ffff:127.0.0.1]:80"};
    set_env("LAPLACED_DATA", "/dev/null/data"); /* nobody's folder, with or without keys */
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(parse("--listen", reachable[i], NULL, NULL), 0);
        ck_assert_msg(ld_options_check(&o, &why) == -1, "%s", reachable[i]);
        ck_assert_ptr_nonnull(strstr(why.text, "--admin-key-file"));
        ck_assert_int_eq(parse("--listen", reachable[i], "--admin-key-file", "k"), 0);
        ck_assert_int_eq(ld_options_check(&o, &why), 0);
        ck_assert_int_eq(parse("--listen", local[i], NULL, NULL), 0);
        ck_assert_msg(ld_options_check(&o, &why) == 0, "%s", local[i]);
    }
    environment[0] = NULL;
}
END_TEST

/* Whether there are keys in a folder only the start can tell; where there is no registry there are none. */
START_TEST(a_folder_that_may_have_keys_is_left_to_the_start)
{
    char dir[] = "/tmp/laplaced-options-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/registry.db", dir);
    ck_assert_int_eq(parse("--listen", "0.0.0.0:80", "--data", dir), 0);
    ck_assert_int_eq(ld_options_check(&o, &why), -1);
    fclose(fopen(path, "w"));
    ck_assert_int_eq(ld_options_check(&o, &why), 0);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* What --check-config prints is a configuration file that gives the same options. */
START_TEST(printed_options_read_back)
{
    char path[64];
    ck_assert_int_eq(parse("--max-body=2M", "--log-level=error", "--listen=[::1]:99", "--verify"), 0);
    struct ld_options before = o;
    write_file(path, "");
    FILE *f = fopen(path, "w");
    ld_options_print(&o, f);
    fclose(f);
    ck_assert_msg(parse("--config", path, NULL, NULL) == 0, "%s", why.text);
    memcpy(o.config, before.config, sizeof o.config);
    memcpy(o.source, before.source, sizeof o.source);
    ck_assert_mem_eq(&o, &before, sizeof o);
    unlink(path);
}
END_TEST

START_TEST(help_tells_every_option_with_variable_and_default)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    ld_options_help(f);
    fclose(f);
    static const char *const said[] = {"--admin-key-file FILE", "LAPLACED_ADMIN_KEY_FILE", "--max-bulk-body BYTES",
                                       "default 256M",          "--check-config",          "LAPLACED_VERIFY"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        ck_assert_msg(strstr(text, said[i]) != NULL, "%s", said[i]);
    free(text);
}
END_TEST

int main(void)
{
    return KBT_RUN("options", defaults_are_valid_and_in_force, flag_beats_environment_beats_file_beats_default,
                   configuration_file_may_be_named_by_the_environment,
                   flags_take_their_value_behind_a_blank_or_an_equals_sign, sizes_take_units,
                   empty_variable_counts_as_unset, bad_flags_are_named, bad_lines_are_named_by_file_and_number,
                   bad_variables_are_named, actions_are_recognised, reachable_addresses_want_keys,
                   a_folder_that_may_have_keys_is_left_to_the_start, printed_options_read_back,
                   help_tells_every_option_with_variable_and_default);
}
