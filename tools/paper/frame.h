/* The frame around runs: what the files of paperbench share that no experiment needs to know. */
#ifndef PB_FRAME_H
#define PB_FRAME_H

#include <stdio.h>

#include "paper/paper.h"

/* A run to be made, or made: one cell of settings x algorithms x seeds. */
struct pb_task {
    const struct pb_setting *setting;
    const struct pb_algorithm *algorithm;
    uint64_t seed;
    size_t rounds;
    bool is_done; /* record is filled */
    bool is_read; /* it came from the file of an earlier call */
    struct pb_record record;
};

/* All runs of an experiment that were asked for. */
struct pb_results {
    const struct pb_experiment *experiment;
    const char *dir;      /* --out */
    struct pb_task *task; /* [n] */
    size_t n, n_failed;
};

/* --- record.c -------------------------------------------------------------------------------------------- */

/* One JSON line; numbers with all their digits. */
void pb_record_write(FILE *f, const struct pb_record *r);

/* Reads DIR/NAME.jsonl and fills every task that it holds a whole record of. A missing file holds none. Returns how
 * many were filled. */
size_t pb_records_read(struct pb_results *results);

/* The file opened for appending, behind whole lines; emptied first when is_fresh. NULL, said on stderr. */
FILE *pb_records_append(const struct pb_results *results, bool is_fresh);

/* --- jobs.c ---------------------------------------------------------------------------------------------- */

/* Runs every task that is not done, n_parallel at a time, each in a child process. `done` is called as each ends, with
 * is_done set or, for a failed run, not; `tick` about five times a second. Failed runs are counted in results. */
enum kb_err pb_jobs_run(struct pb_results *results, size_t n_parallel,
                        void (*done)(void *arg, const struct pb_task *task), void (*tick)(void *arg), void *arg);

/* --- progress.c ------------------------------------------------------------------------------------------- */

struct pb_progress {
    const char *name;
    size_t n_done, n_all;
    double start, last; /* monotonic seconds */
    bool is_terminal;
};

void pb_progress_init(struct pb_progress *p, const char *name, size_t n_all);
void pb_progress_show(struct pb_progress *p);  /* when it is time to */
void pb_progress_clear(struct pb_progress *p); /* before other output */

/* --- report.c, plot.c -------------------------------------------------------------------------------------- */

/* Mean, standard deviation and standard error over seeds of a quantity at a checkpoint. */
struct pb_stat {
    size_t n;
    double mean, sd, se; /* 0 for less than two */
};

/* Which column of a record. */
enum pb_quantity { PB_REGRET, PB_SECONDS, PB_DICTIONARY };

/* Over the done runs of a setting and an algorithm, at the checkpoint of round `at`. n = 0 when there is none. */
struct pb_stat pb_stat_at(const struct pb_results *results, const struct pb_setting *s, const struct pb_algorithm *a,
                          enum pb_quantity q, size_t at);

/* Tables: plain text on stdout, Markdown in DIR/NAME.md. */
enum kb_err pb_report(const struct pb_results *results);

/* Data and gnuplot script in DIR, and DIR/NAME.svg where there is gnuplot. */
enum kb_err pb_plot(const struct pb_results *results);

#endif
