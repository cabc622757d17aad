/* Logged decisions with their rewards, in passes and in constant memory (but for the arms, and what a source has to
 * keep until a reward comes): what evaluations read, whoever made the log.
 *
 * The first pass learns which arms there are, later ones show them to every decision. A source is a
 * function that makes passes: over a tenant's own file (own_source.h), or over a file of one of the client's formats
 * (tools/evaluate/log_reader.h). */
#ifndef LD_DECISIONS_H
#define LD_DECISIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/feature_names.h"
#include "base/ids.h"
#include "base/message.h"

#define LD_DECISIONS_REASONS 12
#define LD_DECISIONS_UNIFORM (-1.0)
#define LD_DECISIONS_BROKEN (-2)

struct kb_event;

struct ld_decisions_options {
    uint32_t context_dim, arm_dim; /* of the vectors that decisions are to have */
    uint32_t hash_seed;
    struct ld_name_map names; /* by which objects become vectors; dim 0: they are hashed (hashing.h) */
    size_t skip_bad;          /* faulty lines passed over before one ends it all */
    double default_reward;    /* of decisions without one; NaN: they are left out */
    double propensity; /* of all decisions, in (0, 1]; LD_DECISIONS_UNIFORM: 1 / candidates; 0: the log tells them */
    bool all_slots;    /* decisions with slots also where the first has no reward, as long as one has */
    bool draws_only;   /* our own log: what was no draw of the policy's kind is passed over (docs/ROUTING.md) */
    bool needs_candidates; /* our own log: decisions among candidates that it does not tell are passed over */
};

/* One decision. Everything borrowed until the next one is read. */
struct ld_logged {
    size_t line;           /* from 1; of a tenant's file the event's number */
    const char *user, *id; /* id: of the decision or event, NULL: none */
    int64_t at_ms;         /* Unix time; 0: not told */
    const double *context; /* [context_dim], NULL when that is 0 */
    uint32_t stratum;      /* what action distributions may depend on besides the context: obd's position; else 0 */
    /* Candidates: numbers of arms in the log's table, and their features (NULL, or [n] vectors of arm_dim). */
    size_t n;
    const uint32_t *arm;
    const double *const *features;
    const double *logged; /* [n] the logging policy's probabilities; NULL: only that of the arm chosen is known */
    size_t chosen;        /* index of the arm shown */
    double propensity;    /* of it; NaN: not told */
    double reward;
    size_t epoch; /* decisions of one epoch have the same candidates; 0: those are its own */
    /* A decision with slots is its first slot, and those behind it in the order in which they were drawn: each with
     * its own context, candidates (those that are left), propensity given the arms before it, and reward. NaN: none. */
    const char *slot; /* its name; NULL: none */
    const struct ld_logged *more;
    size_t n_more;
};

/* The slots of a decision, from the first, which is the decision itself. */
static inline const struct ld_logged *ld_logged_slot(const struct ld_logged *ev, size_t k)
{
    return k == 0 ? ev : &ev->more[k - 1];
}

struct ld_decisions;

/* What a pass is for: each decision in the order of the log, and each event that changes the graph of users (NULL:
 * nobody wants to know). Not 0 ends the pass, with `why` filled. */
struct ld_decisions_pass {
    int (*decision)(void *arg, const struct ld_logged *ev);
    int (*graph)(void *arg, const struct kb_event *ev, struct ld_message *why);
    void *arg;
};

/* The first member of each source's own structure. */
struct ld_decisions {
    /* The whole log, from its beginning: 0, or -1, with `why` where it was not the pass that ended it. */
    int (*pass)(struct ld_decisions *d, const struct ld_decisions_pass *pass);
    struct ld_decisions_options o;
    const char *format; /* what reports call it */
    const char *title;  /* of the file, in messages; NULL: a tenant's own, whose lines are events */
    size_t line;        /* in hand */
    /* Arms by number in order of first sight, kept from pass to pass; arrays of cap_arms. */
    struct kb_ids arms;
    double **features; /* [arms.n] vectors of arm_dim, or NULL */
    bool *is_offered;  /* [arms.n] among the candidates of decisions that name none */
    size_t cap_arms;
    size_t epoch; /* counts changes of what is offered, from 1 */
    /* the candidates of decisions that name none: made again when the epoch has moved */
    uint32_t *offered;
    const double **offered_features;
    size_t *place; /* [arms.n] of an arm among them; SIZE_MAX: not there */
    size_t n_offered, list_epoch;
    /* Arms that a log has shown before its catalogue, or in all where it has none: counted once, by a pass of its own.
     * Decisions there were among all of them where there were as many. */
    bool is_own, has_catalogue; /* a log of ours; it says who is offered, from some line on */
    bool is_counting, is_counted;
    bool *was_offered; /* [arms.n] which they are */
    size_t n_counted;
    double *context; /* [context_dim] of the decision in hand */
    /* the candidates of a decision that names its own: room for cap_named */
    uint32_t *named;
    const double **named_features;
    double *vectors; /* their features, [cap_named] of arm_dim */
    size_t cap_named;
    /* the slots of a decision: room for cap_slots, and for cap_slot_arms candidates of all of them together */
    struct ld_logged *slots;
    double *slot_contexts; /* [cap_slots] of context_dim */
    uint32_t *slot_arm;
    const double **slot_features;
    size_t cap_slots, cap_slot_arms, n_slot_arms;
    size_t n_read, n_bad; /* decisions, faulty lines passed over */
    struct ld_message first_bad, why;
    struct {
        const char *reason;
        size_t n;
    } skipped[LD_DECISIONS_REASONS];
};

