/* Lines of the log about the model: its dictionary, what enters it, and the scales that it has found. */
#include "json/json_event_rows.h"

static const struct ld_row sums_rows[] = {
    REAL("energy", 0, offsetof(struct sums, energy)),
    REAL("log_det", 0, offsetof(struct sums, log_det)),
};
static const struct ld_list mixture = {LD_ROWS(sums_rows), sizeof(struct sums), .shape = LD_LIST_OBJECTS};

static const struct ld_row evidence_rows[] = {
    REAL("square", 0, EV(dictionary.square)),
    REAL("energy", 0, EV(dictionary.energy)),
    REAL("log_det", 0, EV(dictionary.log_det)),
    SHORT_LIST("mixture", OPTIONAL, AT(mixture), AT(n_mixture), &mixture, &other_components),
};
static const struct ld_rows evidence = LD_ROWS(evidence_rows);

/* A point names the event that first taught it, so it means the same in every fold of the log, and its probability of
 * inclusion as it was when it was drawn. */
static const struct ld_row point_rows[] = {
    FROM_ONE("event", 0, offsetof(struct kb_ev_atom, event)),
    PROBABILITY("probability", 0, offsetof(struct kb_ev_atom, probability)),
};
static const struct ld_list points = {LD_ROWS(point_rows), sizeof(struct kb_ev_atom), .shape = LD_LIST_OBJECTS};

#define DICTIONARY                                                                                                     \
    HEAD, FLAG("reset", 0, EV(dictionary.is_reset)), FLAG("begun", OPTIONAL, EV(dictionary.is_begun)),                 \
        FLAG("refit", OPTIONAL, EV(dictionary.is_refit)), FROM_ONE("from", OPTIONAL, EV(dictionary.from))
#define POINTS LIST("points", LD_ROW_EARLY, EV(dictionary.atoms), EV(dictionary.n_atoms), &points)

/* Scales, in force or as a refit has found them (spec/tuning.h). */
#define TUNING(member) offsetof(struct kb_tuning, member)
static const struct ld_row tuning_rows[] = {
    REAL("mean", 0, TUNING(prior.mean)),
    REAL("noise", 0, TUNING(noise)),
    REAL("arm", 0, TUNING(prior.arm)),
    REAL("feature", 0, TUNING(prior.feature)),
    REAL("user", 0, TUNING(prior.user)),
    REAL("context", 0, TUNING(prior.context)),
    REAL("linear", 0, TUNING(prior.linear)),
    REAL("lengthscale", 0, TUNING(lengthscale)),
    REAL("rho", 0, TUNING(rho)),
    REAL("rewards", 0, TUNING(rewards)),
    REAL("range", 0, TUNING(range)),
    REAL("evidence_before", 0, TUNING(before)),
    REAL("evidence_after", 0, TUNING(after)),
    COUNT("event", TUNING(event)),
};
static const struct ld_rows tuning = LD_ROWS(tuning_rows);
const struct ld_rows ld_scale_rows = {tuning_rows, 9};
const struct ld_row ld_scale_row = {.kind = LD_ROW_REAL, .rule = &positive};
const struct ld_list ld_tunings_list = {LD_ROWS(tuning_rows), sizeof(struct kb_tuning), .shape = LD_LIST_OBJECTS};

void ld_text_tuning(struct ld_text *t, const struct kb_tuning *of, bool is_found)
{
    const struct ld_out out = {t, {1, 0, 0, 0}, NULL};
    ld_text_raw(t, "{", 1);
    ld_text_rows(&out, &tuning, 0, is_found ? tuning.n : ld_scale_rows.n, of);
    ld_text_raw(t, "}", 1);
}

/* What a reset puts in force must all be in the line, since nothing of it is drawn or measured again in a fold, and
 * comes before the points, of which there may be thousands. Lengthscales are any positive numbers: medians of real data
 * are not confined to what a configuration may ask for. */
#define IN_FORCE                                                                                                       \
    WORD("representation", 0, EV(dictionary.repr), kb_repr_words),                                                     \
        LENGTHSCALE("context_lengthscale", EV(dictionary.context_lengthscale)),                                        \
        LENGTHSCALE("arm_lengthscale", EV(dictionary.arm_lengthscale)),                                                \
        OBJECT("evidence", LD_ROW_HAS, 0, EV(dictionary.has_evidence), &evidence), BY, POINTS
static const struct ld_row reset[] = {
    DICTIONARY,
    IN_FORCE,
};
/* A reset under scales that the model has found. */
static const struct ld_row tuned[] = {
    HEAD,
    OBJECT("scales", 0, AT(tuning), 0, &tuning),
    COLUMN("scale", OPTIONAL | LD_ROW_SETS_N, EV(dictionary.scale), EV(dictionary.n_scale), &ld_scale_row),
    FROM_ONE("from", OPTIONAL, EV(dictionary.from)),
    IN_FORCE,
};
/* Adds its points to the dictionary in force, and changes nothing else. */
static const struct ld_row admission[] = {
    DICTIONARY,
    IGNORED("representation"),
    IGNORED("context_lengthscale"),
    IGNORED("arm_lengthscale"),
    IGNORED("evidence"),
    POINTS,
};

/* The other components of a mixture stand there only where they differ from the first. */
static void open_dictionary(struct line *l)
{
    const double *energy = l->ev.as.dictionary.energy, *log_det = l->ev.as.dictionary.log_det;
    l->ev.as.dictionary.has_evidence &= l->ev.as.dictionary.is_reset && !l->ev.as.dictionary.is_begun;
    l->n_mixture = KB_N_MIXTURE - 1;
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        l->other[i - 1] = (struct sums){energy[i], log_det[i]};
        if (energy[i] != energy[0] || log_det[i] != log_det[0])
            l->mixture = l->other;
    }
}

static void close_dictionary(struct ld_in *in, struct line *l)
{
    double *energy = l->ev.as.dictionary.energy, *log_det = l->ev.as.dictionary.log_det;
    if (l->ev.as.dictionary.is_begun && l->ev.as.dictionary.from > 0)
        ld_in_fault(in, "from", "expected only where something that was begun is done");
    if (l->ev.as.dictionary.is_refit && !(l->ev.as.dictionary.is_reset && l->ev.as.dictionary.is_begun))
        ld_in_fault(in, "refit", "expected only where a reset begins");
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        energy[i] = l->mixture != NULL ? l->mixture[i - 1].energy : energy[0];
        log_det[i] = l->mixture != NULL ? l->mixture[i - 1].log_det : log_det[0];
    }
}

static void open_tuned(struct line *l)
{
    l->tuning = *l->ev.as.dictionary.tuning;
    open_dictionary(l);
}

const struct kb_tuning *ld_event_keep_tuning(struct ld_in *in, const struct line *l)
{
    struct kb_tuning *kept = ld_in_alloc(in, 1, sizeof *kept);
    if (kept != NULL)
        *kept = l->tuning;
    return kept;
}

static void close_tuned(struct ld_in *in, struct line *l)
{
    l->ev.as.dictionary.is_reset = true;
    l->ev.as.dictionary.tuning = ld_event_keep_tuning(in, l);
    close_dictionary(in, l);
}

const struct ld_event_rows ld_event_reset = {LD_ROWS(reset), open_dictionary, close_dictionary};
const struct ld_event_rows ld_event_admission = {LD_ROWS(admission), open_dictionary, close_dictionary};
const struct ld_event_rows ld_event_tuned = {LD_ROWS(tuned), open_tuned, close_tuned};
