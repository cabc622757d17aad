/* A shared log (shared/shared_log.h) in memory, whose outcomes are drawn: a batch may be refused, or go the way of one
 * whose connection broke, with it in the log or not. One thread has it. */
#ifndef KBT_SHARED_LOG_H
#define KBT_SHARED_LOG_H

#include "shared/shared_log.h"

/* Shares of the calls. What is left over goes well. */
struct kbt_shared_odds {
    double behind, down;            /* of appends */
    double unknown_in, unknown_out; /* of appends: and it is in the log from the next look at it on, or never */
    double unsettled;               /* of settles: nobody can tell yet */
    double untaken;                 /* of takes and reads: it is down */
};

/* A batch that is there. */
struct kbt_shared_batch {
    struct ld_shared_place at;
    uint32_t n;
    int64_t at_ms;
    uint64_t nonce;
    char node[32];
    char *body;
    size_t n_body;
};

struct kbt_shared_tenant {
    uint64_t id;
    char name[32];
    bool is_dropped, is_taken;
    bool is_unborn; /* and dropped: made in a turn that has not ended well */
    struct kbt_shared_batch *batch;
    size_t n, cap;
    struct kbt_shared_batch pending; /* its outcome is unknown; body NULL: there is none */
    struct kbt_shared_batch *coming; /* [n_coming] all of the log, rewritten, whose outcome is unknown; NULL: none */
    size_t n_coming;
    uint64_t generation, coming_generation;
    uint64_t kept, rewritten, coming_kept, coming_rewritten; /* kept 0: there is no summary */
    struct ld_shared_book book[4];                           /* [n_books] owned */
    size_t n_books;
    bool has_rate;
    struct ld_rate rate;
    bool is_held; /* by another server */
};

#define KBT_SHARED_TENANTS 12
#define KBT_SHARED_KEYS 16

struct kbt_shared_log {
    struct ld_shared_log base;
    struct kbt_shared_odds odds;
    uint64_t key, n_draws;
    struct kbt_shared_tenant tenant[KBT_SHARED_TENANTS];
    unsigned version;    /* of lines that may be written; moved by tests */
    uint64_t generation; /* of the last rewriting */
    uint64_t reported;   /* what a server said last */
    const char *laggard; /* a server that never reports one; NULL: there is none */
    size_t n_tenants;
    struct ld_key keys[KBT_SHARED_KEYS];
    size_t n_keys;
    uint64_t revision;         /* moves from 1 on */
    bool is_key_unknown;       /* the next change of a key is made, and its outcome is unknown */
    void (*meddle)(void *arg); /* before a turn is given to who asks for it: others may write; NULL: nobody does */
    void *arg;
    size_t n_takes, meddle_at; /* not before so many takes */
    size_t most_held;          /* lines that were told in one take, at most */
    /* How often: */
    size_t n_ok, n_behind, n_down, n_unknown_in, n_unknown_out, n_unsettled, n_untaken, n_rewrites, n_compactions;
};

void kbt_shared_log_init(struct kbt_shared_log *l, uint64_t key);
void kbt_shared_log_close(struct kbt_shared_log *l);
/* The tenant of that name, which must be there. */
struct kbt_shared_tenant *kbt_shared_log_tenant(struct kbt_shared_log *l, const char *name);

#endif
