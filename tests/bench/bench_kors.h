/* Engines for benches: with a KORS dictionary of a given size, and with one mean for each arm of a catalogue. */
#ifndef BENCH_KORS_H
#define BENCH_KORS_H

#include <stddef.h>
#include <stdint.h>

struct kb_engine;

#define BENCH_KORS_DIM 16

/* Point i: independent normals. */
void bench_kors_point(double *x, uint64_t i);

/* EK's preset with m points of m in its dictionary, far enough apart that every one was admitted: points 0, 1, ... in
 * the order of the history. Ends the process when it cannot. */
struct kb_engine *bench_kors_engine(size_t m);

/* The preset `ucb` over a catalogue of n_arms arms, each rewarded once. Likewise. */
struct kb_engine *bench_catalogue_engine(size_t n_arms);

#endif
