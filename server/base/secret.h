/* The secrets behind keys (owner of libsodium: secret.c). A key is lpd_ID_SECRET: 16 hexadecimal digits that name it
 * and 64 that prove it. */
#ifndef LD_SECRET_H
#define LD_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define LD_KEY_ID_BYTES 17   /* with the NUL */
#define LD_KEY_TEXT_BYTES 86 /* with the NUL */
#define LD_KEY_HASH_BYTES 32

/* Before anything else here. 0, or -1 when the system has no randomness to give. */
int ld_secret_init(void);

/* A new key, its id and its hash. */
void ld_secret_make(char text[LD_KEY_TEXT_BYTES], char id[LD_KEY_ID_BYTES], unsigned char hash[LD_KEY_HASH_BYTES]);

/* The id in a text that has the form of a key; false for any other text. Says nothing about whether there is one. */
bool ld_secret_id(const char *text, char id[LD_KEY_ID_BYTES]);

void ld_secret_hash(const char *text, unsigned char hash[LD_KEY_HASH_BYTES]);

/* Takes as long whatever is in them. */
bool ld_secret_equal(const unsigned char a[LD_KEY_HASH_BYTES], const unsigned char b[LD_KEY_HASH_BYTES]);

#endif
