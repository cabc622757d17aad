/* A model of a given size for benches: a preset's engine with m points, and a decision to put to it. */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/engine_read.h"

#define N_CANDIDATES 20
#define ARM_DIM 8
#define CONTEXT_DIM 4
#define DIM (ARM_DIM + CONTEXT_DIM)
#define N_NEW 64 /* points beyond the m, for those who want some not seen before */

/* A row: a preset as it is, or with another representation, bound or score. -1: the preset's. */
struct bench_row {
    const char *label, *preset;
    int repr, conf, score;
};

/* An engine with m points, and what it is asked. */
struct bench_subject {
    struct kb_engine *engine;
    struct kb_scratch *scratch;
    struct kb_spec spec;
    size_t m, n_points; /* taught so far: points 0..n_points-1 */
    double *x;          /* [m + N_NEW][DIM]: context, then features */
    uint64_t *taught;   /* [m + N_NEW] the event that first taught each */
    uint64_t seq, n_drawn;
    double features[N_CANDIDATES][ARM_DIM];
    struct kb_candidate candidate[N_CANDIDATES];
    char arm[N_CANDIDATES][24];
};

/* Fills *s with the row's model on m points; ends the process when it cannot. */
void bench_subject_open(struct bench_subject *s, const struct bench_row *row, size_t m);
void bench_subject_close(struct bench_subject *s);
bool bench_has_dictionary(const struct bench_subject *s);

/* The next event of the log, applied. */
void bench_fold(struct bench_subject *s, struct kb_event *ev);
/* A reward at point i (at most n_points), and the event that says so; names lasts as long as the event. */
void bench_teach(struct bench_subject *s, size_t i);
struct bench_names {
    char user[24], arm[24];
};
struct kb_event bench_observation(const struct bench_subject *s, size_t i, struct bench_names *names);

#endif
