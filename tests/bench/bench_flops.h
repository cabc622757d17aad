/* Flops of the operations of a model: what their formulas need, whatever the code does. All O(1). */
#ifndef BENCH_FLOPS_H
#define BENCH_FLOPS_H

#include "bench_subject.h"

double bench_decide_flops(const struct bench_subject *s);    /* one decision of N_CANDIDATES */
double bench_learn_flops(const struct bench_subject *s);     /* one reward; exact: at a point seen before */
double bench_learn_new_flops(const struct bench_subject *s); /* exact: one reward at a new point */
double bench_ask_flops(const struct bench_subject *s);       /* one question of admission */
double bench_settle_flops(const struct bench_subject *s);    /* one spectrum */

#endif
