/* Open decisions: made, and waiting for a reward until their window closes. A decision without a reward is
 * kept here with the vectors it was made with, so that its reward teaches what was shown then, whatever the
 * catalogue says by now.
 *
 * A decision is found by its id, and those that a user was shown by the user, the one shown last first: a decision is
 * shown when it is made, a deferred one when it is activated. Until then it waits, and those of a user that do are
 * found by the user as well, the one with the last deadline first.
 *
 * Written in `apply` under the tenant's write lock; found under the read lock. An entry's address is stable
 * for its life: reserved events and the engine's staging keep pointers to it. */
#ifndef KB_PENDING_H
#define KB_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/keyed.h"
#include "base/moves.h"

/* What the model has of a slot. VOID: it was made to forget it, and will not be told again. */
enum kb_taught { KB_UNTAUGHT, KB_TAUGHT, KB_VOID, KB_TAUGHT_N };

struct kb_pending_slot {
    const char *name; /* at the end of the entry's block; NULL: none */
    /* interned */
    uint32_t arm;
    uint32_t level; /* that it teaches; 0 of what was not drawn */
    bool has_reward;
    uint8_t taught; /* enum kb_taught */
    bool is_open;   /* the model's deviations know it (posterior/open.h); no part of the digest */
    double reward;  /* the value in force: last told, or the sum */
    double model;   /* TAUGHT: the value that the model has, which is another one where it did not learn a correction */
    double halvings;   /* that had passed when the model was first taught (decay.h) */
    double importance; /* of its draw (tuning.h), 0: not drawn; follows from the log, no part of the digest */
    const double *x;   /* context, then the arm's features; inside the entry's block */
};

/* What a slot has of a metric: a block of its own. It says nothing while has_value is false, and readers of decisions
 * do not look at it. */
struct kb_pending_value {
    struct kb_pending_value *next;
    uint32_t slot;
    bool has_value;
    double value;
    char metric[];
};

/* One block of memory holds the entry, its slots, its vectors and its id. */
struct kb_pending_entry {
    /* the decision's id, at the end of the block */
    const char *id;
    /* interned */
    uint32_t user;
    /* milliseconds of the Unix epoch, as the `decided` event says; the core reads no clock. Not changed while the entry
     * is in the table */
    int64_t expires_at_ms;
    /* learns nothing before an `activated` event */
    bool is_deferred;
    bool is_reserved; /* a reserved event waits to be applied to it */
    /* slots: 1 without a slate; bytes: of the whole block, for the memory figures */
    size_t n_slots, bytes;
    size_t n_x;     /* length of x */
    size_t due_at;  /* where it stands in kb_pending.due */
    uint64_t hash;  /* its part of the digest */
    uint32_t route; /* enum kb_route that had drawn slot 0 */
    uint64_t shown; /* counts those that were shown, in order; 0: it was not yet. No part of the digest */
    struct kb_pending_entry *newer, *older; /* of those that the user was shown, or that wait; NULL: none */
    struct kb_pending_slot *slot;
    double *x;                       /* [n_slots][dim] */
    char *name_end;                  /* of the names so far */
    struct kb_pending_value *values; /* of metrics, the newest first; no part of the digest */
    size_t n_values;
};

struct kb_pending_place {
    uint64_t hash; /* of the id */
    struct kb_pending_entry *entry;
};

struct kb_pending_due {
    int64_t at_ms;
    struct kb_pending_entry *entry;
};

/* The heads of a user's lists; NULL: none is open. */
struct kb_pending_user {
    struct kb_pending_entry *shown, *waiting;
};

struct kb_pending {
    struct kb_hash_key key;         /* of the table */
    struct kb_pending_place *slot;  /* open addressing by id; entry NULL = empty */
    struct kb_pending_due *due;     /* a heap: the earliest deadline first; n, room for n_slots / 2 */
    struct kb_pending_user *newest; /* [cap_users] */
    size_t cap_users;
    uint64_t n_shown; /* so far */
    /* power of two, or 0; entries; sum of their bytes */
    size_t n_slots, n, bytes;
    uint64_t digest; /* sum of the entries' hashes: the order of insertion is irrelevant */
};

/* What a slot takes of memory, with its half of a deadline. */
#define KB_PENDING_SLOT_BYTES (sizeof(struct kb_pending_place) + sizeof(struct kb_pending_due) / 2)

void kb_pending_init(struct kb_pending *p, struct kb_hash_key key);
void kb_pending_close(struct kb_pending *p);

