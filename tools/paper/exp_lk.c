/* lk-table1, lk-laplaced, lk-dictionary: [LK, Table 1] and our representations on its environment.
 *
 * The medium task, a GP draw on an ER graph: 20 items of R^10, T = 3,000. "fitted" is the reading of the text that
 * gives the printed level, "literal" and "theorem" are the text (env_lk.c); the printed figures stand beside "fitted".
 *
 * Fairness of lk-laplaced and lk-dictionary: every row has LK-GP-UCB's kernel, schedule of lambda and beta, whatever
 * its preset says, and differs in the representation alone. The exact model of core/ merges rounds that show the same
 * user and item, bit for bit, which the paper's does not; in the settings "apart" items come with coordinates that
 * differ in the eighth digit from round to round, so that the exact model is the paper's t x t one. A dictionary sees
 * through that: such a twin has no residual and is never admitted. */
#include "paper/exp_lk.h"

/* --- Table 1 ------------------------------------------------------------------------------------------------ */

/* What grows with n is the number of distinct (user, item) cells, and with it the exact model: 400 cells at n = 20,
 * 4,000 at 200, of which LK-GP-UCB visits about 240 and 1,100 in its 3,000 rounds. */
#define FITTED_SETTING(n) PB_LK_SETTING("lk-medium-er-n" #n, n, ER, MEDIUM, GP, FITTED, 0)
#define TABLE1_SETTINGS FITTED_SETTING(20), FITTED_SETTING(50), FITTED_SETTING(100), FITTED_SETTING(200)
static const struct pb_setting table1_settings[] = {
    TABLE1_SETTINGS,
    PB_LK_SETTING("lk-medium-er-n20-literal", 20, ER, MEDIUM, GP, LITERAL, 0),
    PB_LK_SETTING("lk-medium-er-n20-theorem", 20, ER, MEDIUM, GP, THEOREM, 0),
};

/* Mean and standard error over R = 20 trials, as printed; stated for the last round. */
#define T1_ROUNDS 3000u
#define AT_N(n, algorithm, mean, se)                                                                                   \
    {                                                                                                                  \
        "lk-medium-er-n" #n, algorithm, T1_ROUNDS, mean, 0, se                                                         \
    }
#define ROW(algorithm, m20, se20, m50, se50, m100, se100, m200, se200)                                                 \
    AT_N(20, algorithm, m20, se20), AT_N(50, algorithm, m50, se50), AT_N(100, algorithm, m100, se100),                 \
        AT_N(200, algorithm, m200, se200)

static const struct pb_printed table1_printed[] = {
    ROW("lk-gp-ucb", 627.22, 32.98, 892.43, 21.73, 1062.69, 18.29, 1157.74, 23.02),
    ROW("lk-gp-ts", 634.46, 22.78, 943.41, 19.56, 1176.23, 15.77, 1260.35, 16.23),
    ROW("coop-kernel-ucb", 730.06, 31.02, 1015.35, 22.18, 1273.28, 17.36, 1358.48, 14.22),
    ROW("gob-lin", 1092.86, 71.70, 1203.32, 18.57, 1370.51, 16.78, 1432.48, 18.72),
    ROW("graph-ucb", 1105.20, 68.54, 1192.30, 22.12, 1360.02, 15.32, 1453.21, 17.81),
    ROW("gp-ucb", 2222.20, 90.26, 1964.65, 61.40, 1641.43, 37.43, 1444.83, 36.33),
    ROW("lin-ucb", 2360.95, 70.55, 1909.81, 49.49, 1723.27, 40.23, 1438.74, 26.44),
    ROW("lin-ucb-per-user", 1117.87, 72.04, 1221.99, 22.03, 1432.89, 18.81, 1527.04, 17.61),
};

const struct pb_experiment pb_lk_table1 = {
    .name = "lk-table1",
    .about = "LK Table 1: regret of eight systems, GP draw on ER graphs, n = 20..200, and the text's own readings",
    PB_SETTINGS(table1_settings),
    PB_ALGORITHMS(pb_lk_systems),
    PB_PRINTED(table1_printed),
    .rounds = T1_ROUNDS,
    .reps = 20};

/* --- ours beside exact LK-GP-UCB ------------------------------------------------------------------------------ */

/* The first of these is also the setting of lk-dictionary. */
static const struct pb_setting laplaced_settings[] = {
    TABLE1_SETTINGS,
    PB_LK_SETTING("lk-medium-er-n20-apart", 20, ER, MEDIUM, GP, FITTED, 1),
    PB_LK_SETTING("lk-medium-er-n200-apart", 200, ER, MEDIUM, GP, FITTED, 1),
};

#define EXACT_ROW PB_LK_KERNEL_ROW("lk-gp-ucb", "lk-gp-ucb", pb_lk_tune_kernel, PB_LK_BETA, 0)
#define DICTIONARY_ROW(name, tune, share, gamma)                                                                       \
    PB_LK_KERNEL_ROW(name, "laplaced-kors", tune, PB_LK_BETA, 0, share, gamma)

/* Threshold .01: items of the pool are nearly orthogonal in the kernel, so a finer one admits every distinct cell and
 * the actions are those of the exact model; a coarser one leaves cells out (lk-dictionary shows what that costs). */
static const struct pb_algorithm laplaced_rows[] = {
    EXACT_ROW,
    DICTIONARY_ROW("laplaced-kors", pb_lk_tune_threshold, .01, 0),
};

const struct pb_experiment pb_lk_laplaced = {.name = "lk-laplaced",
                                             .about = "laplaced-kors beside exact LK-GP-UCB on LK's medium task: same "
                                                      "kernel, lambda and beta, another representation",
                                             PB_SETTINGS(laplaced_settings),
                                             PB_ALGORITHMS(laplaced_rows),
                                             .rounds = T1_ROUNDS,
                                             .reps = 20,
                                             .plot = PB_PLOT_SECONDS};

/* --- regret against dictionary size --------------------------------------------------------------------------- */

#define THRESHOLD_ROW(text, share) DICTIONARY_ROW("threshold-" text, pb_lk_tune_threshold, share, 0)
#define KORS_ROW(text, share) DICTIONARY_ROW("kors-mu-" text, pb_lk_tune_kors, share, 1)

/* Each family from "every distinct cell" down to a third of them. Where users are nearly independent and arms nearly
 * orthogonal there is little to compress: the curve is to show how regret rises as the dictionary falls short of that.
 */
static const struct pb_algorithm dictionary_rows[] = {
    EXACT_ROW,
    THRESHOLD_ROW(".01", .01),
    THRESHOLD_ROW(".03", .03),
    THRESHOLD_ROW(".05", .05),
    THRESHOLD_ROW(".1", .1),
    THRESHOLD_ROW(".2", .2),
    THRESHOLD_ROW(".4", .4),
    KORS_ROW("1", 1), /* mu in units of lambda */
    KORS_ROW("10", 10),
    KORS_ROW("100", 100),
    KORS_ROW("300", 300),
    KORS_ROW("1000", 1000),
};

const struct pb_experiment pb_lk_dictionary = {
    .name = "lk-dictionary",
    .about = "Regret against dictionary size on LK's medium task, n = 20: threshold and KORS beside exact LK-GP-UCB",
    .settings = laplaced_settings,
    .n_settings = 1,
    PB_ALGORITHMS(dictionary_rows),
    .rounds = T1_ROUNDS,
    .reps = 20,
    .plot = PB_PLOT_DICTIONARY};
