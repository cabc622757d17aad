/* A simulation of many cells, shared out between processes: the main of such a program. */
#ifndef KBT_CELLS_H
#define KBT_CELLS_H

#include <stddef.h>

/*   NAME [RUNS [STEP [FIRST]]]     cells FIRST (0), FIRST + STEP (1), ... below n
 *
 * *n_runs is set from RUNS, where that is given. Each cell is a case of its own, since libcheck keeps a record of every
 * assertion until a case ends. The exit status: 0, 1 where a cell ended badly, 2 for arguments that are none. */
int kbt_run_cells(int argc, char **argv, const char *name, size_t n, unsigned *n_runs, void (*run)(size_t cell));

#endif
