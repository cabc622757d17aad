/* How wide the vectors are that loops are written for, as far as it is more than the compiler's business (clones.h):
 * kernels of their own for each width stand in lower_solve.c and vec_many.c. */
#ifndef KB_LANES_H
#define KB_LANES_H

/* Doubles in a vector: SSE2 and whatever is not x86, AVX2 with fused multiplications, AVX-512. */
enum kb_lanes { KB_LANES_2, KB_LANES_4, KB_LANES_8 };

/* The widest that this processor has. Asked at each call, since it is two loads: the loader's choice (ifunc) would be
 * another way for sanitizers and for tests, which run every width. */
static inline enum kb_lanes kb_widest_lanes(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return KB_LANES_8;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return KB_LANES_4;
#endif
    return KB_LANES_2;
}

#define KB_TARGET_4 __attribute__((target("avx2,fma")))
#define KB_TARGET_8 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define KB_INLINE static inline __attribute__((always_inline))

#endif
