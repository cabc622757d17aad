/* Records on disk: one JSON object per line and run, appended as runs end, so that an interrupted experiment keeps what
 * it has and goes on where it was.
 *
 *   experiment, setting, algorithm, seed, rounds     which run; what a later call looks for
 *   blas_core                                        kernels of OpenBLAS: times compare only under one of them
 *   n_empty                                          decisions with an empty confidence set
 *   decide_seconds, learn_seconds, settle_seconds    CPU, whole run
 *   at, regret, seconds, dictionary                  arrays over checkpoints: rounds done, sums up to there, points
 *
 * Doubles are written with 17 digits, which come back as the same bits. A line that was cut off, or of another
 * experiment's run, is passed over, and so is one with a seed of 2^63 or more. Two records of one run: the last one
 * counts. */
#include "paper/frame.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_PATH 512

/* ---- writing --------------------------------------------------------------------------------------------- */

/* `,"key":[...]`: nothing is rounded, infinities and NaN do not occur (regrets and seconds are sums of finite numbers).
 */
static void put_doubles(FILE *f, const char *key, const double *value, size_t n)
{
    fprintf(f, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%.17g", i > 0 ? "," : "", value[i]);
    fputc(']', f);
}

/* The same for counts, which are below 2^53 and so come back through a double. */
static void put_sizes(FILE *f, const char *key, const size_t *value, size_t n)
{
    double number[PB_MAX_CHECKPOINTS];

    for (size_t i = 0; i < n; i++)
        number[i] = (double)value[i];
    put_doubles(f, key, number, n);
}

/* Flushed at once: what is on disk when the program is killed is what is kept. */
void pb_record_write(FILE *f, const struct pb_record *r)
{
    fprintf(f, "{\"experiment\":\"%s\",\"setting\":\"%s\",\"algorithm\":\"%s\",\"seed\":%llu,\"rounds\":%zu",
            r->experiment, r->setting, r->algorithm, (unsigned long long)r->seed, r->rounds);
    fprintf(f, ",\"blas_core\":\"%s\",\"n_empty\":%llu", r->blas_core, (unsigned long long)r->n_empty);
    fprintf(f, ",\"decide_seconds\":%.17g,\"learn_seconds\":%.17g,\"settle_seconds\":%.17g", r->decide_seconds,
            r->learn_seconds, r->settle_seconds);
    put_sizes(f, "at", r->at, r->n_checkpoints);
    put_doubles(f, "regret", r->regret, r->n_checkpoints);
    put_doubles(f, "seconds", r->seconds, r->n_checkpoints);
    put_sizes(f, "dictionary", r->dictionary, r->n_checkpoints);
    fputs("}\n", f);
    fflush(f);
}

/* ---- reading --------------------------------------------------------------------------------------------- */

/* Numbers of an array, at most PB_MAX_CHECKPOINTS; how many there are. */
static size_t read_numbers(const json_t *line, const char *key, double *out)
{
    const json_t *array = json_object_get(line, key);
    const size_t n = json_array_size(array);

    for (size_t i = 0; i < n && i < PB_MAX_CHECKPOINTS; i++)
        out[i] = json_number_value(json_array_get(array, i));
    return n;
}

/* False when an array is missing. Names stay with the caller. */
static bool read_record(json_t *line, struct pb_record *r)
{
    double at[PB_MAX_CHECKPOINTS], dictionary[PB_MAX_CHECKPOINTS];
    const size_t n = read_numbers(line, "at", at);
    const char *core = "";
    json_int_t n_empty = 0;

    if (n == 0 || n > PB_MAX_CHECKPOINTS || read_numbers(line, "regret", r->regret) != n ||
        read_numbers(line, "seconds", r->seconds) != n || read_numbers(line, "dictionary", dictionary) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        r->at[i] = (size_t)at[i];
        r->dictionary[i] = (size_t)dictionary[i];
    }
    json_unpack(line, "{s?s, s?I, s?F, s?F, s?F}", "blas_core", &core, "n_empty", &n_empty, "decide_seconds",
                &r->decide_seconds, "learn_seconds", &r->learn_seconds, "settle_seconds", &r->settle_seconds);
    snprintf(r->blas_core, sizeof r->blas_core, "%s", core);
    r->n_empty = (uint64_t)n_empty;
    r->n_checkpoints = n;
    return true;
}

/* NULL: of no task. */
static struct pb_task *find_task(const struct pb_results *results, json_t *line)
{
    const char *experiment, *setting, *algorithm;
    json_int_t seed, rounds;

    if (json_unpack(line, "{s:s, s:s, s:s, s:I, s:I}", "experiment", &experiment, "setting", &setting, "algorithm",
                    &algorithm, "seed", &seed, "rounds", &rounds) != 0 ||
        strcmp(experiment, results->experiment->name) != 0)
        return NULL;
    for (size_t i = 0; i < results->n; i++) {
        struct pb_task *task = &results->task[i];

        if (task->seed == (uint64_t)seed && task->rounds == (size_t)rounds &&
            strcmp(setting, task->setting->name) == 0 && strcmp(algorithm, task->algorithm->name) == 0)
            return task;
    }
    return NULL;
}

static void take_line(struct pb_results *results, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    struct pb_task *task = find_task(results, line);

    if (task != NULL) {
        struct pb_record r = {.experiment = results->experiment->name,
                              .setting = task->setting->name,
                              .algorithm = task->algorithm->name,
                              .seed = task->seed,
                              .rounds = task->rounds};
        if (read_record(line, &r)) {
            task->record = r;
            task->is_done = task->is_read = true;
        }
    }
    json_decref(line);
}

/* path: MAX_PATH bytes. A longer one is cut, and then fails to open, which is said. */
static void path_of(const struct pb_results *results, char *path)
{
    snprintf(path, MAX_PATH, "%s/%s.jsonl", results->dir, results->experiment->name);
}

/* O(lines x tasks), both in the thousands at most: small beside a single run. */
size_t pb_records_read(struct pb_results *results)
{
    char path[MAX_PATH], *line = NULL;
    size_t cap = 0, n = 0;
    ssize_t got;

    path_of(results, path);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    while ((got = getline(&line, &cap, f)) > 0)
        if (line[got - 1] == '\n')
            take_line(results, line);
    free(line);
    fclose(f);
    for (size_t i = 0; i < results->n; i++)
        n += results->task[i].is_read;
    return n;
}

/* A last line that was cut off gets its newline, so that the next record stands alone. */
FILE *pb_records_append(const struct pb_results *results, bool is_fresh)
{
    char path[MAX_PATH];

    path_of(results, path);
    FILE *f = fopen(path, is_fresh ? "w+" : "a+");
    if (f == NULL) {
        fprintf(stderr, "paperbench: cannot write %s: %s\n", path, strerror(errno));
        return NULL;
    }
    const bool is_cut = fseek(f, -1, SEEK_END) == 0 && fgetc(f) != '\n';
    fseek(f, 0, SEEK_END); /* C wants a seek between reading and writing */
    if (is_cut)
        fputc('\n', f);
    return f;
}

/* ---- files ------------------------------------------------------------------------------------------------ */

/* One mkdir for each part of the path; those that are there already are fine. */
enum kb_err pb_make_dir(const char *dir)
{
    char path[MAX_PATH];

    snprintf(path, sizeof path, "%s", dir);
    for (char *at = path + 1; *at != '\0'; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(path, 0777);
            *at = '/';
        }
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return KB_OK;
    fprintf(stderr, "paperbench: cannot make %s: %s\n", path, strerror(errno));
    return KB_EINVAL;
}

FILE *pb_create(const char *dir, const char *name, const char *suffix)
{
    char path[MAX_PATH];

    snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        fprintf(stderr, "paperbench: cannot write %s: %s\n", path, strerror(errno));
    return f;
}

enum kb_err pb_write(const char *dir, const char *name, const char *suffix, pb_put put, const void *arg)
{
    FILE *f = pb_create(dir, name, suffix);

    if (f == NULL)
        return KB_EINVAL;
    put(f, arg);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}
