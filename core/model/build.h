/* Long work beside a serving engine: a new posterior from the history (a reset), or the sweep that brings one more
 * point into the dictionary. Inside of the engine; the server sees it through engine_background.h as something to run.
 *
 *     begun      the log says so: the build gets its view of the history as it stands, and the engine goes on
 *     lent       any one thread runs it (kb_build_run), without a lock and without the engine
 *     returned   to the writer, who teaches it what was learned meanwhile and lends it again while that is much
 *     finished   the log says so, and the model is swapped at that event
 *
 * What the event `begun` fixes (the rows and their counts) and what is learned up to the event that finishes it are
 * both in the log, and a build that is folded does the same steps in the same order: fill from the view, then one
 * learning step after the other. So its bits do not depend on how long it took.
 *
 * Who owns what. The view shares the rows' immutable arrays with the engine's history, which keeps them as long as a
 * build is there; counts and sums, which go on changing, are copied. While it is lent, all of it but `fresh` is the
 * worker's. A build that is superseded while it is lent is freed when it comes back. */
#ifndef KB_BUILD_H
#define KB_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history/history.h"
#include "posterior/posterior.h"
#include "model/user_graph.h"
#include "posterior/dictionary.h"

struct kb_engine;

/* What a posterior is built from. */
struct kb_site {
    const struct kb_history *history;
    const uint32_t *node_of;      /* [users of the history] */
    const struct kb_graph *graph; /* NULL: none */
    /* In force, of the same kernel, and standing still meanwhile: shares its user kernel, and a resampling draws from
     * its variances. NULL: none such. */
    const struct kb_posterior *like;
    /* Over the same graph, arms held apart: its user kernel is shared where the spec's is the same. NULL: none such. */
    const struct kb_posterior *users;
    uint64_t key; /* of the draws */
    struct kb_scratch *scratch;
};

/* What a refit reads beside the history. */
struct kb_refit {
    uint64_t event; /* the last of the log */
    double rewards; /* observations by then */
    double before;  /* observations by the last refit before; 0: there has been none */
    bool is_first;  /* no refit has been before */
    struct kb_reward_sums sums;
};

/* An empty posterior for *spec; an exact one that would pass its limit becomes KORS in *spec. */
enum kb_err kb_site_open(const struct kb_site *site, struct kb_spec *spec, struct kb_posterior **out);
/* The same for a spec that is decided. */
enum kb_err kb_site_open_as(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior **out);
/* The rows of its dictionary, put into *p; *rows is allocated (kb_free). */
enum kb_err kb_site_choose(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior *p,
                           struct kb_atom **rows, size_t *n);
/* A posterior for a spec that is decided, filled with the history over a dictionary of its own. */
enum kb_err kb_site_open_filled(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior **out);
/* The scales that the history speaks for (engine_tune.c), with p filled under *spec; what cannot be computed leaves
 * them as they are. They are put into *spec. */
enum kb_err kb_site_find_scales(const struct kb_site *site, const struct kb_refit *refit, const struct kb_posterior *p,
                                struct kb_spec *spec, struct kb_tuning *out);
/* Multiply-adds of all that, roughly: a dictionary is taken to become about as large as n_support says. */
double kb_site_work(const struct kb_site *site, const struct kb_spec *spec, size_t n_support);
double kb_site_refit_work(const struct kb_site *site, const struct kb_spec *spec, size_t n_support);
/* Whether an exact model of n points has to become a dictionary. Under a rule that learns by levels it cannot: its
 * decisions teach nothing beyond the limit instead (engine_decide.c). One without a factor need not. */
bool kb_spec_outgrows_exact(const struct kb_spec *spec, size_t n);

/* One learning step that the build has still to take. */
struct kb_delta {
    size_t row;                      /* of the engine's history */
    double d_count, d_sum, d_square; /* by their weights in `unit` (decay.h), where the model was then */
    double unit;
};

enum kb_build_step { KB_BUILD_OPEN, KB_BUILD_CHOOSE, KB_BUILD_FILL, KB_BUILD_TEACH };

struct kb_build {
    bool is_point;
    uint64_t from;          /* seq of the event that began it */
    struct kb_history rows; /* the view: count and sum are its own */
    uint32_t *node_of;      /* [n_nodes] of the users at `from`, under the graph below; later ones are strangers */
    size_t n_nodes;
    struct kb_graph_ref *graph; /* that the posterior rests on; held */
    struct kb_scratch scratch;
    struct kb_watch watch;
    /* A reset: */
    struct kb_spec spec;        /* to come; `open` may turn exact to KORS */
    bool has_graph;             /* `graph` comes with it */
    struct kb_posterior *users; /* empty: a hold on the user kernel in force (kb_site.users) */
    bool is_refit, is_found;    /* scales are to be found first; then they stand in `found` and `tuning` */
    struct kb_refit refit;
    struct kb_spec found;
    struct kb_tuning tuning;
    uint64_t key;
    enum kb_build_step step;
    struct kb_posterior *posterior;
    struct kb_atom *atoms; /* [n_atoms] rows of its dictionary */
    size_t n_atoms;
    struct kb_delta *fresh; /* the writer's: learned since it was lent */
    size_t n_fresh, cap_fresh;
    struct kb_delta *taken; /* the worker's: all that was learned before */
    size_t n_taken, cap_taken, n_taught;
    unsigned n_rounds; /* times that it was lent */
    /* A point: */
    struct kb_posterior *target; /* whose dictionary it enters; borrowed */
    struct kb_ev_atom atom;
    size_t row;
    bool is_swept;
};

void kb_build_free(struct kb_build *b);

/* Room for the view of n rows and the nodes of n_users. KB_ENOMEM. */
enum kb_err kb_build_reserve(struct kb_build *b, size_t n_rows, size_t n_users);
/* Takes the view: arrays are borrowed from h, counts and sums copied. Room reserved. O(n), memory bandwidth. */
void kb_build_take_view(struct kb_build *b, const struct kb_history *h, const uint32_t *node_of, size_t n_users);

/* A reset over the given rows, and everything that was learned since: what a fold does in one go. Nothing to do where
 * a worker has come to the same. KB_ENOMEM, KB_ENOTPD. */
enum kb_err kb_build_complete(struct kb_build *b, const struct kb_history *h, const struct kb_atom *atoms, size_t n);
/* Hands what was learned meanwhile to the worker. KB_ENOMEM: nothing was handed over. */
enum kb_err kb_build_hand_over(struct kb_build *b, const struct kb_history *h);
/* The event that was to finish the build is taken back, which has opened decisions in its posterior: that is filled
 * anew, with the same bits, by a worker or by the next kb_build_complete. */
void kb_build_undo(struct kb_build *b);

/* Whether all is done but what was learned since it was last lent. */
bool kb_build_is_done(const struct kb_build *b);
/* And that is so little that the writer may teach it in its own turn; or, under traffic that a worker does not catch up
 * with, it has been lent often enough. */
bool kb_build_is_ripe(const struct kb_build *b);

#endif
