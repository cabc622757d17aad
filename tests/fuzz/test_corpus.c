/* Every input that the corpus has, and mutations of it that are the same in every run: a fault that fuzzing has found
 * stays found, and a new one has a small chance to show in any `make test`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "kbt.h"
#include "base/rng.h"
#include "targets.h"

#define N_MUTANTS 24u /* of each input */

/* Snapshots are those of the logs: files of their own would not outlive the next version of the format. */
static const struct {
    const char *corpus;
    int (*run)(const uint8_t *data, size_t n);
    bool is_of_log;
} targets[] = {{"bodies", fuzz_bodies, false}, {"values", fuzz_values, false}, {"log", fuzz_log, false},
               {"log", fuzz_shadow, false},    {"log", fuzz_snapshot, true},   {"file", fuzz_file, false},
               {"route", fuzz_route, false}};
#define N_TARGETS (sizeof targets / sizeof *targets)

static uint8_t *read_file(const char *name, size_t *n)
{
    FILE *f = fopen(name, "rb");

    FUZZ_EXPECT(f != NULL && fseek(f, 0, SEEK_END) == 0);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*n + 1);
    FUZZ_EXPECT(data != NULL && fread(data, 1, *n, f) == *n);
    fclose(f);
    return data;
}

/* A byte changed, a piece taken out, a piece doubled, or two pieces exchanged; of exactly as many bytes as it needs, so
 * that a sanitizer sees who reads beyond. */
static uint8_t *mutate(const uint8_t *data, size_t n, uint64_t key, size_t *n_out)
{
    const uint64_t r = kb_rng_bits(key, KB_STREAM_SIMULATION, n), s = kb_rng_bits(key, KB_STREAM_SIMULATION, ~n);
    const size_t at = r % n, length = 1 + s % (n - at < 40 ? n - at : 40);
    uint8_t *out = malloc(2 * n);

    memcpy(out, data, n);
    *n_out = n;
    if (key % 4 == 0) {
        out[at] ^= (uint8_t)(1u << s % 8);
    } else if (key % 4 == 1) {
        memmove(out + at, out + at + length, n - at - length);
        *n_out = n - length;
    } else if (key % 4 == 2) {
        memmove(out + at + length, out + at, n - at);
        *n_out = n + length;
    } else {
        memcpy(out + at, data + s % (n - length + 1), length);
    }
    return realloc(out, *n_out + 1);
}

/* The log becomes the snapshot of its model; NULL where there is none. */
static uint8_t *take_snapshot(uint8_t *log, size_t *n)
{
    uint64_t n_events;
    struct kb_engine *e = fuzz_fold_log(log, *n, &n_events);
    struct kb_writer w;
    uint8_t *body = NULL;

    kb_writer_init(&w);
    if (n_events > 0 && kb_engine_save(e, &w) == KB_OK) {
        body = malloc(w.n);
        memcpy(body, w.data, w.n);
        *n = w.n;
    }
    kb_writer_close(&w);
    kb_engine_free(e);
    free(log);
    return body;
}

/* The i-th file of a corpus in the order of the folder, or NULL. */
static uint8_t *next_input(DIR *dir, const char *folder, bool is_of_log, size_t *n)
{
    char name[512];

    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        uint8_t *data = read_file(name, n);
        if (is_of_log)
            data = take_snapshot(data, n);
        if (data != NULL)
            return data;
    }
    return NULL;
}

/* For the fuzzer: what the snapshots of all logs are, as files. */
static void write_seeds(const char *to)
{
    char name[512];
    size_t n = 0, i = 0;
    DIR *dir = opendir("tests/fuzz/corpus/log");

    for (uint8_t *data; dir != NULL && (data = next_input(dir, "tests/fuzz/corpus/log", true, &n)) != NULL; i++) {
        snprintf(name, sizeof name, "%s/seed-%zu", to, i);
        FILE *f = fopen(name, "wb");
        FUZZ_EXPECT(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
        free(data);
    }
    FUZZ_EXPECT(i > 0);
    closedir(dir);
}

START_TEST(the_corpus_and_its_mutants_find_nothing)
{
    char folder[128];
    size_t n_inputs = 0, n = 0, n_mutant = 0;

    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", targets[_i].corpus);
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (uint8_t *data; (data = next_input(dir, folder, targets[_i].is_of_log, &n)) != NULL; n_inputs++) {
        targets[_i].run(data, n);
        for (uint64_t key = 0; key < N_MUTANTS && n > 0; key++) {
            uint8_t *mutant = mutate(data, n, key, &n_mutant);
            targets[_i].run(mutant, n_mutant);
            free(mutant);
        }
        free(data);
    }
    closedir(dir);
    ck_assert_uint_gt(n_inputs, 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write-snapshots") == 0) {
        write_seeds(argv[2]);
        return EXIT_SUCCESS;
    }

    Suite *suite = suite_create("corpus");
    TCase *each = tcase_create("every target");

    tcase_set_timeout(each, 300); /* under a sanitizer, on a busy machine */
    tcase_add_loop_test(each, the_corpus_and_its_mutants_find_nothing, 0, (int)N_TARGETS);
    suite_add_tcase(suite, each);
    return kbt_run_suite(suite);
}
