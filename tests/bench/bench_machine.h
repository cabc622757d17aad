/* What the machine can do, for benches: thread CPU time, OpenBLAS on the right kernels, and the bare linear algebra
 * that the core's operations are set beside. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>

/* CPU time of this thread in microseconds: other processes cost none of it but what they push out of the caches. */
double bench_cpu_us(void);

/* The machine's load average over the last minute; -1 where it has none. For the lines that benches print: figures of a
 * busy hour look like those of a quiet one. */
double bench_load(void);

/* Prints what failed and ends the process. */
void bench_die(const char *program, const char *what);

/* Median of n >= 1 values; sorts them. */
double bench_median(size_t n, double *value);

/* Runs the program again with OPENBLAS_CORETYPE where OpenBLAS has fallen back to its oldest kernels, and sets one
 * thread per call. Call first in main. */
void bench_settle_blas(char *const *argv);

/* Microseconds of one product C = A B of order BENCH_GEMM: the rate that nothing else reaches. */
#define BENCH_GEMM 384
double bench_gemm_us(void);

/* Nanoseconds of one exp of libm, called from a loop. */
double bench_exp_ns(void);

/* Two lower triangular matrices of one order, and right-hand sides for them. */
struct bench_floor {
    size_t m;
    double *l[2], *x;
};

/* False without memory. n_rhs <= BENCH_MAX_RHS in what follows. */
#define BENCH_MAX_RHS 32
int bench_floor_init(struct bench_floor *f, size_t m);
void bench_floor_close(struct bench_floor *f);

/* Microseconds of one dtrsm with n_rhs right-hand sides: alone (n_factors 1: the same matrix again and again), or as
 * one of a pair (2: the two matrices in turn, as a dictionary's decision meets A and then R). */
double bench_trsm_us(struct bench_floor *f, size_t n_rhs, int n_factors);

#endif
