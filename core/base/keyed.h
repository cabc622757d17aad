/* The hash of tables whose entries come from outside: SipHash-1-3, under a key that nobody outside knows.
 *
 * It promises that whoever chooses ids or vectors cannot make them meet in a table more often than chance does. Its
 * values never reach the log, a digest, a snapshot or an answer: those take hash.h, which is the same everywhere.
 *
 *   v_0 .. v_3   the state   k_0, k_1   the key   m   the next word   [SH, sec. 2]
 *
 * One round a word and three at the end: the shortened form that hash tables of Rust, Ruby and Python use.
 * Deviation: those who hash a fixed number of words leave out the last word of the paper, which tells the length;
 * strings have it. Test: keyed_words_are_the_string_without_its_last_word.
 *
 * Cost: 14 operations a word of eight bytes, and 60 at the end. */
#ifndef KB_KEYED_H
#define KB_KEYED_H

#include <stdint.h>

/* Drawn once by whoever runs the core, and the same in all tables that are joined or swapped. All zero is a key, too,
 * for those whose input nobody else chooses. */
struct kb_hash_key {
    uint64_t k[2];
};

struct kb_keyed {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t kb_keyed_rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void kb_keyed_round(struct kb_keyed *s)
{
    s->v0 += s->v1;
    s->v1 = kb_keyed_rotate(s->v1, 13) ^ s->v0;
    s->v0 = kb_keyed_rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = kb_keyed_rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = kb_keyed_rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = kb_keyed_rotate(s->v1, 17) ^ s->v2;
    s->v2 = kb_keyed_rotate(s->v2, 32);
}

static inline struct kb_keyed kb_keyed_begin(struct kb_hash_key key)
{
    return (struct kb_keyed){key.k[0] ^ 0x736f6d6570736575u, key.k[1] ^ 0x646f72616e646f6du,
                             key.k[0] ^ 0x6c7967656e657261u, key.k[1] ^ 0x7465646279746573u};
}

static inline void kb_keyed_word(struct kb_keyed *s, uint64_t m)
{
    s->v3 ^= m;
    kb_keyed_round(s);
    s->v0 ^= m;
}

static inline uint64_t kb_keyed_end(struct kb_keyed s)
{
    s.v2 ^= 0xffu;
    kb_keyed_round(&s);
    kb_keyed_round(&s);
    kb_keyed_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* By value: -0.0 is hashed as 0.0, which it equals. */
void kb_keyed_double(struct kb_keyed *s, double x);

/* SipHash-1-3 of the bytes of s, without its NUL. */
uint64_t kb_keyed_str(struct kb_hash_key key, const char *s);

#endif