/* Room in the tables for n more entries, of users 0..n_users-1. */
enum kb_err kb_pending_reserve(struct kb_pending *p, size_t n, size_t n_users);
/* The same beside readers: larger tables are added to m when they are needed (moves.h). */
enum kb_err kb_pending_grow(struct kb_pending *p, size_t n, size_t n_users, struct kb_moves *m);

/* A new entry with room for its vectors (x zeroed) and for names of that many bytes, each with its NUL, outside any
 * table. NULL: no memory. */
struct kb_pending_entry *kb_pending_entry_new(const char *id, size_t n_slots, size_t name_bytes, size_t dim);
void kb_pending_name(struct kb_pending_entry *entry, size_t slot, const char *name, size_t n); /* n: bytes, no NUL */
void kb_pending_entry_free(struct kb_pending_entry *entry); /* one that is in no table; NULL is fine */
/* is_weighed: with what is weighed where rewards are forgotten, or was learned by such a weight. */
uint64_t kb_pending_entry_hash(const struct kb_pending_entry *entry, bool is_weighed);
void kb_pending_entry_save(const struct kb_pending_entry *entry, size_t dim, struct kb_writer *w);
/* A new one, in no table; its user is below n_users. KB_ECORRUPT, KB_ENOMEM. */
enum kb_err kb_pending_entry_load(size_t dim, size_t n_users, struct kb_reader *r, struct kb_pending_entry **out);

/* What the slot has of the metric; NULL: nothing was ever kept for it. O(values of the entry). */
struct kb_pending_value *kb_pending_value(const struct kb_pending_entry *entry, uint32_t slot, const char *metric);
/* The same, made where there is none, without a value. KB_ENOMEM, or KB_EFULL at KB_MOST_VALUES. */
enum kb_err kb_pending_keep_value(struct kb_pending_entry *entry, uint32_t slot, const char *metric,
                                  struct kb_pending_value **out);
/* Cannot fail. p: where the entry is; NULL: in no table yet. */
void kb_pending_set_value(struct kb_pending *p, struct kb_pending_entry *entry, struct kb_pending_value *v, double x);

/* Room must be reserved. Cannot fail. One that is not deferred is shown to its user. */
void kb_pending_insert(struct kb_pending *p, struct kb_pending_entry *entry); /* takes it; id not yet in */
/* A deferred one is shown now. */
void kb_pending_show(struct kb_pending *p, struct kb_pending_entry *entry);
/* NULL when there is no such open decision: never made, or closed. Expected O(length of id). */
struct kb_pending_entry *kb_pending_find(const struct kb_pending *p, const char *id);
void kb_pending_remove(struct kb_pending *p, struct kb_pending_entry *entry); /* frees it */

/* The open decision that the user was shown last, and from there on by `older` the others; NULL: none. O(1). */
static inline struct kb_pending_entry *kb_pending_newest(const struct kb_pending *p, uint32_t user)
{
    return user < p->cap_users ? p->newest[user].shown : NULL;
}

/* The same of those that wait to be activated. */
static inline struct kb_pending_entry *kb_pending_waiting(const struct kb_pending *p, uint32_t user)
{
    return user < p->cap_users ? p->newest[user].waiting : NULL;
}

/* Less than or more than 0 as a was shown before or after b, or, where neither was, as its deadline is: for qsort, of
 * pointers to entries. */
int kb_pending_compare_shown(const void *a, const void *b);

/* Up to max ids whose deadline is <= now, in no order. O(of these). The ids are borrowed from the entries: valid until
 * they are removed. */
size_t kb_pending_expired(const struct kb_pending *p, int64_t now_ms, const char **ids, size_t max);
int64_t kb_pending_next_expiry(const struct kb_pending *p);

/* Whether the model has the reward in force, or there is none: as it is but for rewards that were not learned. */
static inline bool kb_pending_is_level(const struct kb_pending_slot *slot)
{
    return slot->has_reward ? slot->taught == KB_TAUGHT && slot->model == slot->reward : slot->taught == KB_UNTAUGHT;
}

/* After every change of an entry that is in the table. */
void kb_pending_changed(struct kb_pending *p, struct kb_pending_entry *entry);

uint64_t kb_pending_digest(const struct kb_pending *p, uint64_t h);         /* O(1) */
uint64_t kb_pending_logical_digest(const struct kb_pending *p, uint64_t h); /* without weights; O(open slots) */
void kb_pending_save(const struct kb_pending *p, size_t dim, struct kb_writer *w);
/* p fresh from init; users are numbered below n_users. KB_ECORRUPT, KB_ENOMEM. */
enum kb_err kb_pending_load(struct kb_pending *p, size_t dim, size_t n_users, struct kb_reader *r);

#endif
