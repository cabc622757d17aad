/* Records on disk: one JSON object per line and run, appended as runs end, so that an interrupted experiment keeps what
 * it has and goes on where it was.
 *
 *   experiment, setting, algorithm, seed, rounds     which run; what a later call looks for
 *   blas_core                                        kernels of OpenBLAS: times compare only under one of them
 *   n_empty                                          decisions with an empty confidence set
 *   decide_seconds, learn_seconds, settle_seconds    CPU, whole run
 *   at, regret, seconds, dictionary                  arrays over checkpoints: rounds done, sums up to there, points
 *
 * Doubles are written with 17 digits, which come back as the same bits. Reading understands only lines written here
 * (keys in any order, no escapes: names are ours); a line that was cut off, or of another experiment's run, is passed
 * over. Two records of one run: the last one counts. */
#include "paper/frame.h"

#include <errno.h>
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
    fprintf(f, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%zu", i > 0 ? "," : "", value[i]);
    fputc(']', f);
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

/* Start of the key's value, or an empty string. */
static const char *value_of(const char *line, const char *key)
{
    char quoted[40];

    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    return at != NULL ? at + strlen(quoted) : "";
}

/* Whether the key's value is the string `want`, all of it: "lk" is not "lk-gp-ucb". */
static bool is_text(const char *line, const char *key, const char *want)
{
    const char *v = value_of(line, key);
    const size_t n = strlen(want);

    return v[0] == '"' && strncmp(v + 1, want, n) == 0 && v[n + 1] == '"';
}

/* Values of an array, at most PB_MAX_CHECKPOINTS; the number of them. */
static size_t read_doubles(const char *line, const char *key, double *out)
{
    const char *at = value_of(line, key);
    size_t n = 0;

    while ((*at == '[' || *at == ',') && n < PB_MAX_CHECKPOINTS) {
        char *end;

        out[n] = strtod(at + 1, &end);
        if (end == at + 1)
            break;
        n++;
        at = end;
    }
    return n;
}

/* Likewise; out has room for PB_MAX_CHECKPOINTS. */
static size_t read_sizes(const char *line, const char *key, size_t *out)
{
    double value[PB_MAX_CHECKPOINTS];
    const size_t n = read_doubles(line, key, value);

    for (size_t i = 0; i < n; i++)
        out[i] = (size_t)value[i];
    return n;
}

/* Copies a string value, cut at size - 1; empty when the key is missing. */
static void read_text(const char *line, const char *key, char *out, size_t size)
{
    const char *v = value_of(line, key);
    size_t n = 0;

    for (v += v[0] == '"'; v[n] != '"' && v[n] != '\0' && n + 1 < size; n++)
        out[n] = v[n];
    out[n] = '\0';
}

/* False when a part is missing. Names stay with the caller. */
static bool read_record(const char *line, struct pb_record *r)
{
    r->n_checkpoints = read_sizes(line, "at", r->at);
    const size_t n_regret = read_doubles(line, "regret", r->regret);
    const size_t n_seconds = read_doubles(line, "seconds", r->seconds);
    const size_t n_dictionary = read_sizes(line, "dictionary", r->dictionary);

    r->n_empty = strtoull(value_of(line, "n_empty"), NULL, 10);
    r->decide_seconds = strtod(value_of(line, "decide_seconds"), NULL);
    r->learn_seconds = strtod(value_of(line, "learn_seconds"), NULL);
    r->settle_seconds = strtod(value_of(line, "settle_seconds"), NULL);
    read_text(line, "blas_core", r->blas_core, sizeof r->blas_core);
    return r->n_checkpoints > 0 && n_regret == r->n_checkpoints && n_seconds == n_regret && n_dictionary == n_regret;
}

/* The task that the line is the record of, or NULL. */
static struct pb_task *find_task(const struct pb_results *results, const char *line)
{
    const uint64_t seed = strtoull(value_of(line, "seed"), NULL, 10);
    const size_t rounds = strtoull(value_of(line, "rounds"), NULL, 10);

    if (!is_text(line, "experiment", results->experiment->name))
        return NULL;
    for (size_t i = 0; i < results->n; i++) {
        struct pb_task *task = &results->task[i];

        if (task->seed == seed && task->rounds == rounds && is_text(line, "setting", task->setting->name) &&
            is_text(line, "algorithm", task->algorithm->name))
            return task;
    }
    return NULL;
}

/* A whole line ends with a brace and a newline. */
static bool take_line(struct pb_results *results, const char *line)
{
    const size_t n = strlen(line);
    struct pb_task *task = find_task(results, line);

    if (task == NULL || n < 2 || strcmp(line + n - 2, "}\n") != 0)
        return false;
    struct pb_record r = {.experiment = results->experiment->name,
                          .setting = task->setting->name,
                          .algorithm = task->algorithm->name,
                          .seed = task->seed,
                          .rounds = task->rounds};
    if (!read_record(line, &r))
        return false;
    task->record = r;
    task->is_done = task->is_read = true;
    return true;
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

    path_of(results, path);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    while (getline(&line, &cap, f) >= 0)
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
