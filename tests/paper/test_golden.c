/* Ten cells of docs/REPRODUCTION.md, spread over its tables: what a run recorded for them must come out again.
 *
 * The records are lines of the files that the tables were made of (tests/paper/golden/NAME.jsonl, as paperbench writes
 * them). A cell is one seed of its experiment with the experiment's own T, played to `stop` rounds, which is shorter
 * where all of them would take long: settings may depend on T, so a run with a smaller T would be another run.
 *
 * Arms that are nearly equal are told apart by the last bits, which depend on the processor's kernels of OpenBLAS. The
 * records were made on core type Cooperlake, and SkylakeX and Haswell gave the same digits: on these three regret and
 * points are held to the digit. On any other core they may leave their record by 5 %.
 *
 * A change that moves a cell moves its table: make that again, and the record with it (CONTRIBUTING.md). */
#include <math.h>
#include <string.h>

#include "paper/frame.h"
#include "kbt.h"
#include "paper/learner.h"
#include "linalg/linalg.h"
#include "model/engine_read.h"
#include "posterior/posterior.h"

#define FOLDER "tests/paper/golden"
#define DIGITS 1e-9
#define OTHER_CORE 0.05

static const struct cell {
    const char *experiment, *setting, *algorithm;
    uint64_t seed;
    size_t rounds, stop;
} cells[] = {
    {"lk-table1", "lk-medium-er-n20", "lk-gp-ucb", 0, 3000, 3000},
    {"lk-table1", "lk-medium-er-n50", "coop-kernel-ucb", 1, 3000, 3000}, /* refreshes beyond KB_INLINE_WORK */
    {"lk-laplaced", "lk-medium-er-n50", "laplaced-kors", 0, 3000, 3000}, /* likewise its rebuilds */
    {"lk-dictionary", "lk-medium-er-n20", "kors-mu-100", 2, 3000, 3000},
    {"lk-fig3", "lk-easy-er-gp", "lk-gp-ts", 0, 1000, 1000},
    {"lk-fig2", "lk-medium-rbf-linear", "gob-lin", 0, 3000, 3000},
    {"tc-table1", "tc-rbf-0.5-d3", "cmm-ucb", 0, 1000, 200},
    {"tc-table1", "tc-matern32-0.2-d3", "igp-ucb", 0, 1000, 500},
    {"ek-step", "step", "ek-ucb-l10-g1", 1, 2002, 2002},
    {"ek-chessboard", "chessboard", "cbbkb-l10-c10", 0, 2002, 2002},
};
#define N_CELLS (int)(sizeof cells / sizeof *cells)

/* The cell's names as the experiment has them. */
static const struct pb_experiment *find_experiment(const char *name)
{
    for (const struct pb_experiment *const *x = pb_experiments; *x != NULL; x++)
        if (strcmp((*x)->name, name) == 0)
            return *x;
    ck_abort_msg("no experiment %s", name);
}

static struct pb_task task_of(const struct pb_experiment *x, const struct cell *c)
{
    struct pb_task task = {.seed = c->seed, .rounds = c->rounds};

    for (size_t i = 0; i < x->n_settings; i++)
        if (strcmp(x->settings[i].name, c->setting) == 0)
            task.setting = &x->settings[i];
    for (size_t i = 0; i < x->n_algorithms; i++)
        if (strcmp(x->algorithms[i].name, c->algorithm) == 0)
            task.algorithm = &x->algorithms[i];
    ck_assert_msg(task.setting != NULL && task.algorithm != NULL, "no cell %s/%s", c->setting, c->algorithm);
    return task;
}

static bool is_known_core(void)
{
    static const char *const known[] = {"Cooperlake", "SkylakeX", "Haswell"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], kb_blas_core_name()) == 0)
            return true;
    return false;
}

static void check(const struct pb_record *want, size_t i, double regret, size_t points)
{
    const double share = is_known_core() ? DIGITS : OTHER_CORE;

    ck_assert_msg(kbt_close(regret, want->regret[i], share), "%s/%s, seed %d, round %zu: regret %.10g, recorded %.10g",
                  want->setting, want->algorithm, (int)want->seed, want->at[i], regret, want->regret[i]);
    ck_assert_msg(kbt_close((double)points, (double)want->dictionary[i], share),
                  "%s/%s, seed %d, round %zu: %zu points, recorded %zu", want->setting, want->algorithm,
                  (int)want->seed, want->at[i], points, want->dictionary[i]);
}

/* All checkpoints up to `stop`, not the last alone: two wrongs may not meet again at the end. */
static void play(const struct pb_record *want, const struct pb_task *task, size_t stop)
{
    struct pb_env *env = NULL;
    struct pb_learner *l = NULL;
    struct pb_round round;
    double regret = 0;
    size_t chosen = 0, i = 0;

    ck_assert_int_eq(task->setting->open(task->setting, task->seed, task->rounds, &env), KB_OK);
    ck_assert_int_eq(pb_learner_new(&l, task->algorithm, env, task->seed, task->rounds), KB_OK);
    for (size_t t = 0; t < stop; t++) {
        env->ops->round(env, t, &round);
        ck_assert_int_eq(pb_learner_decide(l, &round, &chosen), KB_OK);
        regret += round.best - round.mean[chosen];
        ck_assert_int_eq(pb_learner_learn(l, &round, chosen, env->ops->reward(env, chosen)), KB_OK);
        if (t + 1 == want->at[i])
            check(want, i++, regret, kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(l))));
    }
    ck_assert_uint_eq(want->at[i - 1], stop);
    pb_learner_free(l);
    env->ops->close(env);
}

START_TEST(a_cell_of_the_tables_comes_out_as_it_was_recorded)
{
    const struct cell *c = &cells[_i];
    struct pb_task task = task_of(find_experiment(c->experiment), c);
    struct pb_results results = {.experiment = find_experiment(c->experiment), .dir = FOLDER, .task = &task, .n = 1};

    kb_blas_single_thread();
    ck_assert_msg(pb_records_read(&results) == 1, "%s/%s.jsonl holds no such run", FOLDER, c->experiment);
    play(&task.record, &task, c->stop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *each = tcase_create("each cell");

    tcase_set_timeout(each, 300); /* under a sanitizer, on a busy machine */
    tcase_add_loop_test(each, a_cell_of_the_tables_comes_out_as_it_was_recorded, 0, N_CELLS);
    suite_add_tcase(suite, each);
    return kbt_run_suite(suite);
}
