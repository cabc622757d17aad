/* What bodies of requests ask for, decoded. Strings and arrays live in the document that they were decoded from. */
#ifndef LD_REQUESTS_H
#define LD_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/engine_read.h"
#include "types/settings.h"

struct ld_value;
struct ld_select {
    struct kb_query query; /* key is left 0 */
    const char *decision;  /* NULL: the server makes one */
    size_t top;            /* >= 1 */
    const struct kb_slot_query *slots;
    size_t n_slots; /* 0: one arm, or a slate of `top` */
    bool is_explained, is_dry_run, is_deferred;
    uint64_t n_neighbours;        /* to be named; 0: nobody asked */
    const struct ld_value *named; /* the context of a flag, which a tenant with `features` maps; NULL: none */
    const char *flag;             /* its evaluation is the answer (docs/OPENFEATURE.md); NULL: the decision itself */
};

/* A vector of named features as if one of them were not there. */
struct ld_without {
    const char *name; /* of the feature (feature_names.h) */
    bool is_of_arm;   /* else of the context */
    const double *x;
    double change; /* of the mean by the feature; filled by the tenant */
};
#define LD_MOST_WITHOUT ((size_t)200) /* features of context and arm that are left out one by one */

/* What the model thinks of users and arms. */
struct ld_ask {
    const char *const *users;
    size_t n_users;
    struct kb_query query; /* context and candidates; none: the catalogue */
    uint64_t n_neighbours; /* to be named, of one user and one arm; 0: nobody asked */
    uint64_t n_features;   /* to be named, likewise, of those below */
    bool has_named;        /* context or the arm's features are an object */
    struct ld_without *without;
    size_t n_without;
};
#define LD_MOST_CELLS ((size_t)1000)         /* users times arms of one answer */
#define LD_MOST_NEIGHBOURS_WORK 2000000000.0 /* multiply-adds under the lock for decisions: some 0.2 s */

/* What an answer of /select says of the arm that it shows. */
struct ld_told {
    const char *decision, *arm;
    double propensity;
};

/* Of a decision, or of what a user was shown last: the other is NULL. */
struct ld_reward {
    const char *decision, *user, *arm; /* arm may be NULL */
    const char *slot;                  /* in its place, the name of a slot; NULL: none */
    double reward;
    bool is_all;            /* of every decision that the user was shown and that is open */
    const char *metric;     /* NULL: the objective */
    const char *id, *event; /* NULL: none */
    int64_t happened_at_ms; /* 0: not told */
    bool is_tracked; /* who acts has seen: a decision that waits is activated first; `event` is the metric, if any */
};

/* What a user did, as OpenFeature's clients track it. */
struct ld_track_event {
    const char *flag;        /* NULL: that of the key */
    struct ld_reward reward; /* of a decision, or of the user who acted */
    bool is_exposure;        /* the flag was shown, and no more */
};

/* The first line of a replay. */
struct ld_replay_head {
    struct ld_settings settings; /* of the shadow */
    bool is_own;                 /* the log is the tenant's, not what follows */
    const char *commit;          /* the tenant that is to be made of it, NULL: none */
};

#endif
