/* The catalogue of experiments: the lists of the exp_*.c files one behind the other.
 *
 * The lists are weak symbols: a build of some of the files only (make PAPER_SRC="...") links and offers what it has. */
#include "paper/paper.h"

#pragma weak pb_lk_experiments
#pragma weak pb_tc_experiments
#pragma weak pb_ek_experiments
#pragma weak pb_bkb_experiments
#pragma weak pb_width_experiments

/* NULL past the end, and the number of experiments passed over in *i. */
static const struct pb_experiment *walk(const struct pb_experiment *const *list, size_t *i)
{
    for (; list != NULL && *list != NULL; list++) {
        if (*i == 0)
            return *list;
        --*i;
    }
    return NULL;
}

/* In the order of the papers below, which is the order of `paperbench list` and `all`. */
const struct pb_experiment *pb_experiment_at(size_t i)
{
    const struct pb_experiment *const *const lists[] = {pb_lk_experiments, pb_tc_experiments, pb_ek_experiments,
                                                        pb_bkb_experiments, pb_width_experiments};
    const struct pb_experiment *found = NULL;

    for (size_t k = 0; found == NULL && k < sizeof lists / sizeof *lists; k++)
        found = walk(lists[k], &i);
    return found;
}
