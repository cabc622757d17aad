/* Inside of the keys: who.c (requests), keys.c (changes), keys_table.c (the table), keys_shared.c (keys that several
 * servers have in common).
 *
 * The table is an open-addressed hash table by id, whose digits are random already. A request is one look-up, one
 * hash and one comparison in constant time, however many keys there are.
 *
 * A table in force changes in two ways only. A key that is added makes another table, put in place by a pointer under
 * the write lock; a key that is revoked is marked as gone, which needs no memory and hence cannot fail once its row is
 * deleted. The next table leaves it out. */
#ifndef LD_KEYS_IMPL_H
#define LD_KEYS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "keys/keys.h"

/* Never changed but for its atomics. Owned by the table that is in force. */
struct ld_key_entry {
    struct ld_key key;
    _Atomic int64_t last_used_at;
    _Atomic int64_t written_at; /* of last_used_at, what the file has */
    atomic_bool is_gone;
};

/* n entries in cap slots, a power of two and at least 2 (n + 1), so that a search ends at an empty one. */
struct ld_key_table {
    size_t n, cap;
    struct ld_key_entry *slot[];
};

struct ld_keys {
    struct ld_registry_file *file;
    pthread_mutex_t change_lock; /* one change at a time, held over the disk; its holder may read the table without: */
    pthread_rwlock_t lock;       /* the table, for as long as a request looks a key up or a pointer is exchanged */
    struct ld_key_table *table;
    atomic_bool do_exist;
    _Atomic int64_t next_flush_ms;
    /* Where the log is shared; under change_lock: */
    struct ld_shared_log *log; /* NULL: the file is the truth */
    uint64_t read;             /* the revision whose keys the table has; 0: none was read, or it is to be read again */
    uint64_t least;            /* that of the last change from here: older ones are not put in force any more */
    _Atomic bool is_guess;     /* do_exist is: nobody has told yet whether there are keys */
    bool is_file_old;          /* the file does not take the keys of `read` */
};

/* --- keys_table.c ------------------------------------------------------------------------------------------ */

/* An empty one with room for n; NULL without memory. */
struct ld_key_table *ld_key_table_new(size_t n);
/* NULL is fine. */
void ld_key_table_free(struct ld_key_table *t, bool with_entries);
/* There is room, and no entry of that id. */
void ld_key_table_put(struct ld_key_table *t, struct ld_key_entry *e);
/* An entry for the key; grows by a new table for each doubling. False: no memory. */
bool ld_key_table_load(struct ld_key_table **t, const struct ld_key *key);
/* A table of the same entries, but those that are gone, with room for one more, which may be NULL. */
struct ld_key_table *ld_key_table_copy(const struct ld_key_table *from);
/* --- who.c --------------------------------------------------------------------------------------------------- */

/* Slot of the id, or the empty one where it belongs. */
size_t ld_key_table_slot(const struct ld_key_table *t, const char *id);
/* The entry, unless it is gone; NULL. */
struct ld_key_entry *ld_key_table_find(const struct ld_key_table *t, const char *id);
/* The next entry at or after *i that is not gone, NULL at the end; *i is moved behind it. */
struct ld_key_entry *ld_key_table_next(const struct ld_key_table *t, size_t *i);
struct ld_key_entry *ld_key_entry_new(const struct ld_key *key); /* NULL without memory */
struct ld_key ld_key_entry_view(const struct ld_key_entry *e);   /* with the last use of this moment */

/* --- keys.c; change_lock held ------------------------------------------------------------------------------- */

/* Puts the table in force; the one before is the caller's. */
struct ld_key_table *ld_keys_put(struct ld_keys *k, struct ld_key_table *fresh);
/* Adds an entry by a table of room for it, which comes into force. */
void ld_keys_take_in(struct ld_keys *k, struct ld_key_table *fresh, struct ld_key_entry *e);
void ld_keys_mark_gone(struct ld_keys *k, struct ld_key_entry *e);
/* Whether it may be, by all keys that there are; *p when not. */
bool ld_keys_may_create(const struct ld_key_table *t, const struct ld_key *key, bool has_any, bool has_other,
                        struct ld_problem *p);
bool ld_keys_may_revoke(const struct ld_key_table *t, const char *tenant, const char *id, bool has_other,
                        struct ld_problem *p);

/* --- keys_shared.c ------------------------------------------------------------------------------------------ */

int ld_keys_create_shared(struct ld_keys *k, const struct ld_key *made, bool has_other, struct ld_problem *p);
int ld_keys_revoke_shared(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p);

#endif
