/* The whole coverage simulation (tests/lib/kbt_coverage.h): every rule over kernels, noises, functions, ridges, norms
 * and representations, a line of JSON each on standard output. tests/coverage/table.py judges them.
 *
 *   coverage [RUNS [STEP [FIRST]]]     runs of each rule in each cell (10); cells FIRST (0), FIRST + STEP (1), ... */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "kbt_coverage.h"

static unsigned n_runs = 10;
static size_t step = 1, first = 0;

static const double ridges[] = {1e-4, 1e-2, 0.25, 1};
static const double norms[] = {1e-3, 0.1, 10};
static const enum kb_repr_type representations[] = {KB_REPR_EXACT, KB_REPR_KORS, KB_REPR_THRESHOLD, KB_REPR_BKB};

#define N_RIDGES (sizeof ridges / sizeof *ridges)
#define N_NORMS (sizeof norms / sizeof *norms)
#define N_REPRESENTATIONS (sizeof representations / sizeof *representations)
#define N_CELLS                                                                                                        \
    (KBT_COVER_N_KERNELS * KBT_COVER_N_NOISES * KBT_COVER_N_TARGETS * N_RIDGES * N_NORMS * N_REPRESENTATIONS)

/* The cell of a number below N_CELLS; the representation changes fastest. */
static struct kbt_cover_cell cell_of(size_t i)
{
    struct kbt_cover_cell cell = {.repr = representations[i % N_REPRESENTATIONS]};
    i /= N_REPRESENTATIONS;
    cell.norm = norms[i % N_NORMS];
    i /= N_NORMS;
    cell.lambda = ridges[i % N_RIDGES];
    i /= N_RIDGES;
    cell.target = (enum kbt_cover_target)(i % KBT_COVER_N_TARGETS);
    i /= KBT_COVER_N_TARGETS;
    cell.noise = (enum kbt_cover_noise)(i % KBT_COVER_N_NOISES);
    cell.kernel = (enum kbt_cover_kernel)(i / KBT_COVER_N_NOISES);
    return cell;
}

static void tell(const struct kbt_cover_cell *c, const struct kbt_cover_rule *rule, unsigned violated)
{
    printf("{\"rule\":\"%s\",\"control\":%s,\"representation\":\"%s\",\"kernel\":\"%s\",\"noise\":\"%s\",\"f\":\"%s\","
           "\"lambda\":%g,\"norm\":%g,\"runs\":%u,\"violated\":%u}\n",
           rule->name, rule->twist == KBT_COVER_AS_IS ? "false" : "true", kb_word(&kb_repr_words, (int)c->repr),
           kbt_cover_kernel_names[c->kernel], kbt_cover_noise_names[c->noise], kbt_cover_target_names[c->target],
           c->lambda, c->norm, n_runs, violated);
    fflush(stdout);
}

/* One cell: a case of its own, since libcheck keeps a record of every assertion until a case ends. */
START_TEST(cell)
{
    const struct kbt_cover_cell at = cell_of(first + (size_t)_i * step);
    for (unsigned r = 0; r < kbt_cover_n_rules; r++)
        if (kbt_cover_has(&at, &kbt_cover_rules[r]))
            tell(&at, &kbt_cover_rules[r], kbt_cover_count(&at, &kbt_cover_rules[r], n_runs));
}
END_TEST

/* Number of cells that ended badly, in this process. */
static int run_cells(void)
{
    Suite *suite = suite_create("coverage");
    TCase *all = tcase_create("cells");
    SRunner *runner = srunner_create(suite);
    int n_failed;
    suite_add_tcase(suite, all);
    tcase_add_loop_test(all, cell, 0, (int)((N_CELLS - first + step - 1) / step));
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed;
}

static size_t number(int argc, char **argv, int i, size_t otherwise)
{
    return argc > i ? strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    n_runs = (unsigned)number(argc, argv, 1, n_runs);
    step = number(argc, argv, 2, step);
    first = number(argc, argv, 3, first);
    if (n_runs == 0 || step == 0 || first >= N_CELLS) {
        fprintf(stderr, "usage: coverage [RUNS [STEP [FIRST]]]\n");
        return 2;
    }
    return run_cells() == 0 ? 0 : 1;
}
