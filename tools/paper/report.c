/* The tables of an experiment: one row per setting and algorithm, with the printed figure beside ours.
 *
 *   mean, sd, se   over seeds; se = sd / sqrt(n)
 *   ratio          our mean / the printed mean
 *   apart          our mean less the printed one, in standard errors of that difference (se), or in the printed
 *                  standard deviation where only that is printed (sd)
 *   ms/round       CPU of decide + learn + settle at the last round, divided by the rounds
 *
 *   points         support of the model at that round: dictionary points, or distinct points when exact
 *
 * A paper prints either a standard deviation or a standard error; which one is said, and neither is turned into the
 * other. Printed figures at a round before the last get rows of their own; those at a round that was not run, or that
 * is no checkpoint, are left out, since comparing other rounds would mean nothing. */
#include "paper/frame.h"

#include <math.h>
#include <string.h>

/* ---- statistics ------------------------------------------------------------------------------------------- */

static size_t checkpoint_at(const struct pb_record *r, size_t at)
{
    for (size_t i = 0; i < r->n_checkpoints; i++)
        if (r->at[i] == at)
            return i;
    return SIZE_MAX;
}

/* Running mean and sum of squared deviations (Welford). */
struct pb_stat pb_stat_at(const struct pb_results *results, const struct pb_setting *s, const struct pb_algorithm *a,
                          enum pb_quantity q, size_t at)
{
    struct pb_stat stat = {0};
    double squares = 0;

    for (size_t i = 0; i < results->n; i++) {
        const struct pb_task *task = &results->task[i];
        const size_t k = task->is_done ? checkpoint_at(&task->record, at) : SIZE_MAX;

        if (task->setting != s || task->algorithm != a || k == SIZE_MAX)
            continue;
        const struct pb_record *r = &task->record;
        const double value = q == PB_REGRET ? r->regret[k] : q == PB_SECONDS ? r->seconds[k] : (double)r->dictionary[k];
        const double old = value - stat.mean;
        stat.mean += old / (double)++stat.n;
        squares += old * (value - stat.mean);
    }
    if (stat.n >= 2) {
        stat.sd = sqrt(squares / (double)(stat.n - 1));
        stat.se = stat.sd / sqrt((double)stat.n);
    }
    return stat;
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

/* A table under way: the same rows as text and as Markdown. */
struct table {
    const struct pb_results *results;
    FILE *file;
    bool is_markdown;
};

/* Column heads; "points" are dictionary points, or the distinct points of an exact model. */
static void put_head(const struct table *t)
{
    if (t->is_markdown)
        fputs("| setting | algorithm | runs | round | regret | ± se | sd | printed | ratio | apart | ms/round | points "
              "|\n"
              "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
              t->file);
    else
        fprintf(t->file, "%-28s %-20s %4s %6s %10s %8s %8s %18s %6s %8s %9s %7s\n", "setting", "algorithm", "runs",
                "round", "regret", "+-se", "sd", "printed", "ratio", "apart", "ms/round", "points");
}

/* "892.4 ± 21.7" (se), "32.2 (sd 20.9)", or "-". */
static void printed_text(const struct pb_printed *p, char *text, size_t size)
{
    if (p == NULL)
        snprintf(text, size, "-");
    else if (p->se > 0)
        snprintf(text, size, "%.1f+-%.1f", p->mean, p->se);
    else if (p->sd > 0)
        snprintf(text, size, "%.1f (sd %.1f)", p->mean, p->sd);
    else
        snprintf(text, size, "%.1f", p->mean);
}

/* "+1.9 se", "-0.4 sd", or "-" where nothing or no spread is printed. */
static void apart_text(const struct pb_printed *p, const struct pb_stat *ours, char *text, size_t size)
{
    if (p != NULL && p->se > 0)
        snprintf(text, size, "%+.1f se", (ours->mean - p->mean) / hypot(ours->se, p->se));
    else if (p != NULL && p->sd > 0)
        snprintf(text, size, "%+.1f sd", (ours->mean - p->mean) / p->sd);
    else
        snprintf(text, size, "-");
}

/* Nothing where no run reached that checkpoint. p may be NULL: nothing was printed for this cell. */
static void put_row(const struct table *t, const struct pb_setting *s, const struct pb_algorithm *a, size_t at,
                    const struct pb_printed *p)
{
    const struct pb_stat regret = pb_stat_at(t->results, s, a, PB_REGRET, at);
    const struct pb_stat seconds = pb_stat_at(t->results, s, a, PB_SECONDS, at);
    const struct pb_stat points = pb_stat_at(t->results, s, a, PB_DICTIONARY, at);
    char printed[48], ratio[16] = "-", apart[16];

    if (regret.n == 0)
        return;
    printed_text(p, printed, sizeof printed);
    apart_text(p, &regret, apart, sizeof apart);
    if (p != NULL && p->mean > 0)
        snprintf(ratio, sizeof ratio, "%.2f", regret.mean / p->mean);
    const double ms = 1e3 * seconds.mean / (double)at;
    if (t->is_markdown)
        fprintf(t->file, "| %s | %s | %zu | %zu | %.1f | %.1f | %.1f | %s | %s | %s | %.3f | %.0f |\n", s->name,
                a->name, regret.n, at, regret.mean, regret.se, regret.sd, printed, ratio, apart, ms, points.mean);
    else
        fprintf(t->file, "%-28s %-20s %4zu %6zu %10.1f %8.1f %8.1f %18s %6s %8s %9.3f %7.0f\n", s->name, a->name,
                regret.n, at, regret.mean, regret.se, regret.sd, printed, ratio, apart, ms, points.mean);
}

/* Rows of the printed figures before the last round; the one at the last round is returned, or NULL. */
static const struct pb_printed *put_early_rows(const struct table *t, const struct pb_setting *s,
                                               const struct pb_algorithm *a, size_t rounds)
{
    const struct pb_experiment *x = t->results->experiment;
    const struct pb_printed *last = NULL;

    for (size_t i = 0; i < x->n_printed; i++) {
        const struct pb_printed *p = &x->printed[i];

        if (strcmp(p->setting, s->name) != 0 || strcmp(p->algorithm, a->name) != 0)
            continue;
        if (p->at == rounds)
            last = p;
        else
            put_row(t, s, a, p->at, p);
    }
    return last;
}

/* Rounds of the setting's runs; 0 when --only left it out. */
static size_t rounds_of(const struct pb_results *r, const struct pb_setting *s)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->task[i].setting == s)
            return r->task[i].rounds;
    return 0;
}

