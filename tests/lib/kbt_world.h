/* Help for tests of posteriors: a small world of users, contexts and arms, what was observed in it, a posterior
 * that learns it step by step, and dense oracles that share no code with the core. */
#ifndef KBT_WORLD_H
#define KBT_WORLD_H

#include "history/history.h"
#include "kbt.h"
#include "posterior/posterior.h"
#include "posterior/dictionary.h"

#define KBT_MAX_DIM 8u

struct kbt_observation {
    uint32_t user, arm;
    double x[KBT_MAX_DIM]; /* context, then features */
    double reward;
    uint32_t part; /* of enum kb_part: of a dictionary point of a sum, the component that it stands for */
};

struct kbt_world {
    struct kb_spec spec;
    size_t n_users, n_arms, dim;
    struct kb_graph *graph;
    struct kb_edge *edges;
    size_t n_edges, n_nodes;
    size_t n_padding;     /* nodes without edges beyond those of the users */
    uint32_t *node_of;    /* [n_users]; the last two users are unknown to the graph */
    double *arm_features; /* [n_arms][arm_dim] */
    double *user_gram;    /* [n_users][n_users]: the dense G of the spec */
    struct kb_history history;
    struct kbt_observation *seen; /* everything learned, in order, repeats and all */
    size_t n_seen, cap_seen;
    struct kb_posterior *posterior;
    struct kb_scratch scratch;
};

/* A world for the spec: n_users users on a random graph (two of them outside), n_arms arms. has_edges false: every
 * node is isolated. The posterior is empty. */
void kbt_world_open(struct kbt_world *w, const struct kb_spec *spec, size_t n_users, size_t n_arms, bool has_edges,
                    uint64_t key);
/* The same over a graph too large to be held dense: padded with nodes that have no edges. */
void kbt_world_open_large(struct kbt_world *w, const struct kb_spec *spec, size_t n_users, size_t n_arms, uint64_t key);
/* Fills user_gram from the edges and spec.user_kernel alone (kbt_user_gram.c). */
void kbt_world_fill_user_gram(struct kbt_world *w);

void kbt_world_close(struct kbt_world *w);

/* An observation drawn by key and index: contexts come from a pool of five, so points repeat. */
struct kbt_observation kbt_world_draw(const struct kbt_world *w, uint64_t key, uint64_t i);

struct kb_point kbt_point(const struct kbt_world *w, const struct kbt_observation *o);

/* Teaches one observation: history and posterior. */
void kbt_world_learn(struct kbt_world *w, const struct kbt_observation *o);
/* Replaces the rewards learned so far at o's point by d_sum more, without a new observation. */
void kbt_world_correct(struct kbt_world *w, const struct kbt_observation *o, double d_sum);
/* Offers o's point for admission with a uniform number, and admits it when the posterior says so. */
bool kbt_world_admit(struct kbt_world *w, const struct kbt_observation *o, double uniform);
/* The same in two: `end` sweeps over the rows as they were at `begin`; others may be learned in between. */
bool kbt_world_begin(struct kbt_world *w, const struct kbt_observation *o, double uniform);
void kbt_world_end(struct kbt_world *w, const struct kb_history *rows);
/* Draws the dictionary anew from the posterior's own variances (resampled representations); the evidence goes on. */
void kbt_world_resample(struct kbt_world *w, uint64_t key);
/* Replaces the posterior by one over the dictionary of these points, all of them seen. */
void kbt_world_take_dictionary(struct kbt_world *w, const struct kbt_observation *points, size_t n);
/* learn, then admit with a keyed uniform number, or resample when that is due. */
void kbt_world_run(struct kbt_world *w, size_t n_events, uint64_t key);

/* Room for all that is staged in a posterior that nobody reads beside; and whether there is none. */
enum kb_err kbt_grow(struct kb_posterior *p, struct kb_scratch *s);
bool kbt_needs_growth(struct kb_posterior *p, struct kb_scratch *s);

/* The same history in a fresh posterior: chosen or given atoms, then filled. Close with kb_posterior_free. */
struct kb_posterior *kbt_world_fill(struct kbt_world *w, const struct kb_atom *atoms, size_t n);

/* Mean and sd of one point by p, as a decision with a single candidate. */
void kbt_predict(const struct kb_posterior *p, struct kb_scratch *s, const struct kbt_world *w,
                 const struct kbt_observation *o, double *mean, double *sd);

/* term[u], n_users of them: what the rows of the history add to the posterior's mean at o, by users. Returns the prior
 * mean. */
double kbt_terms(struct kbt_world *w, const struct kbt_observation *o, double *term);

/* --- oracles: kernel values from their definitions, then plain elimination ------------------------------ */

double kbt_world_kernel(const struct kbt_world *w, const struct kbt_observation *a, const struct kbt_observation *b);

/* LK eq. 3 on every observation: k^T (K + lambda I)^-1 y, k(s,s) - k^T (K + lambda I)^-1 k. */
void kbt_dense_gp(const struct kbt_world *w, const struct kbt_observation *query, size_t n, double *mean,
                  double *variance);
/* EK Prop. 4.2 with the given dictionary on every observation; under a sum of components with each its own points. */
void kbt_dense_nystrom(const struct kbt_world *w, const struct kbt_observation *atoms, size_t m,
                       const struct kbt_observation *query, size_t n, double *mean, double *variance);
/* 1/2 ln det(I + K_t / lambda) and tr K_t (K_t + lambda I)^-1. */
double kbt_dense_information_gain(const struct kbt_world *w);
double kbt_dense_effective_dimension(const struct kbt_world *w);

/* The support points of p as observations (rewards 0); out has room for n_support. */
size_t kbt_support(const struct kb_posterior *p, struct kbt_observation *out);

#endif
