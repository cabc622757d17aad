/* Fixture of the user kernel's tests: a small and a large random graph, one kernel in hand, and its users. */
#ifndef KBT_USERS_H
#define KBT_USERS_H

#include "kbt.h"
#include "graph/user_kernel.h"

#define KBT_SMALL 60
#define KBT_LARGE 2500 /* beyond KB_GRAPH_DENSE_MAX: the column form */
#define KBT_RHO 0.1

extern struct kb_graph *kbt_small_graph, *kbt_large_graph; /* the last two nodes are isolated */
extern double *kbt_large_inverse[2];                       /* dense oracle for the large one, by population */
extern const double kbt_populations[2];                    /* 0 and 0.8 */

void kbt_users_set_up(void);
void kbt_users_tear_down(void);

/* The kernel in hand and a scratch for it. */
extern struct kb_user_kernel *kbt_users_kernel;
extern struct kb_user_scratch *kbt_users_scratch;
void kbt_open_kernel(enum kb_user_kernel_type type, double population, bool is_normalized,
                     const struct kb_graph *graph);
void kbt_open_spec(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph);
void kbt_close_kernel(void);

/* Users: interned index 1000 + node for nodes, i for strangers. */
struct kb_user kbt_node_user(uint32_t node);
struct kb_user kbt_stranger(uint32_t i);

uint32_t kbt_add_anchor(struct kb_user u);              /* its slot */
double kbt_user_value(struct kb_user u, uint32_t slot); /* G[u, anchor] */

#endif
