/* Snapshot files: what was written is read, and no byte of a file can change unnoticed. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "kbt.h"
#include "base/rng.h"
#include "store/snapshot.h"
#include "kbt_files.h"

static char folder[64], path[128];
static struct ld_message why;

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ld-snapshot-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/t.snap", folder);
}

static void remove_folder(void)
{
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file may be left */
}

static void write_bytes(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

/* 0, 1 or -1 as ld_snapshot_read. */
static int read_and_forget(void)
{
    uint64_t seq;
    void *body = NULL;
    size_t n;
    int rc = ld_snapshot_read(path, &seq, &body, &n, &why);
    if (rc == 0)
        free(body);
    return rc;
}

START_TEST(what_was_written_is_read)
{
    static const size_t sizes[] = {0, 1, 47, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *body = malloc(sizes[i] + 1);
        void *back = NULL;
        uint64_t seq = 0;
        size_t n = 0;
        for (size_t k = 0; k < sizes[i]; k++)
            body[k] = (unsigned char)kb_rng_bits(i, KB_STREAM_SIMULATION, k);
        ck_assert_int_eq(ld_snapshot_write(path, UINT64_MAX - i, body, sizes[i], &why), 0);
        ck_assert_int_eq(ld_snapshot_read(path, &seq, &back, &n, &why), 0);
        ck_assert(seq == UINT64_MAX - i && n == sizes[i] && memcmp(body, back, n) == 0);
        free(back);
        free(body);
    }
}
END_TEST

START_TEST(no_file_is_not_damage)
{
    ck_assert_int_eq(read_and_forget(), 1);
}
END_TEST

START_TEST(every_changed_byte_is_detected)
{
    static const unsigned char changes[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    size_t n;
    ck_assert_int_eq(ld_snapshot_write(path, 12, "the engine's state, as it were", 30, &why), 0);
    unsigned char *good = kbt_read_file(path, &n);
    ck_assert_uint_eq(n, 78);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof changes; k++) {
            good[i] ^= changes[k];
            write_bytes(good, n);
            ck_assert_msg(read_and_forget() == -1, "byte %zu", i);
            ck_assert_ptr_nonnull(strstr(why.text, path));
            good[i] ^= changes[k];
        }
    }
    write_bytes(good, n);
    ck_assert_int_eq(read_and_forget(), 0);
    free(good);
}
END_TEST

START_TEST(every_other_length_is_detected)
{
    size_t n;
    ck_assert_int_eq(ld_snapshot_write(path, 12, "0123456789", 10, &why), 0);
    unsigned char *good = kbt_read_file(path, &n);
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes(good, cut);
        ck_assert_int_eq(read_and_forget(), -1);
    }
    good[n] = 0;
    write_bytes(good, n + 1);
    ck_assert_int_eq(read_and_forget(), -1);
    free(good);
}
END_TEST

START_TEST(a_folder_in_its_place_is_refused)
{
    ck_assert_int_eq(mkdir(path, 0755), 0);
    ck_assert_int_eq(read_and_forget(), -1);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

/* A full disk, as a limit on file sizes shows it. */
START_TEST(a_failed_write_leaves_the_old_snapshot)
{
    unsigned char *big = calloc(1, 1 << 20);
    struct rlimit limit = {100000, 100000};
    uint64_t seq = 0;
    void *body = NULL;
    size_t n = 0;
    ck_assert_int_eq(ld_snapshot_write(path, 3, "old", 3, &why), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(ld_snapshot_write(path, 4, big, 1 << 20, &why), -1);
    ck_assert_uint_gt(strlen(why.text), strlen(path));
    ck_assert_int_eq(ld_snapshot_read(path, &seq, &body, &n, &why), 0);
    ck_assert(seq == 3 && n == 3 && memcmp(body, "old", 3) == 0);
    free(body);
    free(big);
}
END_TEST

/* The header, byte by byte, as schema/snapshot.md has it. */
START_TEST(the_header_is_as_documented)
{
    static const unsigned char want[32] = {'l',  'a',  'p',  'l',  's',  'n',  'a',  'p',  1, 0, 0, 0, 48, 0, 0, 0,
                                           0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 3, 0, 0, 0, 0,  0, 0, 0};
    static const unsigned char fnv_abc[8] = {0x4b, 0x57, 0x41, 0x05, 0x19, 0xa2, 0x1f, 0xe7}; /* of "abc" */
    size_t n;
    ck_assert_int_eq(ld_snapshot_write(path, 0x0102030405060708u, "abc", 3, &why), 0);
    unsigned char *bytes = kbt_read_file(path, &n);
    ck_assert_uint_eq(n, 51);
    ck_assert_mem_eq(bytes, want, sizeof want);
    ck_assert_mem_eq(bytes + 32, fnv_abc, sizeof fnv_abc);
    ck_assert_mem_eq(bytes + 48, "abc", 3);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("snapshot");
    TCase *tc = tcase_create("snapshot");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, what_was_written_is_read);
    tcase_add_test(tc, no_file_is_not_damage);
    tcase_add_test(tc, every_changed_byte_is_detected);
    tcase_add_test(tc, every_other_length_is_detected);
    tcase_add_test(tc, a_folder_in_its_place_is_refused);
    tcase_add_test(tc, a_failed_write_leaves_the_old_snapshot);
    tcase_add_test(tc, the_header_is_as_documented);
    suite_add_tcase(s, tc);
    return kbt_run_suite(s);
}
