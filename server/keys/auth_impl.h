/* Keys of a file: auth.c reads them, who.c compares with them. */
#ifndef LD_AUTH_IMPL_H
#define LD_AUTH_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "keys/auth.h"

#define LD_FILE_KEY_BYTES 256
#define LD_FILE_KEYS 64

/* Never changed once it is in force: a reload makes another. 16 KiB. */
struct ld_key_file {
    size_t n;
    unsigned char key[LD_FILE_KEYS][LD_FILE_KEY_BYTES];
};

/* The lock guards the pointer alone, for as long as a request compares. Whether there is a file is asked more often
 * than for its keys. */
struct ld_auth {
    pthread_rwlock_t lock;
    struct ld_key_file *keys; /* NULL: there is no file */
    atomic_bool has_file, has_had_file;
};

#endif
