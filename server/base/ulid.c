/* ULIDs. 80 bits from the kernel's generator: the chance that two of n ids of one millisecond collide is below
 * n^2 / 2^81. An id is not a secret; whoever knows it may report the reward of that decision, though, so it should
 * not be guessable either, and getrandom(2) makes it so. Each thread fetches the bytes of many ids at a time, and
 * forgets those of an id when it is made. Cost: a system call for every 51 ids. */
#include "base/ulid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Without I, L, O and U: nothing to misread. */
static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

#define ID_BYTES 10
#define POOL_BYTES (51 * ID_BYTES)

/* 256 bytes and more may come short, by a signal. */
static void fill_random(unsigned char *out, size_t n)
{
    while (n > 0) {
        ssize_t got = getrandom(out, n, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* a kernel without getrandom: no id can be trusted */
        out += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
}

static void take_random(unsigned char out[ID_BYTES])
{
    static _Thread_local unsigned char pool[POOL_BYTES];
    static _Thread_local size_t n_left;
    if (n_left == 0)
        fill_random(pool, n_left = sizeof pool);
    n_left -= ID_BYTES;
    memcpy(out, pool + n_left, ID_BYTES);
    memset(pool + n_left, 0, ID_BYTES);
}

/* Writes the low 5 * n bits of `value`, most significant first. */
static void put_base32(char *out, int n, uint64_t value)
{
    for (int i = n - 1; i >= 0; i--) {
        out[i] = digits[value & 31];
        value >>= 5;
    }
}

/* The random part is not counted up within a millisecond, so ids of one millisecond have no order among themselves. */
void ld_ulid(int64_t now_ms, char out[LD_ULID_BYTES])
{
    unsigned char r[ID_BYTES];
    take_random(r);
    uint64_t high = 0, low = 0; /* 40 bits each: eight characters each */
    for (int i = 0; i < 5; i++) {
        high = high << 8 | r[i];
        low = low << 8 | r[5 + i];
    }
    put_base32(out, 10, (uint64_t)now_ms & 0xffffffffffffu);
    put_base32(out + 10, 8, high);
    put_base32(out + 18, 8, low);
    out[26] = '\0';
}
