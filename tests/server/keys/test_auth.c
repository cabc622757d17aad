/* Admin keys: reading the file, letting in and out, reloading. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys/auth.h"
#include "kbt.h"
#include "base/log.h"

static char path[64];
static struct ld_message why;

static void write_keys(const char *text)
{
    if (path[0] == '\0') {
        strcpy(path, "/tmp/laplaced-auth-XXXXXX");
        int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static struct ld_auth *open_keys(const char *text)
{
    struct ld_auth *a = NULL;
    ld_log_set_level(LD_LOG_ERROR);
    write_keys(text);
    ck_assert_msg(ld_auth_open(&a, path, &why) == 0, "%s", why.text);
    return a;
}

static void finish(struct ld_auth *a)
{
    ld_auth_close(a);
    unlink(path);
}

START_TEST(keys_are_taken_line_by_line)
{
    struct ld_auth *a = open_keys("# operators\nfirst-key-0123456789\r\n\nsecond-key-9876543210  \n");
    ck_assert(ld_auth_allows(a, "Bearer first-key-0123456789"));
    ck_assert(ld_auth_allows(a, "bearer   second-key-9876543210"));
    finish(a);
}
END_TEST

START_TEST(anything_else_is_kept_out)
{
    struct ld_auth *a = open_keys("first-key-0123456789\n# comment-key\n");
    static const char *const wrong[] = {
        NULL,
        "",
        "Bearer",
        "Bearer ",
        "Bearer first-key-012345678",
        "Bearer first-key-01234567890",
        "Bearer First-key-0123456789",
        "Bearer first-key-0123456789 ",
        "Basic first-key-0123456789",
        "first-key-0123456789",
        "Bearerfirst-key-0123456789",
        "Bearer # comment-key",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!ld_auth_allows(a, wrong[i]), "\"%s\"", wrong[i]);
    finish(a);
}
END_TEST

/* The comparison covers whole blocks: keys that share all but the last byte, and the longest key, are told apart. */
START_TEST(longest_keys_are_compared_to_the_last_byte)
{
    char key[258], header[300];
    memset(key, 'k', 256);
    strcpy(key + 256, "\n");
    struct ld_auth *a = open_keys(key);
    key[256] = '\0';
    snprintf(header, sizeof header, "Bearer %s", key);
    ck_assert(ld_auth_allows(a, header));
    header[strlen(header) - 1] = 'l';
    ck_assert(!ld_auth_allows(a, header));
    header[strlen(header) - 1] = '\0';
    ck_assert(!ld_auth_allows(a, header));
    snprintf(header, sizeof header, "Bearer %sk", key);
    ck_assert(!ld_auth_allows(a, header));
    finish(a);
}
END_TEST

START_TEST(files_without_a_usable_key_are_refused)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"", "holds no key"},
        {"# only a comment\n\n", "holds no key"},
        {"good-key-0123456789\nbad key with blanks\n", ":2: a key holds visible ASCII"},
        {"caf\xc3\xa9-0123456789abc\n", ":1: a key holds visible ASCII"},
    };
    struct ld_auth *a;
    ld_log_set_level(LD_LOG_ERROR);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_keys(bad[i].text);
        ck_assert_int_eq(ld_auth_open(&a, path, &why), -1);
        ck_assert_msg(strstr(why.text, bad[i].said) != NULL && strstr(why.text, path) != NULL, "\"%s\"", why.text);
    }
    unlink(path);
    ck_assert_int_eq(ld_auth_open(&a, "/nonexistent/keys", &why), -1);
    ck_assert_ptr_nonnull(strstr(why.text, "/nonexistent/keys"));
}
END_TEST

START_TEST(too_many_or_too_long_keys_are_refused)
{
    char text[4096] = "";
    struct ld_auth *a;
    ld_log_set_level(LD_LOG_ERROR);
    for (int i = 0; i < 65; i++)
        sprintf(text + strlen(text), "key-number-%04d-abcdef\n", i);
    write_keys(text);
    ck_assert_int_eq(ld_auth_open(&a, path, &why), -1);
    ck_assert_ptr_nonnull(strstr(why.text, ":65: more than 64 keys"));
    memset(text, 'k', 257);
    strcpy(text + 257, "\n");
    write_keys(text);
    ck_assert_int_eq(ld_auth_open(&a, path, &why), -1);
    ck_assert_ptr_nonnull(strstr(why.text, ":1: the key is longer"));
    unlink(path);
}
END_TEST

START_TEST(without_a_file_nobody_has_such_a_key)
{
    struct ld_auth *a;
    ck_assert_int_eq(ld_auth_open(&a, "", &why), 0);
    ck_assert(!ld_auth_has_file(a) && !ld_auth_has_had_file(a));
    ck_assert(!ld_auth_allows(a, NULL));
    ck_assert(!ld_auth_allows(a, "Bearer x"));
    ld_auth_put(a, NULL);
    ck_assert(!ld_auth_has_had_file(a));
    ck_assert(!ld_auth_allows(a, "Bearer x"));
    ld_auth_close(a);
}
END_TEST

/* As a reload does it. */
static int read_again(struct ld_auth *a)
{
    struct ld_key_file *keys = NULL;
    if (ld_auth_read(path, &keys, &why) != 0)
        return -1;
    ld_auth_put(a, keys);
    return 0;
}

START_TEST(reload_swaps_all_keys_or_none)
{
    struct ld_auth *a = open_keys("old-key-0123456789ab\n");
    write_keys("new-key-0123456789ab\n");
    ck_assert(!ld_auth_allows(a, "Bearer new-key-0123456789ab"));
    ck_assert_int_eq(read_again(a), 0);
    ck_assert(ld_auth_allows(a, "Bearer new-key-0123456789ab"));
    ck_assert(!ld_auth_allows(a, "Bearer old-key-0123456789ab"));
    write_keys("next-key-0123456789ab\nbroken key\n");
    ck_assert_int_eq(read_again(a), -1);
    ck_assert(ld_auth_allows(a, "Bearer new-key-0123456789ab"));
    ck_assert(!ld_auth_allows(a, "Bearer next-key-0123456789ab"));
    finish(a);
}
END_TEST

START_TEST(a_file_that_is_taken_away_lets_nobody_in_and_is_remembered)
{
    struct ld_auth *a = open_keys("old-key-0123456789ab\n");
    ld_auth_put(a, NULL);
    ck_assert(!ld_auth_allows(a, "Bearer old-key-0123456789ab"));
    ck_assert(!ld_auth_has_file(a) && ld_auth_has_had_file(a));
    ck_assert_int_eq(read_again(a), 0);
    ck_assert(ld_auth_has_file(a) && ld_auth_allows(a, "Bearer old-key-0123456789ab"));
    finish(a);
}
END_TEST

int main(void)
{
    return KBT_RUN("auth", keys_are_taken_line_by_line, anything_else_is_kept_out,
                   longest_keys_are_compared_to_the_last_byte, files_without_a_usable_key_are_refused,
                   too_many_or_too_long_keys_are_refused, without_a_file_nobody_has_such_a_key,
                   reload_swaps_all_keys_or_none, a_file_that_is_taken_away_lets_nobody_in_and_is_remembered);
}
