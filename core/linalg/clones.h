/* KB_HOT: builds a function once per level of x86-64 vector instructions and picks at load time.
 *
 * For the few hand-written loops of the core (rank-one updates, conjugate gradients). The baseline binary stays
 * portable; on an AVX-512 machine the loops run two to three times faster. Only elementwise loops may carry
 * it: with -ffp-contract=off every level then computes the same bits. Off under sanitizers (they run before
 * the resolver may) and for compilers and machines that do not have it. */
#ifndef KB_CLONES_H
#define KB_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define KB_HOT __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KB_HOT
#endif

#endif
