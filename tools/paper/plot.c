/* Plots: data files and a gnuplot script, one panel per setting, one line per algorithm with a band of one standard
 * error.
 *
 *   DIR/NAME-SETTING.dat   a block per algorithm (gnuplot's "index"): round, mean, standard error
 *   DIR/NAME.gp            draws all of them into DIR/NAME.svg
 *
 * Data and script stay beside the picture, so that it can be drawn differently without running anything again; without
 * gnuplot they are all there is. File names in the script are relative to DIR, which may be moved.
 *
 * Regret is drawn as it is; seconds as milliseconds a round between two checkpoints, on a logarithmic axis, since
 * algorithms differ by powers of ten. A dictionary plot has a point per algorithm: regret against dictionary size, at
 * the last round; its first column is the size. */
#include "paper/frame.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#define MAX_PATH 512
#define PANEL_WIDTH 420
#define PANEL_HEIGHT 340

extern char **environ;

/* ---- data --------------------------------------------------------------------------------------------------- */

/* Any done run of the cell: all of them have the same checkpoints. NULL when there is none; s, a NULL: of any. */
static const struct pb_record *any_record(const struct pb_results *r, const struct pb_setting *s,
                                          const struct pb_algorithm *a)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->task[i].is_done && (s == NULL || r->task[i].setting == s) && (a == NULL || r->task[i].algorithm == a))
            return &r->task[i].record;
    return NULL;
}

/* One line of a data file. Time per round has no error column: it is a difference of means over seeds. */
static void put_point(FILE *f, const struct pb_results *r, const struct pb_setting *s, const struct pb_algorithm *a,
                      const struct pb_record *any, size_t i)
{
    const size_t at = any->at[i], before = i > 0 ? any->at[i - 1] : 0;
    const struct pb_stat regret = pb_stat_at(r, s, a, PB_REGRET, at);

    if (r->experiment->plot == PB_PLOT_REGRET)
        fprintf(f, "%zu %.10g %.10g\n", at, regret.mean, regret.se);
    if (r->experiment->plot == PB_PLOT_DICTIONARY && i + 1 == any->n_checkpoints)
        fprintf(f, "%.10g %.10g %.10g\n", pb_stat_at(r, s, a, PB_DICTIONARY, at).mean, regret.mean, regret.se);
    if (r->experiment->plot != PB_PLOT_SECONDS)
        return;
    const double spent = pb_stat_at(r, s, a, PB_SECONDS, at).mean - pb_stat_at(r, s, a, PB_SECONDS, before).mean;
    fprintf(f, "%zu %.10g 0\n", at, 1e3 * spent / (double)(at - before));
}

/* A block for every algorithm, empty ones with a comment, so that an algorithm's index is its number. */
static enum kb_err write_data(const struct pb_results *r, const struct pb_setting *s)
{
    const struct pb_experiment *x = r->experiment;
    char suffix[MAX_PATH];

