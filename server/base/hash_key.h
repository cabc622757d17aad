/* The key of all hash tables of this process (core/base/keyed.h): 128 bits of the system's, drawn once, told to nobody.
 */
#ifndef LD_HASH_KEY_H
#define LD_HASH_KEY_H

#include "base/keyed.h"

/* The same for each call and thread. Ends the process where the system has no randomness to give: tables without a
 * secret would be at the mercy of whoever sends ids. */
struct kb_hash_key ld_hash_key(void);

#endif
