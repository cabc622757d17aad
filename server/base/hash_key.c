/* The key of hash tables (hash_key.h). The core is handed it with each table or engine, since it may not ask the
 * system; the decoders' tables and those of the tools take it from here. */
#include "base/hash_key.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kb_hash_key drawn;

/* So few bytes come whole, unless a signal ends the wait for a machine that has only just started. */
static void draw(void)
{
    for (int i = 0; i < 100; i++)
        if (getrandom(&drawn, sizeof drawn, 0) == (ssize_t)sizeof drawn)
            return;
    fputs("laplaced: the system has no random numbers to give\n", stderr);
    abort();
}

struct kb_hash_key ld_hash_key(void)
{
    (void)pthread_once(&once, draw);
    return drawn;
}
