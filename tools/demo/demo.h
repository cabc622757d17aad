/* What the two demos share: options, the policies, and the end of the show.
 *
 * cmd_demo.c reads the options and calls one of the two demos. Each makes its game (town.c, people.c), lets
 * the policies race over HTTP (race.c) once per seed, collects the numbers (scores.c) and draws the last race
 * (chart.c). */
#ifndef LC_DEMO_H
#define LC_DEMO_H

#include "demo/people.h"
#include "demo/race.h"
#include "demo/scores.h"
#include "demo/town.h"

/* As given on the command line; the demo fills in its own for what is 0. */
struct lc_demo_options {
    size_t seed, n_seeds, n_rounds; /* n_rounds 0: the demo's own */
    size_t n_users, n_candidates;   /* 0: the demo's own */
    double beta, lambda;            /* the same for every policy; lambda 0: the demo's own */
    double rho;                     /* of the policies with a graph; 0: the preset's (people: 1 / users) */
    bool is_quiet;
    const char *svg;                  /* file for a picture of the last race; NULL: none */
    const char *data, *edges, *likes; /* people */
    /* people only: see --help */
    bool is_rare, has_no_features, is_all;
};

/* Both: exit status, 0 or 1 after a printed error. The session's tenant is not used. */
int lc_demo_town(const struct lc_session *s, const struct lc_demo_options *o);
int lc_demo_people(const struct lc_session *s, const struct lc_demo_options *o);

/* Plays one seed: prepares the tenants, races, books the results under `seed_ix`, and draws the last seed's race as a
 * chart and, where it was asked for, as a picture. Closes the world. 0 or 1 (printed). */
int lc_demo_race(const struct lc_session *s, const struct lc_show *show, const struct lc_demo_options *o,
                 struct lc_game *game, struct lc_world *world, size_t arm_dim, size_t seed_ix,
                 struct lc_scores *scores);

/* The curves of the last race as an SVG file, for light and dark pages: whether it can be written, before the race;
 * then a whole file in its place or none. 0, or 1 after a printed error. */
int lc_demo_picture_check(const char *path);
int lc_demo_picture_write(const struct lc_show *show, const struct lc_runner *runners, size_t n_rounds,
                          const char *path);

/* Bodies of the world. graph: edges between users by their names; the first n_listed users are named besides, so that
 * those without an edge are in it. arms: of the game, with features [n][dim], or NULL: none. */
void lc_demo_put_graph(const void *state, const char *(*name)(const void *state, size_t user), size_t n_listed,
                       const struct kb_edge *edges, size_t n_edges, struct lc_text *out);
void lc_demo_put_arms(const struct lc_game *game, size_t n, const double *features, size_t dim, struct lc_text *out);

/* The commands to try next. */
void lc_demo_epilogue(const struct lc_session *s, const char *tenant, const char *user);

/* Whether the server answers; else says how to start it. 0 or 1. */
int lc_demo_check(const struct lc_session *s);

#endif