/* An empty one, whose `pass`, `format` and `title` are for the source to set; -1: no memory, with d->why. Close in
 * either case. */
int ld_decisions_init(struct ld_decisions *d, const struct ld_decisions_options *o);
void ld_decisions_close(struct ld_decisions *d);

/* The reason for which most were passed over: its place in `skipped`, of n = 0 where there were none. */
size_t ld_decisions_most_skipped(const struct ld_decisions *d);

/* --- for sources ------------------------------------------------------------------------------------------ */

/* A pass begins: counts begin anew, arms are kept. */
void ld_decisions_begin(struct ld_decisions *d);

/* A decision as the source has read it, to be looked at and completed before anybody sees it: rc is what reading it
 * came to. 1: it stands; 0: there is none; -1: its line was faulty and is passed over; LD_DECISIONS_BROKEN: that was
 * one too many, or nothing can be read. */
int ld_decisions_judge(struct ld_decisions *d, struct ld_logged *ev, int rc);

/* "title:line: field: ...", or "event N: field: ...", into d->why; -1. field NULL: the line as a whole. */
int ld_decisions_fail(struct ld_decisions *d, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int ld_decisions_no_memory(struct ld_decisions *d); /* LD_DECISIONS_BROKEN */
/* Counts a line that asks for nothing; the text is kept. */
void ld_decisions_skip(struct ld_decisions *d, const char *reason);

/* Number of an arm, made when new, with its own name as its one feature. KB_ID_NONE with d->why: no good id, or no
 * memory. */
uint32_t ld_decisions_arm(struct ld_decisions *d, const char *id);
/* Its features, zeroed, to be filled anew; NULL when arm_dim is 0. */
double *ld_decisions_arm_features(struct ld_decisions *d, uint32_t arm);
void ld_decisions_offer(struct ld_decisions *d, uint32_t arm, bool is_offered);
/* What is offered now is what was counted. */
void ld_decisions_count(struct ld_decisions *d);
size_t ld_decisions_n_offered(struct ld_decisions *d);
/* The candidates of a decision that names none: the arms offered, and the one chosen whatever it is. */
void ld_decisions_candidates(struct ld_decisions *d, uint32_t chosen, struct ld_logged *ev);
/* The candidates of a decision that names its own: room for n of them (0, or LD_DECISIONS_BROKEN), then each arm at its
 * place, whose vector is for the source to fill. The second returns where the same arm stands before i, or i. */
int ld_decisions_name(struct ld_decisions *d, size_t n, struct ld_logged *ev);
size_t ld_decisions_name_arm(struct ld_decisions *d, size_t i, uint32_t arm);
/* A decision of n slots: room for them and for the candidates of each, of whom there are n_all. 0, or
 * LD_DECISIONS_BROKEN. Then each in its order, from 0: what `all` has, but with the candidates of `all` that no slot
 * before has shown (is_in: and that have a mark there, NULL: all have). Its `chosen` is the number of them where the
 * arm is none of them; the last adds it. */
int ld_decisions_slots(struct ld_decisions *d, size_t n, size_t n_all);
struct ld_logged *ld_decisions_slot(struct ld_decisions *d, size_t i, const struct ld_logged *all, const bool *is_in,
                                    uint32_t chosen);
void ld_decisions_slot_add(struct ld_decisions *d, struct ld_logged *slot, uint32_t arm);
/* Checks propensity (NaN, or in (0, 1]) and reward (finite; of slots where all_slots are wanted it may be NaN). 0 or
 * -1. */
int ld_decisions_check(struct ld_decisions *d, const struct ld_logged *ev);

#endif
