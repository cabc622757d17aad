/* OpenBLAS of Debian 12 (0.3.21) picks the core type "Prescott" (SSE3) on Intel models newer than itself: a fifth of
 * the machine's speed (measured: dgemm 12-15 instead of 60-70 GFlop/s). It reads OPENBLAS_CORETYPE before main, so that
 * the one clean way to correct it is to set the variable and run again. The choice follows what the processor says,
 * never a fixed name: kernels that it lacks would end the process by SIGILL.
 *
 * By then it has started a thread for each further core, too, all of which sleep for ever, each with a buffer of 128 MB
 * of addresses: one thread is asked for in the same way.
 *
 * LAPLACED_BLAS_REEXEC holds the name that was corrected, and keeps a second attempt from becoming an endless one.
 * Without /proc (a bare chroot) the program goes on with the slow kernels and says so. */
#include "app/blas_core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "linalg/linalg.h"
#include "base/log.h"

#define GUARD "LAPLACED_BLAS_REEXEC"

/* Names as OpenBLAS 0.3 reports them. An unknown name ranks lowest: kernels invented later would be
 * replaced by ones listed here, which run, though perhaps not as fast; then add the name. */
int ld_blas_core_class(const char *name)
{
    static const struct {
        const char *name;
        int class;
    } known[] = {
        {"SapphireRapids", 3}, {"Cooperlake", 3},  {"SkylakeX", 3},  {"Zen", 2},        {"Haswell", 2},
        {"Excavator", 2},      {"Sandybridge", 1}, {"Bulldozer", 1}, {"Piledriver", 1}, {"Steamroller", 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].class;
    return 0;
}

/* A pure function, so that the choice can be tested on any machine. */
bool ld_blas_core_is_wrong(const char *now, const char *best, const char *chosen, const char *corrected)
{
    return best != NULL && chosen == NULL && corrected == NULL && ld_blas_core_class(now) < ld_blas_core_class(best);
}

/* Runs the program again with one thread and, where it is not NULL, the better core type; returns only when it cannot.
 * The arguments are handed on as they came; the process keeps its id, so a supervisor sees nothing. */
static void run_again(char *const *argv, const char *now, const char *best)
{
    if (setenv(GUARD, now, 1) == 0 && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0 &&
        (best == NULL || setenv("OPENBLAS_CORETYPE", best, 1) == 0))
        execv("/proc/self/exe", argv);
    ld_log(
        LD_LOG_WARN,
        "OpenBLAS runs %s kernels where %s would fit, or threads of its own, and the program cannot be run again: %s",
        now, best != NULL ? best : now, strerror(errno));
    if (best != NULL)
        unsetenv("OPENBLAS_CORETYPE");
}

/* Runs by the kernels that fit, with one thread per call. A caller whose library must have no threads of its own,
 * asleep as they are, says so. */
static void run_by_the_best(char *const *argv, bool is_alone)
{
    const char *now = kb_blas_core_name(), *best = kb_blas_core_best(), *corrected = getenv(GUARD);
    const bool is_wrong = ld_blas_core_is_wrong(now, best, getenv("OPENBLAS_CORETYPE"), corrected);

    if (is_wrong || (is_alone && kb_blas_n_threads() > 1 && corrected == NULL))
        run_again(argv, now, is_wrong ? best : NULL);
    kb_blas_single_thread();
}

/* The guard is taken out of the environment again, so that a child of ours judges for itself. */
void ld_blas_core_match(char *const *argv)
{
    run_by_the_best(argv, false);
    unsetenv(GUARD);
}

void ld_blas_core_settle(char *const *argv)
{
    run_by_the_best(argv, true);
    const char *now = kb_blas_core_name(), *corrected = getenv(GUARD);
    if (corrected != NULL && strcmp(corrected, now) != 0)
        ld_log(LD_LOG_INFO, "OpenBLAS kernels: %s, corrected from %s", now, corrected);
    else
        ld_log(LD_LOG_INFO, "OpenBLAS kernels: %s", now);
    unsetenv(GUARD);
}
