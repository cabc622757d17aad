/* User kernels that are made from the spectrum of the Laplacian: powers, heat, RBF on spectral coordinates.
 * Dense only. Private to the user kernel. */
#ifndef KB_USER_SPECTRAL_H
#define KB_USER_SPECTRAL_H

#include "base/err.h"
#include "graph/graph.h"
#include "spec/spec.h"

/* The whole Gram matrix over the graph's n nodes into g (n x n, both triangles, exactly symmetric); graph may be
 * NULL (n = 0). No population. Users of different components have exactly 0. KB_ENOTPD when the graph's weights and
 * rho are too far apart for double precision, KB_ENOMEM. O(n^3); 4 n^2 doubles in all, g included. */
enum kb_err kb_user_spectral(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph, double *g);

/* G_uu of an isolated user, which is also every stranger's: rho^-power, 1 or 1. */
double kb_user_spectral_isolated(const struct kb_user_kernel_spec *spec);

#endif
