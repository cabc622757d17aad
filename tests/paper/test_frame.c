/* Runs, records, jobs and statistics of paperbench, on an environment whose regret can be counted by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "paper/frame.h"
#include "toy_env.h"

static const struct pb_setting toy_deadly = {.name = "toy-deadly", .open = toy_open, .value = {1, 0}};
static const struct pb_setting settings[] = {{.name = "toy", .open = toy_open},
                                             {.name = "toy-deadly", .open = toy_open, .value = {1, 0}}};
static const struct pb_algorithm algorithms[] = {{.name = "random", .preset = "random"},
                                                 {.name = "gp-ucb", .preset = "gp-ucb"}};
static const struct pb_experiment experiment = {.name = "toy-table",
                                                .about = "a toy",
                                                .settings = settings,
                                                .n_settings = 2,
                                                .algorithms = algorithms,
                                                .n_algorithms = 2,
                                                .rounds = 50,
                                                .reps = 3};

/* A folder of its own; removed by drop_dir. */
static char dir[] = "/tmp/paperbench-XXXXXX";

static void make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void drop_dir(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void name_file(char *path, const char *suffix)
{
    snprintf(path, 128, "%s/toy-table%s", dir, suffix);
}

/* n runs of the first setting by each algorithm in turn, seeds 0, 0, 1, 1, ... */
static struct pb_results make_results(struct pb_task *task, size_t n)
{
    for (size_t i = 0; i < n; i++)
        task[i] = (struct pb_task){
            .setting = &settings[0], .algorithm = &algorithms[i % 2], .seed = i / 2, .rounds = experiment.rounds};
    return (struct pb_results){.experiment = &experiment, .dir = dir, .task = task, .n = n};
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

START_TEST(regret_is_counted_on_means_at_even_checkpoints)
{
    struct pb_record r;

    ck_assert_int_eq(pb_run(&toy_plain, &algorithms[0], 3, 100, &r), KB_OK);
    ck_assert_uint_eq(r.n_checkpoints, 40);
    for (size_t i = 0; i < 40; i++)
        ck_assert_uint_eq(r.at[i], (i + 1) * 100 / 40);
    ck_assert_uint_eq(toy.n_chosen[0] + toy.n_chosen[1] + toy.n_chosen[2], 100);
    const double want = 0.75 * (double)toy.n_chosen[0] + 0.5 * (double)toy.n_chosen[2];
    ck_assert(kbt_close(r.regret[39], want, 1e-12));
    ck_assert(want > 0 && r.regret[0] >= 0 && r.regret[0] <= 2 * 0.75);
    ck_assert(kbt_close(r.seconds[39], r.decide_seconds + r.learn_seconds + r.settle_seconds, 1e-9));
    ck_assert(r.seconds[0] > 0 && r.blas_core[0] != '\0');
}
END_TEST

/* Also where it falls between two even ones, or upon one; the end stays the end. */
START_TEST(a_setting_may_have_a_checkpoint_of_its_own)
{
    static const size_t also[] = {51, 50}, n[] = {41, 40}; /* even ones are 2, 5, 7, 10, ... */
    struct pb_record plain, r;

    ck_assert_int_eq(pb_run(&toy_plain, &algorithms[0], 3, 100, &plain), KB_OK);
    for (size_t k = 0; k < 2; k++) {
        struct pb_setting s = toy_plain;
        size_t i = 0;

        s.also_at = also[k];
        ck_assert_int_eq(pb_run(&s, &algorithms[0], 3, 100, &r), KB_OK);
        ck_assert_uint_eq(r.n_checkpoints, n[k]);
        while (r.at[i] != also[k])
            i++;
        ck_assert(i > 0 && r.at[i - 1] < also[k] && r.at[r.n_checkpoints - 1] == 100);
        ck_assert(r.regret[r.n_checkpoints - 1] == plain.regret[39]);
    }
}
END_TEST

START_TEST(a_short_run_has_a_checkpoint_every_round)
{
    struct pb_record r;

    ck_assert_int_eq(pb_run(&toy_plain, &algorithms[1], 3, 7, &r), KB_OK);
    ck_assert_uint_eq(r.n_checkpoints, 7);
    for (size_t i = 0; i < 7; i++)
        ck_assert(r.at[i] == i + 1 && r.dictionary[i] == i + 1);
}
END_TEST

/* ---- records -------------------------------------------------------------------------------------------------- */

static struct pb_record odd_record(uint64_t seed)
{
    struct pb_record r = {.experiment = "toy-table",
                          .setting = "toy",
                          .algorithm = "random",
                          .seed = seed,
                          .rounds = 50,
                          .n_checkpoints = 2,
                          .at = {25, 50},
                          .regret = {0.1, 1.0 / 3},
                          .seconds = {1e-300, 12345.678901234567},
                          .dictionary = {0, 99},
                          .n_empty = 17,
                          .decide_seconds = 0.3,
                          .learn_seconds = 2e-7,
                          .settle_seconds = 3.14,
                          .blas_core = "SkylakeX"};
    return r;
}

static void append(const struct pb_results *results, const struct pb_record *r)
{
    FILE *f = pb_records_append(results, false);

    ck_assert_ptr_nonnull(f);
    pb_record_write(f, r);
    fclose(f);
}

START_TEST(a_record_comes_back_bit_for_bit)
{
    struct pb_task task[4];
    struct pb_results results = make_results(task, 4);
    const struct pb_record want = odd_record(1);

    make_dir();
    append(&results, &want);
    ck_assert_uint_eq(pb_records_read(&results), 1);
    ck_assert(task[2].is_done && task[2].is_read && !task[0].is_done && !task[1].is_done && !task[3].is_done);
    const struct pb_record *got = &task[2].record;
    ck_assert_str_eq(got->setting, "toy");
    ck_assert_str_eq(got->blas_core, "SkylakeX");
    ck_assert_mem_eq(got->at, want.at, sizeof want.at);
    ck_assert_mem_eq(got->regret, want.regret, sizeof want.regret);
    ck_assert_mem_eq(got->seconds, want.seconds, sizeof want.seconds);
    ck_assert_mem_eq(got->dictionary, want.dictionary, sizeof want.dictionary);
    ck_assert(got->n_empty == 17 && got->decide_seconds == 0.3 && got->learn_seconds == 2e-7);
    ck_assert(got->settle_seconds == 3.14 && got->n_checkpoints == 2);
    drop_dir();
}
END_TEST

START_TEST(records_of_other_runs_are_passed_over)
{
    struct pb_task task[2];
    struct pb_results results = make_results(task, 2);
    struct pb_record r = odd_record(5);

    make_dir();
    append(&results, &r);
    r = odd_record(0), r.rounds = 51;
    append(&results, &r);
    r = odd_record(0), r.setting = "to";
    append(&results, &r);
    r = odd_record(0), r.algorithm = "random-2";
    append(&results, &r);
    r = odd_record(0), r.experiment = "toy";
    append(&results, &r);
    ck_assert_uint_eq(pb_records_read(&results), 0);
    drop_dir();
}
END_TEST

/* What a kill in the middle of a write leaves, and a record behind it. */
START_TEST(a_record_that_was_cut_off_is_none_and_spoils_none)
{
    struct pb_task task[4];
    struct pb_results results = make_results(task, 4);
    const struct pb_record whole = odd_record(0), next = odd_record(1);
    char path[128];
    long size;

    make_dir();
    name_file(path, ".jsonl");
    append(&results, &whole);
    FILE *f = fopen(path, "r+");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    fclose(f);
    ck_assert_int_eq(truncate(path, size - 3), 0);
    ck_assert_uint_eq(pb_records_read(&results), 0);
    append(&results, &next);
    ck_assert_uint_eq(pb_records_read(&results), 1);
    ck_assert(task[2].is_done && !task[0].is_done);
    drop_dir();
}
END_TEST

START_TEST(a_fresh_start_forgets_the_records)
{
    struct pb_task task[2];
    struct pb_results results = make_results(task, 2);
    const struct pb_record r = odd_record(0);

    make_dir();
    append(&results, &r);
    fclose(pb_records_append(&results, true));
    ck_assert_uint_eq(pb_records_read(&results), 0);
    drop_dir();
}
END_TEST

/* ---- jobs ------------------------------------------------------------------------------------------------------ */

struct seen {
    size_t n_done, n_good;
};

static void on_done(void *arg, const struct pb_task *task)
{
    struct seen *seen = arg;

    seen->n_done++;
    seen->n_good += task->is_done;
}

static void on_tick(void *arg)
{
    (void)arg;
}

/* The child's record is the one that the same run gives here, except for its times. */
START_TEST(children_bring_back_the_records_of_their_runs)
{
    struct pb_task task[6];
    struct pb_results results = make_results(task, 6);
    struct seen seen = {0};
    struct pb_record want;

    ck_assert_int_eq(pb_jobs_run(&results, 2, on_done, on_tick, &seen), KB_OK);
    ck_assert(seen.n_done == 6 && seen.n_good == 6 && results.n_failed == 0);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_int_eq(pb_run(task[i].setting, task[i].algorithm, task[i].seed, task[i].rounds, &want), KB_OK);
        ck_assert_mem_eq(task[i].record.regret, want.regret, sizeof want.regret);
        ck_assert_str_eq(task[i].record.experiment, "toy-table");
        ck_assert(task[i].record.seed == i / 2);
    }
}
END_TEST

START_TEST(a_run_that_crashes_is_one_failed_run)
{
    struct pb_task task[4];
    struct pb_results results = make_results(task, 4);
    struct seen seen = {0};

    task[1].setting = &toy_deadly;
    ck_assert_int_eq(pb_jobs_run(&results, 2, on_done, on_tick, &seen), KB_OK);
    ck_assert(seen.n_done == 4 && seen.n_good == 3 && results.n_failed == 1);
    ck_assert(task[0].is_done && !task[1].is_done && task[2].is_done && task[3].is_done);
}
END_TEST

START_TEST(runs_that_stand_in_the_records_are_not_made_again)
{
    struct pb_task task[2];
    struct pb_results results = make_results(task, 2);
    struct seen seen = {0};

    task[0].is_done = true;
    task[0].setting = &toy_deadly;
    ck_assert_int_eq(pb_jobs_run(&results, 1, on_done, on_tick, &seen), KB_OK);
    ck_assert(seen.n_done == 1 && seen.n_good == 1);
}
END_TEST

/* ---- figures ---------------------------------------------------------------------------------------------------- */

/* Regrets 1, 2, 6: mean 3, sd sqrt(7), se sqrt(7/3). The other algorithm's and unfinished runs do not count. */
START_TEST(means_and_errors_are_those_of_the_textbook)
{
    struct pb_task task[8];
    struct pb_results results = make_results(task, 8);
    const double regret[4] = {1, 2, 6, 1000};

    for (size_t i = 0; i < 8; i++) {
        task[i].record = odd_record(i / 2);
        task[i].record.regret[1] = i % 2 == 0 ? regret[i / 2] : 50;
        task[i].is_done = i != 6;
    }
    const struct pb_stat s = pb_stat_at(&results, &settings[0], &algorithms[0], PB_REGRET, 50);
    ck_assert_uint_eq(s.n, 3);
    ck_assert(kbt_close(s.mean, 3, 1e-14) && kbt_close(s.sd, sqrt(7), 1e-14) && kbt_close(s.se, sqrt(7 / 3.0), 1e-14));
    ck_assert_uint_eq(pb_stat_at(&results, &settings[0], &algorithms[0], PB_REGRET, 49).n, 0);
    ck_assert(pb_stat_at(&results, &settings[0], &algorithms[0], PB_DICTIONARY, 50).mean == 99);
    ck_assert_uint_eq(pb_stat_at(&results, &settings[1], &algorithms[0], PB_REGRET, 50).n, 0);
}
END_TEST

static void read_file(const char *suffix, char *text, size_t size)
{
    char path[128];

    name_file(path, suffix);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

START_TEST(the_table_sets_the_printed_figure_beside_ours)
{
    static const struct pb_printed printed[] = {
        {.setting = "toy", .algorithm = "random", .at = 50, .mean = 4, .sd = 2},
        {.setting = "toy", .algorithm = "random", .at = 25, .mean = 2, .se = 0.5},
        {.setting = "toy", .algorithm = "random", .at = 49, .mean = 77}, /* no checkpoint: left out */
    };
    struct pb_experiment x = experiment;
    struct pb_task task[1];
    struct pb_results results = make_results(task, 1);
    char text[2048];

    x.printed = printed;
    x.n_printed = 3;
    results.experiment = &x;
    task[0].record = odd_record(0);
    task[0].record.regret[0] = 1;
    task[0].record.regret[1] = 5;
    task[0].is_done = true;
    make_dir();
    ck_assert_int_eq(pb_report(&results), KB_OK);
    read_file(".md", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "| toy | random | 1 | 50 | 5.0 | 0.0 | 0.0 | 4.0 (sd 2.0) | 1.25 | +0.5 sd |"));
    ck_assert_ptr_nonnull(strstr(text, "| toy | random | 1 | 25 | 1.0 | 0.0 | 0.0 | 2.0+-0.5 | 0.50 | -2.0 se |"));
    ck_assert_ptr_null(strstr(text, "77"));
    ck_assert_ptr_null(strstr(text, "gp-ucb"));
    ck_assert_ptr_nonnull(strstr(text, "SkylakeX; decisions with an empty confidence set: 17; failed runs: 0"));
    drop_dir();
}
END_TEST

int main(void)
{
    return KBT_RUN("frame", regret_is_counted_on_means_at_even_checkpoints, a_short_run_has_a_checkpoint_every_round,
                   a_setting_may_have_a_checkpoint_of_its_own, a_record_comes_back_bit_for_bit,
                   records_of_other_runs_are_passed_over, a_record_that_was_cut_off_is_none_and_spoils_none,
                   a_fresh_start_forgets_the_records, children_bring_back_the_records_of_their_runs,
                   a_run_that_crashes_is_one_failed_run, runs_that_stand_in_the_records_are_not_made_again,
                   means_and_errors_are_those_of_the_textbook, the_table_sets_the_printed_figure_beside_ours);
}
