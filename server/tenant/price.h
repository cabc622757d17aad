/* What requests cost, in tokens of the tenant's bucket (limit.h): the one place that says so.
 *
 * One token is about 0.1 ms of one core: what a small request takes on its way through HTTP, or a million
 * multiply-adds, or the way of ten events into the log. With m points in the model (distinct points of an exact one,
 * points of a dictionary; where arms are held apart those of an arm, in the mean of their squares; 1 without a factor)
 * and d coordinates of context and arm together:
 *
 *     any request                                1
 *     /select among C candidates, or a           1 + C (m^2 + m d) / 10^6
 *     /posterior of C users times arms, or of as many features
 *     /select of S slots among C candidates      1 + S C (m^2 + m d) / 10^6
 *     `neighbours` with either of them           and w / 10^6 for w multiply-adds
 *     n rewards, or observations                 1 + n (1/10 + (3 m^2 + m d) / 10^6)
 *     n edges, users or arms                     1 + n / 100
 *     /graph/near, of up to n users              10 + n / 100; over a graph of more than 2,048 users 10 + 10 n
 *     /model                                     1 + m^3 / 10^6
 *     /events, of up to n lines                  1 + n / 100; a stream 1, and n / 100 whenever n lines are sent
 *     /stats, /series, /decisions, GET of graph and arms              10
 *     a fold or a copy of the log: /verify,      1 + t (1/100 + (3 m^2 + m d) / 10^6), t rewards learned so far
 *     /rebuild, /compact, /replay, PUT of a configuration,
 *     DELETE of a user; /snapshot, /export       (these two 1 + t / 100)
 *
 * Sizes are those of the writer's last turn. Nothing costs more than the burst: what would, asks for a full bucket. */
#ifndef LD_PRICE_H
#define LD_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What answering a route takes. */
enum ld_work {
    LD_WORK_TOLD,    /* the handler asks, who knows what is in the body or the query */
    LD_WORK_REQUEST, /* small */
    LD_WORK_MODEL,   /* of the order of a factorisation */
    LD_WORK_LOOK,    /* reads much and computes little */
    LD_WORK_COPY,    /* reads the whole log */
    LD_WORK_FOLD     /* folds it */
};

/* How large a tenant is. */
struct ld_size {
    size_t points, active_arms; /* points: kb_posterior_width */
    uint64_t learned;
    uint32_t dims;
};

/* Candidates 0: the whole catalogue; slots 0: as 1. */
double ld_price_decision(const struct ld_size *size, size_t n_candidates, size_t n_slots);
double ld_price_events(const struct ld_size *size, size_t n);
double ld_price_neighbours(double work);        /* of so many multiply-adds, in addition */
double ld_price_lines(uint64_t n);              /* of the log, or edges, users, arms */
double ld_price_near(size_t n, bool is_solved); /* is_solved: each of them takes a system */
double ld_price_fold(const struct ld_size *size);

/* Of a route, by what its row says; 0: the handler asks. */
double ld_price_work(const struct ld_size *size, enum ld_work work);

#endif
