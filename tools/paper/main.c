/* paperbench: the papers' tables and figures from the engine of core/.
 *
 *   paperbench [options] EXPERIMENT...|all|list
 *
 *   list      names and what they reproduce         all     every experiment, one after the other
 *   --only    "tc-rbf-0.5-d3/cmm" is one cell; "/cmm" that algorithm everywhere; "d3" those settings
 *   --dry     an experiment that was stopped halfway has a table, too, whose column `runs` says how far it came
 *   --rounds  fewer rounds are other runs: they stand beside the full ones in the records and take no printed figure
 *
 * Each experiment's runs are settings x algorithms x seeds; records, tables and plots go to --out. Exit status: 0 all
 * well, 1 a run or a file failed, 2 a wrong call. */
#include "paper/frame.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "linalg/linalg.h"

struct options {
    const char *only, *dir;
    size_t reps, rounds, jobs; /* 0: the experiment's, the experiment's, one per processor */
    uint64_t seed;
    bool is_fresh, is_dry;
};

static const char usage[] =
    "usage: paperbench [options] EXPERIMENT...|all|list\n"
    "  --reps N      runs of each algorithm in each setting (default: the experiment's)\n"
    "  --seed S      seeds S, S+1, ... (default 0)\n"
    "  --rounds T    rounds of a run (default: the experiment's)\n"
    "  --jobs N      runs at a time (default: one per processor)\n"
    "  --only TEXT   only cells whose \"setting/algorithm\" contains TEXT\n"
    "  --out DIR     records, tables, plots (default build/paper); runs recorded there are not made again\n"
    "  --fresh       forget the experiment's records in DIR first\n"
    "  --dry         no runs: tables and plots of what stands in DIR\n";

/* ---- the kernels of OpenBLAS ------------------------------------------------------------------------------- */

/* OpenBLAS falls back to SSE3 ("Prescott") on processors that it does not know, which makes every time printed here
 * five times too long. It reads its variable before main, so the program is run again with it, once. */
static void settle_blas(char *const *argv)
{
    const char *best = kb_blas_core_best();

    if (best != NULL && strcmp(kb_blas_core_name(), "Prescott") == 0 && getenv("OPENBLAS_CORETYPE") == NULL) {
        setenv("OPENBLAS_CORETYPE", best, 1);
        execv("/proc/self/exe", argv);
        fprintf(stderr, "paperbench: OpenBLAS runs Prescott kernels: times are too long\n");
    }
    kb_blas_single_thread();
}

/* ---- options ------------------------------------------------------------------------------------------------- */

static bool read_number(const char *text, uint64_t least, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out >= least;
}

/* Long options only: nobody remembers what -n means. False, said on stderr, without an experiment's name or when a
 * value is none. */
static bool read_options(struct options *o, int argc, char **argv)
{
    uint64_t reps = 0, rounds = 0, jobs = 0;
    int is_fresh = 0, is_dry = 0, row = 0;
    uint64_t *const number[] = {&reps, &o->seed, &rounds, &jobs};
    const struct option longs[] = {{"reps", required_argument, NULL, 0},
                                   {"seed", required_argument, NULL, 0},
                                   {"rounds", required_argument, NULL, 0},
                                   {"jobs", required_argument, NULL, 0},
                                   {"only", required_argument, NULL, 0},
                                   {"out", required_argument, NULL, 0},
                                   {"fresh", no_argument, &is_fresh, true},
                                   {"dry", no_argument, &is_dry, true},
                                   {NULL, 0, NULL, 0}};
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    int c;

    *o = (struct options){.dir = "build/paper"};
    while ((c = getopt_long(argc, argv, "", longs, &row)) != -1) {
        if (c != 0)
            return false;
        if (row < 4 && !read_number(optarg, row == 1 ? 0 : 1, number[row])) {
            fprintf(stderr, "paperbench: '%s' is no such number\n", optarg);
            return false;
        }
        if (row == 4 || row == 5)
            *(row == 4 ? &o->only : &o->dir) = optarg;
    }
    o->reps = reps;
    o->rounds = rounds;
    o->jobs = jobs > 0 ? jobs : n_processors > 0 ? (size_t)n_processors : 1;
    o->is_fresh = is_fresh;
    o->is_dry = is_dry;
    return optind < argc && !(o->is_dry && o->is_fresh);
}

/* ---- an experiment -------------------------------------------------------------------------------------------- */

/* --only. */
static bool is_wanted(const struct options *o, const struct pb_setting *s, const struct pb_algorithm *a)
{
    char cell[256];

    snprintf(cell, sizeof cell, "%s/%s", s->name, a->name);
    return o->only == NULL || strstr(cell, o->only) != NULL;
}