    snprintf(suffix, sizeof suffix, "-%s.dat", s->name);
    FILE *f = pb_create(r->dir, x->name, suffix);
    if (f == NULL)
        return KB_EINVAL;
    for (size_t k = 0; k < x->n_algorithms; k++) {
        const struct pb_record *any = any_record(r, s, &x->algorithms[k]);

        fprintf(f, "# %s\n", x->algorithms[k].name);
        for (size_t i = 0; any != NULL && i < any->n_checkpoints; i++)
            put_point(f, r, s, &x->algorithms[k], any, i);
        if (any == NULL)
            fputs("NaN NaN NaN\n", f);
        fputs("\n\n", f);
    }
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* ---- script --------------------------------------------------------------------------------------------------- */

/* Readable side by side for most eyes and on paper; they follow the algorithms' order. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                      "#000000", "#7f3c8d", "#80ba5a", "#999999", "#a4262c", "#4b4b8f"};
#define N_COLOURS (sizeof colours / sizeof *colours)

/* Where the vertical axis of a panel ends: an algorithm that is far above all others (the uniform one, as a rule) runs
 * out of the picture at twice the next one's height. 0: let gnuplot choose. */
static double axis_end(const struct pb_results *r, const struct pb_setting *s)
{
    const struct pb_experiment *x = r->experiment;
    double first = 0, second = 0;

    for (size_t k = 0; k < x->n_algorithms; k++) {
        const struct pb_record *any = any_record(r, s, &x->algorithms[k]);

        if (any == NULL)
            continue;
        const double v = pb_stat_at(r, s, &x->algorithms[k], PB_REGRET, any->at[any->n_checkpoints - 1]).mean;
        second = v > first ? first : v > second ? v : second;
        first = v > first ? v : first;
    }
    return second > 0 && first > 2 * second ? 2 * second : 0;
}

/* Times are on a logarithmic axis, which has no zero to start from. */
static void put_range(FILE *f, const struct pb_results *r, const struct pb_setting *s)
{
    const double end = r->experiment->plot == PB_PLOT_REGRET ? axis_end(r, s) : 0;

    if (r->experiment->plot == PB_PLOT_SECONDS)
        return;
    if (end > 0)
        fprintf(f, "set yrange [0:%g]\n", end);
    else
        fputs("set yrange [0:*]\n", f);
}

/* Colours come round again as dashed lines. */
static size_t line_type(size_t k)
{
    return k % N_COLOURS + 1;
}

static void put_band(FILE *f, const struct pb_experiment *x, const struct pb_setting *s, size_t k)
{
    fprintf(
        f,
        "\"%s-%s.dat\" index %zu using 1:($2-$3):($2+$3) with filledcurves fs transparent solid 0.15 noborder lt %zu "
        "notitle",
        x->name, s->name, k, line_type(k));
}

/* Its mean: a line over rounds, or points with error bars over dictionary sizes. */
static void put_curve(FILE *f, const struct pb_experiment *x, const struct pb_setting *s, size_t k)
{
    char style[64];

    if (x->plot == PB_PLOT_DICTIONARY)
        snprintf(style, sizeof style, ":3 with yerrorbars pt 7");
    else
        snprintf(style, sizeof style, " with lines lw 2 dt %zu", k / N_COLOURS + 1);
    fprintf(f, "\"%s-%s.dat\" index %zu using 1:2%s lt %zu title \"%s\" noenhanced", x->name, s->name, k, style,
            line_type(k), x->algorithms[k].name);
}

static void put_panel(FILE *f, const struct pb_results *r, const struct pb_setting *s)
{
    const struct pb_experiment *x = r->experiment;
    const char *separator = "plot";

    fprintf(f, "set title \"%s\" noenhanced\n", s->name);
    put_range(f, r, s);
    for (int is_line = x->plot == PB_PLOT_DICTIONARY; is_line < 2; is_line++)
        for (size_t k = 0; k < x->n_algorithms; k++) {
            if (any_record(r, s, &x->algorithms[k]) == NULL)
                continue;
            fprintf(f, "%s ", separator);
            (is_line ? put_curve : put_band)(f, x, s, k);
            separator = ", \\\n";
        }
    fputs("\n", f);
}

static void put_style(FILE *f, const struct pb_experiment *x)
{
    const char *y = x->plot == PB_PLOT_SECONDS ? "milliseconds per round" : "regret";
    const char *over = x->plot == PB_PLOT_DICTIONARY ? "dictionary points" : "round";

    for (size_t i = 0; i < N_COLOURS; i++)
        fprintf(f, "set linetype %zu lc rgb \"%s\"\n", i + 1, colours[i]);
    fprintf(f, "set xlabel \"%s\"\nset ylabel \"%s\"\nset grid\nset xtics rotate by -30\n", over, y);
    fprintf(f, "set key %s samplen 1.5 spacing 0.9 font \",10\"\n",
            x->plot == PB_PLOT_DICTIONARY ? "outside right" : "top left Left reverse");
    fputs(x->plot == PB_PLOT_DICTIONARY ? "set offsets graph 0.05, graph 0.05, 0, 0\n" : "set autoscale xfix\n", f);
    if (x->plot == PB_PLOT_SECONDS)
        fputs("set logscale y\n", f);
}

/* pb_put: panels in a grid of at most three columns; four make a square. */
static void put_script(FILE *f, const void *results)
{
    const struct pb_results *r = results;
    const struct pb_experiment *x = r->experiment;
    size_t n = 0;

    for (size_t i = 0; i < x->n_settings; i++)
        n += any_record(r, &x->settings[i], NULL) != NULL;
    const size_t columns = n == 3 || n > 4 ? 3 : n > 1 ? 2 : 1, rows = (n + columns - 1) / columns;
    const size_t width = x->plot == PB_PLOT_DICTIONARY ? 2 * PANEL_WIDTH : PANEL_WIDTH; /* room for the key beside it */

    fprintf(f, "set terminal svg size %zu,%zu dynamic background rgb \"white\"\n", columns * width,
            rows * PANEL_HEIGHT);
    fprintf(f, "set output \"%s.svg\"\nset multiplot layout %zu,%zu\n", x->name, rows, columns);
    put_style(f, x);
    for (size_t i = 0; i < x->n_settings; i++)
        if (any_record(r, &x->settings[i], NULL) != NULL)
            put_panel(f, r, &x->settings[i]);
    fputs("unset multiplot\n", f);
}

/* ---- gnuplot --------------------------------------------------------------------------------------------------- */

/* posix_spawnp says ENOENT when there is no gnuplot; scripts name files relative to dir, hence env's -C. */
enum kb_err pb_draw(const char *dir, const char *name, pb_put put, const void *arg)
{
    char script[MAX_PATH];
    char *const argv[] = {"env", "-C", (char *)(uintptr_t)dir, "gnuplot", script, NULL};
    pid_t pid;
    int status = 127 << 8; /* what env exits with when it finds no gnuplot */
    const enum kb_err rc = pb_write(dir, name, ".gp", put, arg);

    if (rc != KB_OK)
        return rc;
    snprintf(script, sizeof script, "%s.gp", name);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "paperbench: no plot from %s/%s: is gnuplot there? (sh tools/setup.sh --paper)\n", dir, script);
    return KB_OK;
}

/* Nothing is drawn of an experiment without a done run, which gnuplot would call an error. */
enum kb_err pb_plot(const struct pb_results *results)
{
    const struct pb_experiment *x = results->experiment;
    enum kb_err rc = KB_OK;

    if (any_record(results, NULL, NULL) == NULL || x->plot == PB_PLOT_NONE)
        return KB_OK;
    for (size_t i = 0; i < x->n_settings; i++)
        if (any_record(results, &x->settings[i], NULL) != NULL)
            KB_TRY(write_data(results, &x->settings[i]));
    rc = pb_draw(results->dir, x->name, put_script, results);
out:
    return rc;
}
