/* The whole coverage simulation (tests/lib/kbt_coverage.h): every rule over kernels, noises, functions, ridges, norms
 * and representations, a line of JSON each on standard output. tests/coverage/table.py judges them.
 *
 *   coverage [RUNS [STEP [FIRST]]]     runs of each rule in each cell (10); cells FIRST (0), FIRST + STEP (1), ... */
#include <stdio.h>

#include "kbt_cells.h"
#include "kbt_coverage.h"

static unsigned n_runs = 10;

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

static void run_cell(size_t i)
{
    const struct kbt_cover_cell at = cell_of(i);
    for (unsigned r = 0; r < kbt_cover_n_rules; r++)
        if (kbt_cover_has(&at, &kbt_cover_rules[r]))
            tell(&at, &kbt_cover_rules[r], kbt_cover_count(&at, &kbt_cover_rules[r], n_runs));
}

int main(int argc, char **argv)
{
    return kbt_run_cells(argc, argv, "coverage", N_CELLS, &n_runs, run_cell);
}
