/* paperbench: the experiments of the papers, run through the engine of core/ (docs/REPRODUCTION.md).
 *
 *   environment   env_*.c   what a round shows and what it pays; all its randomness comes from one seed
 *   algorithm     a row: preset, changes to its spec, perhaps a schedule; becomes a learner (learner.c)
 *   run           environment x algorithm x seed -> one record, a JSON line (run.c)
 *   experiment    exp_*.c   environments x algorithms x seeds, the printed figures to set beside them, plots
 *
 * One run is one child process (jobs.c), so runs share nothing and a crash is one failed run. Letters: t round, T
 * rounds, n users, d dimension, C arms shown. Errors are enum kb_err as everywhere; a failed run says why on stderr. */
#ifndef PB_PAPER_H
#define PB_PAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "spec/event.h"
#include "spec/spec.h"

/* --- environments ------------------------------------------------------------------------------------- */

/* What a round shows; arrays belong to the environment until its next round. */
struct pb_round {
    const char *user;
    const double *context; /* context_dim values */
    size_t n_arms;
    const char *const *arm;        /* [n_arms] ids; environments with fresh arms reuse "a0", "a1", ... */
    const double *const *features; /* [n_arms], arm_dim values each; NULL when arm_dim is 0 */
    const double *mean;            /* [n_arms] f: what regret is measured on; learners never see it */
    double best; /* what the round's regret compares with: max mean, unless the paper says otherwise */
};

struct pb_env {
    const struct pb_env_ops *ops;
    uint32_t context_dim, arm_dim;
    size_t n_users; /* of the graph; 0: no graph, one user */
    const struct kb_ev_edge *edges;
    const char *const *users;
    size_t n_edges;
    double noise;                   /* sigma */
    double norm;                    /* |f| in the kernel's space where the environment fixes it, else 0 */
    enum kb_vec_kernel_type kernel; /* of the environment's f over arms, where learners are told it */
    double lengthscale; /* of the environment's kernel, or the median heuristic where the paper's learners use that */
};

struct pb_env_ops {
    /* Round t = 0, 1, ...; to be called in order. Must not depend on what was chosen. */
    void (*round)(struct pb_env *env, size_t t, struct pb_round *out);
    /* Noisy reward of arm `chosen` of the round shown last. */
    double (*reward)(struct pb_env *env, size_t chosen);
    void (*close)(struct pb_env *env);
};

/* A named setting of an environment, with its parameters in `value` (each env_*.c says which). */
#define PB_MAX_VALUES 8
struct pb_setting {
    const char *name; /* in records: "lk-medium-er-n50" */
    enum kb_err (*open)(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out);
    double value[PB_MAX_VALUES];
    size_t rounds;  /* of this setting, where those of an experiment differ; 0: the experiment's */
    size_t also_at; /* a checkpoint of its own, where something is printed for an earlier round; 0: none */
};

/* --- algorithms ---------------------------------------------------------------------------------------- */