/* Settings outermost, in the order of the experiment's rows, which is that of the paper. */
static void put_table(const struct table *t)
{
    const struct pb_experiment *x = t->results->experiment;

    put_head(t);
    for (size_t i = 0; i < x->n_settings; i++)
        for (size_t k = 0; k < x->n_algorithms; k++) {
            const size_t rounds = rounds_of(t->results, &x->settings[i]);
            const struct pb_printed *p = put_early_rows(t, &x->settings[i], &x->algorithms[k], rounds);

            put_row(t, &x->settings[i], &x->algorithms[k], rounds, p);
        }
}

/* What the figures rest on: machine facts and oddities that a reader of the table should know. */
static void put_notes(const struct table *t)
{
    const struct pb_results *r = t->results;
    const char *core = "-";
    uint64_t n_empty = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (!r->task[i].is_done)
            continue;
        core = r->task[i].record.blas_core;
        n_empty += r->task[i].record.n_empty;
    }
    fprintf(t->file, "\nBLAS core %s; decisions with an empty confidence set: %llu; failed runs: %zu\n", core,
            (unsigned long long)n_empty, r->n_failed);
}

static void put_report(FILE *f, const void *results)
{
    const struct table t = {.results = results, .file = f, .is_markdown = f != stdout};

    put_table(&t);
    put_notes(&t);
}

enum kb_err pb_report(const struct pb_results *results)
{
    return pb_write_table(results->experiment, results->dir, put_report, results);
}

/* On stdout first: it is there even when DIR cannot be written. */
enum kb_err pb_write_table(const struct pb_experiment *x, const char *dir, pb_put put, const void *arg)
{
    printf("\n%s: %s\n\n", x->name, x->about);
    put(stdout, arg);
    FILE *f = pb_create(dir, x->name, ".md");
    if (f == NULL)
        return KB_EINVAL;
    fprintf(f, "## %s\n\n%s\n\n", x->name, x->about);
    put(f, arg);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}
