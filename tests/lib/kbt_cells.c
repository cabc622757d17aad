/* See kbt_cells.h. */
#include "kbt_cells.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static size_t step = 1, first = 0;
static void (*run_cell)(size_t cell);

START_TEST(cell)
{
    run_cell(first + (size_t)_i * step);
}
END_TEST

/* Number of cells that ended badly, in this process. */
static int run_all(const char *name, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create("cells");
    SRunner *runner = srunner_create(suite);
    int n_failed;
    suite_add_tcase(suite, all);
    tcase_add_loop_test(all, cell, 0, (int)((n - first + step - 1) / step));
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

int kbt_run_cells(int argc, char **argv, const char *name, size_t n, unsigned *n_runs, void (*run)(size_t cell))
{
    *n_runs = (unsigned)number(argc, argv, 1, *n_runs);
    step = number(argc, argv, 2, step);
    first = number(argc, argv, 3, first);
    run_cell = run;
    if (*n_runs == 0 || step == 0 || first >= n) {
        fprintf(stderr, "usage: %s [RUNS [STEP [FIRST]]]\n", name);
        return 2;
    }
    return run_all(name, n) == 0 ? 0 : 1;
}
