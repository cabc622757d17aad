/* Interned ids: string <-> dense index 0, 1, 2, ... in order of first appearance, never removed.
 * Indices are a function of the order of insertion alone, hence of the log. */
#ifndef KB_IDS_H
#define KB_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed.h"
#include "base/moves.h"

#define KB_ID_NONE UINT32_MAX
#define KB_ID_MAX_BYTES 256u
#define KB_SMALL_CHANGE                                                                                                \
    256u /* ids: so many new ones are put into a table of many where it is; more, into a copy of it */

/* Three arrays that grow apart from each other; all derive from the sequence of ids added. */
struct kb_ids {
    char *bytes; /* all ids, each NUL-terminated */
    size_t n_bytes, cap_bytes;
    size_t *offset; /* [n] start of id i in bytes */
    size_t n, cap;
    uint32_t *slot; /* open addressing, KB_ID_NONE = empty; n_slots is a power of two */
    size_t n_slots;
    struct kb_hash_key key; /* of the table */
};

/* An empty table owns no memory; find, close and reserve take it as it is. Tables that are joined have the same key. */
void kb_ids_init(struct kb_ids *ids, struct kb_hash_key key);
void kb_ids_close(struct kb_ids *ids);

/* Index of id, or KB_ID_NONE. O(1). */
uint32_t kb_ids_find(const struct kb_ids *ids, const char *id);

/* Memory for n more ids with n_bytes in all (NULs included): the next n kb_ids_add cannot fail. */
enum kb_err kb_ids_reserve(struct kb_ids *ids, size_t n, size_t n_bytes);
/* The same beside readers: what has to move is added to m, and the room is there after the swap (moves.h). Nothing is
 * added when there is room. KB_ELIMIT, KB_ENOMEM. O(n), or nothing. */
enum kb_err kb_ids_grow(struct kb_ids *ids, size_t n, size_t n_bytes, struct kb_moves *m);

/* The same with the ids of `fresh`, none of which is in ids, added already: O(1) in the swap, however many they are.
 * Nothing else may be added before it. O(n) for all ids. */
enum kb_err kb_ids_join(struct kb_ids *ids, const struct kb_ids *fresh, struct kb_moves *m);

/* The same with a table that has all of them already, made by the two functions below: `slot` of n_slots, at least
 * kb_ids_slots_for(ids->n + fresh->n) of them. It is taken over, whatever comes of it. O(n), the speed of memory. */
enum kb_err kb_ids_join_placed(struct kb_ids *ids, const struct kb_ids *fresh, uint32_t *slot, size_t n_slots,
                               struct kb_moves *m);
size_t kb_ids_slots_for(size_t n);          /* a power of two */
uint32_t *kb_ids_slots_new(size_t n_slots); /* all of them empty; NULL: no memory */
/* Puts a number for an id that is not in the table yet; key: that of the ids which will take the table. */
void kb_ids_place(uint32_t *slot, size_t n_slots, struct kb_hash_key key, const char *id, uint32_t number);

/* A list of distinct ids to be joined: nothing finds them. Room for n more, then one after the other. */
enum kb_err kb_ids_list(struct kb_ids *ids, size_t n, size_t n_bytes);
uint32_t kb_ids_put(struct kb_ids *ids, const char *id); /* its number */

/* Index of id, added when new. Needs a reservation when new (asserted). */
uint32_t kb_ids_add(struct kb_ids *ids, const char *id);

/* The string of index ix; valid until the next reserve or add. */
const char *kb_ids_str(const struct kb_ids *ids, uint32_t ix);

#endif