struct pb_algorithm {
    const char *name;   /* in records: "lk-gp-ucb" */
    const char *preset; /* row of core/spec/presets.c */
    /* Values the experiment gives the preset for this environment; may be NULL. `value` is the row's own. */
    void (*tune)(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
    double value[PB_MAX_VALUES];
    /* Called before round t; true when *spec was changed (a schedule): the learner is then configured anew through
     * the engine, as a tenant's PUT would be. May be NULL. */
    bool (*schedule)(struct kb_spec *spec, const struct pb_env *env, size_t t, size_t rounds, const double *value);
    bool first_is_uniform; /* the first action is drawn uniformly, as TC has it */
    bool is_by_decision; /* learns by decided + rewarded events in place of observed ones: rules that read decisions */
};

/* --- a run ----------------------------------------------------------------------------------------------- */

#define PB_MAX_CHECKPOINTS 64
struct pb_record {
    const char *experiment, *setting, *algorithm;
    uint64_t seed;
    size_t rounds, n_checkpoints;
    size_t at[PB_MAX_CHECKPOINTS];      /* rounds done */
    double regret[PB_MAX_CHECKPOINTS];  /* cumulative pseudo-regret at each */
    double seconds[PB_MAX_CHECKPOINTS]; /* CPU seconds in decide + learn + settle at each */
    size_t dictionary[PB_MAX_CHECKPOINTS];
    uint64_t n_empty;                                     /* decisions with an empty confidence set */
    double decide_seconds, learn_seconds, settle_seconds; /* CPU, totals; their sum is the last of `seconds` */
    char blas_core[32];
};

/* Runs one algorithm on one environment; fills all of *out but `experiment`. */
enum kb_err pb_run(const struct pb_setting *setting, const struct pb_algorithm *algorithm, uint64_t seed, size_t rounds,
                   struct pb_record *out);

/* --- experiments ------------------------------------------------------------------------------------------- */

/* A figure that a paper prints, to be set beside ours. sd or se is 0 where none is printed. */
struct pb_printed {
    const char *setting, *algorithm;
    size_t at; /* round */
    double mean, sd, se;
};

struct pb_experiment {
    const char *name;  /* "tc-table1" */
    const char *about; /* one line: paper, table or figure */
    const struct pb_setting *settings;
    size_t n_settings;
    const struct pb_algorithm *algorithms;
    size_t n_algorithms;
    size_t rounds, reps; /* the paper's; --rounds and --reps override */
    const struct pb_printed *printed;
    size_t n_printed;
    /* How it is drawn: regret over rounds, or seconds over rounds, or a table only. */
    enum { PB_PLOT_REGRET, PB_PLOT_SECONDS, PB_PLOT_DICTIONARY, PB_PLOT_NONE } plot;
    /* An experiment that is not runs (lk-rank, bkb-starvation, bounds-width) does its own work instead, and writes a
     * line for each part of it to `lines`, which is DIR/NAME.jsonl. */
    enum kb_err (*custom)(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir, FILE *lines);
};

/* An experiment's tables, with their lengths. */
#define PB_COUNT(table) (sizeof(table) / sizeof *(table))
#define PB_SETTINGS(table) .settings = table, .n_settings = PB_COUNT(table)
#define PB_ALGORITHMS(table) .algorithms = table, .n_algorithms = PB_COUNT(table)
#define PB_PRINTED(table) .printed = table, .n_printed = PB_COUNT(table)

extern const struct pb_experiment *const pb_experiments[]; /* all, NULL behind the last (experiments.c) */
extern const struct pb_experiment pb_lk_table1, pb_lk_laplaced, pb_lk_dictionary;             /* exp_lk.c */
extern const struct pb_experiment pb_lk_fig2, pb_lk_fig3, pb_lk_fig4, pb_lk_fig5, pb_lk_fig6; /* exp_lk_figs.c */
extern const struct pb_experiment pb_lk_rank;                                                 /* exp_lk_rank.c */
extern const struct pb_experiment pb_tc_table1, pb_tc_dims, pb_tc_loose, pb_tc_time;          /* exp_tc.c */
extern const struct pb_experiment pb_tc_fig1;                                                 /* exp_tc_fig1.c */
extern const struct pb_experiment pb_ek_bump, pb_ek_chessboard, pb_ek_step;                   /* exp_ek.c */
extern const struct pb_experiment pb_ek_time;                                                 /* exp_ek_time.c */
extern const struct pb_experiment pb_bkb_starvation, pb_bounds_width; /* exp_bkb.c, exp_width.c */

/* --- for custom experiments ---------------------------------------------------------------------------------- */

/* Makes the folder and those above it. KB_EINVAL, said on stderr. */
enum kb_err pb_make_dir(const char *dir);

/* DIR/NAMESUFFIX for writing, the caller's to close. NULL, said on stderr. */
FILE *pb_create(const char *dir, const char *name, const char *suffix);

/* Writes the file by `put`. KB_EINVAL, said on stderr, when it cannot be made. */
typedef void (*pb_put)(FILE *f, const void *arg);
enum kb_err pb_write(const char *dir, const char *name, const char *suffix, pb_put put, const void *arg);

/* The experiment's table, in Markdown, which is as readable on a terminal: on stdout and in DIR/NAME.md. */
enum kb_err pb_write_table(const struct pb_experiment *x, const char *dir, pb_put put, const void *arg);

/* Writes the script DIR/NAME.gp and runs gnuplot on it, inside `dir`: paths in the script are relative. Says so and
 * goes on when there is no gnuplot. */
enum kb_err pb_draw(const char *dir, const char *name, pb_put put, const void *arg);

#endif
