/* Decision ids that the server makes: 26 characters of Crockford's base 32, 48 bits of milliseconds and then 80
 * random bits. They sort by time of creation as text, which keeps the log's index on decisions local. */
#ifndef LD_ULID_H
#define LD_ULID_H

#include <stdint.h>

#define LD_ULID_BYTES 27 /* with the terminating NUL */

void ld_ulid(int64_t now_ms, char out[LD_ULID_BYTES]);

#endif
