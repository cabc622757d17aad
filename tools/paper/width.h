/* How wide our bounds are over a dictionary, and over all points, after the same observations (docs/decisions/0011). */
#ifndef PB_WIDTH_H
#define PB_WIDTH_H

#include "paper/env_tc.h"

#define PB_WIDTH_N_RULES 10u
#define PB_WIDTH_N_MODELS 5u

/* A rule, and the form in which it accounts for what a dictionary misses; exact models know neither forms nor EK+. */
struct pb_width_rule {
    const char *name;
    enum kb_conf_type type;
    enum kb_sketch_form form;
    bool is_for_exact, is_for_dictionary;
};
extern const struct pb_width_rule pb_width_rules[PB_WIDTH_N_RULES];

struct pb_width_model {
    const char *name;
    enum kb_repr_type repr;
    double size; /* threshold, or KORS's mu in units of lambda */
};
extern const struct pb_width_model pb_width_models[PB_WIDTH_N_MODELS];

/* Of one model: mean half widths over the arms of round T, which nobody has seen before; NaN where a rule is not for
 * it. */
struct pb_width {
    size_t n_points;
    double half[PB_WIDTH_N_RULES];
    size_t n_outside; /* arms whose f is outside of some rule's bounds */
};

/* T rounds of exact DMM-UCB in the setting of one seed; then every model learns them, and every rule bounds the next
 * round's arms. out: [PB_WIDTH_N_MODELS]. Errors are those of learners. */
enum kb_err pb_width_measure(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_width *out);

#endif