static void add_tasks(struct pb_results *r, const struct options *o, uint64_t seed)
{
    const struct pb_experiment *x = r->experiment;

    for (const struct pb_setting *s = x->settings; s < x->settings + x->n_settings; s++) {
        const size_t rounds = o->rounds > 0 ? o->rounds : s->rounds > 0 ? s->rounds : x->rounds;

        for (const struct pb_algorithm *a = x->algorithms; a < x->algorithms + x->n_algorithms; a++)
            if (is_wanted(o, s, a))
                r->task[r->n++] = (struct pb_task){.setting = s, .algorithm = a, .seed = seed, .rounds = rounds};
    }
}

/* Seed by seed, so that an experiment that is stopped halfway has something of every cell, and the time left can be
 * told early. */
static enum kb_err list_tasks(struct pb_results *r, const struct options *o)
{
    const struct pb_experiment *x = r->experiment;
    const size_t reps = o->reps > 0 ? o->reps : x->reps;

    r->task = kb_array(x->n_settings * x->n_algorithms, reps, sizeof *r->task);
    if (r->task == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < reps; i++)
        add_tasks(r, o, o->seed + i);
    return KB_OK;
}

/* What the callbacks of the jobs need; they run in the parent, one at a time. */
struct watch {
    FILE *records;
    struct pb_progress progress;
};

/* In the parent, as each run ends: a line in the records, at once. */
static void on_done(void *arg, const struct pb_task *task)
{
    struct watch *w = arg;

    w->progress.n_done++;
    if (task->is_done)
        pb_record_write(w->records, &task->record);
}

static void on_tick(void *arg)
{
    struct watch *w = arg;

    pb_progress_show(&w->progress);
}

static enum kb_err make_runs(struct pb_results *r, const struct options *o)
{
    struct watch w;
    const size_t n_read = o->is_fresh ? 0 : pb_records_read(r);

    if (o->is_dry)
        return KB_OK;
    w.records = pb_records_append(r, o->is_fresh);
    if (w.records == NULL)
        return KB_EINVAL;
    if (n_read > 0)
        fprintf(stderr, "%s: %zu of %zu runs stand in %s already\n", r->experiment->name, n_read, r->n, r->dir);
    pb_progress_init(&w.progress, r->experiment->name, r->n - n_read);
    const enum kb_err rc = pb_jobs_run(r, o->jobs, on_done, on_tick, &w);
    pb_progress_clear(&w.progress);
    fclose(w.records);
    return rc;
}

/* An experiment of another kind than runs. */
static enum kb_err run_custom(const struct pb_experiment *x, const struct options *o)
{
    FILE *lines = pb_create(o->dir, x->name, ".jsonl");

    if (lines == NULL)
        return KB_EINVAL;
    const enum kb_err rc = x->custom(x, o->seed, o->reps > 0 ? o->reps : x->reps, o->dir, lines);
    return fclose(lines) == 0 ? rc : KB_EINVAL;
}

/* Runs, tables, plots. Failed runs do not keep the others from being reported, and show in the exit status. */
static enum kb_err run_experiment(const struct pb_experiment *x, const struct options *o)
{
    struct pb_results r = {.experiment = x, .dir = o->dir};
    enum kb_err rc;

    if (x->custom != NULL)
        return o->is_dry ? KB_OK : run_custom(x, o);
    KB_TRY(list_tasks(&r, o));
    KB_TRY(make_runs(&r, o));
    KB_TRY(pb_report(&r));
    KB_TRY(pb_plot(&r));
    rc = r.n_failed > 0 ? KB_EINVAL : KB_OK;
out:
    kb_free(r.task);
    return rc;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool is_named(const struct pb_experiment *x, char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, x->name) == 0 || strcmp(*names, "all") == 0)
            return true;
    return false;
}

/* False, said on stderr, when a name is nobody's. */
static bool names_are_known(char *const *names)
{
    for (; *names != NULL; names++) {
        char *const one[] = {*names, NULL};
        bool is_known = false;

        for (const struct pb_experiment *const *x = pb_experiments; *x != NULL; x++)
            is_known = is_known || is_named(*x, one);
        if (!is_known) {
            fprintf(stderr, "paperbench: no experiment '%s'; 'paperbench list' names them\n", *names);
            return false;
        }
    }
    return true;
}

/* Names are looked at before anything runs: a slip in the last one should not show after an hour. */
int main(int argc, char **argv)
{
    struct options o;
    int status = 0;

    settle_blas(argv);
    if (!read_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[optind], "list") == 0) {
        for (const struct pb_experiment *const *x = pb_experiments; *x != NULL; x++)
            printf("%-16s %s\n", (*x)->name, (*x)->about);
        return 0;
    }
    if (!names_are_known(argv + optind))
        return 2;
    if (pb_make_dir(o.dir) != KB_OK)
        return 1;
    for (const struct pb_experiment *const *x = pb_experiments; *x != NULL; x++)
        if (is_named(*x, argv + optind) && run_experiment(*x, &o) != KB_OK)
            status = 1;
    return status;
}
