/* Thompson's propensities by quadrature: P(z_i = max_j z_j) for independent z_j ~ N(m_j, d_j^2).
 *
 *   P_i = int f_i(x) prod_{j != i} F_j(x) dx            [LK, eq. 7]
 *
 *   m_j, d_j   mean[j], sd[j]              f_j, F_j   density and distribution function of z_j
 *   mark       a position m_k + offset     span       an interval between two marks
 *
 * All P_i are integrated together: at a node x the logarithms L_j = ln F_j(x) are computed once, and each
 * integrand is exp(S - L_i) f_i with S = sum L_j, so a node costs one erfc, log and exp per arm rather than n.
 * A span is accepted when the 7-point Gauss and the 15-point Kronrod sums agree for every arm to TOLERANCE, and
 * halved otherwise; the Kronrod error is then far below the difference.
 *
 * Numerical notes.
 * - Only arms that can win enter: below the largest m_j - TAIL d_j (or the highest point mass) the largest z
 *   lies with probability 1e-17, and an arm that ends before that has a probability below 1e-17.
 * - Spans start at m_j +- {0, 1, 3, 6, TAIL} d_j, so no narrow arm falls between the nodes of a wide one. Marks
 *   closer than half their own arm's d_j to the one before are dropped: they would only repeat the work.
 * - Positions are kept as (arm, offset), the arm of a span being the narrower of its two ends: x - m_j is then
 *   (m_k - m_j) + offset, and d_j / |m_j| = 1e-12 costs no digits where a plain x would lose all of them.
 * - Point masses (d_j = 0): the highest wins when everything else is below it, which is the product of the F_j there;
 *   those tied with it (KB_TIE) share that alike. The other arms' integrals start at it. Others never win.
 *
 * Cost: about 30 spans of 15 nodes for arms of like scale; 0.1 ms at 10 arms, a few ms at 100. No allocation.
 *
 * Called once per decision of a Thompson rule (policy.c), in the thread of the request, from its scratch. The
 * propensities are logged with the decision, so they have to be the probabilities of the draw that is made,
 * not an estimate of them: 1e-12 is far below what importance weights need. */
#include "rules/policy.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/kronrod.h"

#define TAIL 8.5
#define TOLERANCE 1e-12
#define MAX_DEPTH 48
#define N_MARKS 9u /* per arm */
#define ROOT_2PI 2.50662827463100050242

/* A position: mean[arm] + offset. */
struct mark {
    size_t arm;
    double offset;
};

struct span {
    size_t arm; /* positions are mean[arm] + lo and mean[arm] + hi */
    double lo, hi;
    int depth;
};

/* One call's work space; arrays over the active arms unless said otherwise. */
struct quad {
    const double *mean, *sd; /* all arms */
    double *probability;     /* all arms */
    size_t *active, n_active;
    struct mark *mark;
    size_t n_marks;
    /* [n_active] */
    double *gap; /* mean of the span's arm - m_j */
    double *log_cdf, *half_z2;
    double *gauss, *kronrod; /* sums over the span in hand */
};

/* --- one node ----------------------------------------------------------------------------------------- */

/* ln Phi(z), finite for every z that is not NaN. Three branches: log1p where the value is near 0, erfc where
 * it is a normal number, else the first terms of the asymptotic series of the tail. */
static double log_normal_cdf(double z)
{
    if (z > 0)
        return log1p(-0.5 * erfc(z * M_SQRT1_2));
    if (z > -37)
        return log(0.5 * erfc(-z * M_SQRT1_2));
    double far = z > -1e8 ? z : -1e8; /* beyond: only that it is hopeless matters */
    return -0.5 * far * far - log(-far * ROOT_2PI) + log1p(-1.0 / (far * far));
}

/* Fills log_cdf and half_z2 of the active arms at the span's arm + offset; returns the sum of log_cdf. Beyond
 * TAIL ln F is below 1e-16 in size and counts as 0, which spares the erfc. */
static double evaluate(struct quad *q, double offset)
{
    double sum = 0;
    for (size_t a = 0; a < q->n_active; a++) {
        double z = (q->gap[a] + offset) / q->sd[q->active[a]];
        q->half_z2[a] = 0.5 * z * z;
        q->log_cdf[a] = z < TAIL ? log_normal_cdf(z) : 0.0;
        sum += q->log_cdf[a];
    }
    return sum;
}

/* Adds the node to both sums. The weights are for an interval of length 2; `half` is half the span's length.
 * The product is put together in logarithms, since the F_j of arms far above the node underflow one by one.
 * Exponents below -700 add less than 1e-300. */
static void add_node(struct quad *q, double offset, double half, double w_kronrod, double w_gauss)
{
    double sum = evaluate(q, offset);
    for (size_t a = 0; a < q->n_active; a++) {
        double exponent = sum - q->log_cdf[a] - q->half_z2[a];
        if (!(exponent > -700))
            continue;
        double value = exp(exponent) * (half / q->sd[q->active[a]]) / ROOT_2PI;
        q->kronrod[a] += w_kronrod * value;
        q->gauss[a] += w_gauss * value;
    }
}

/* --- one span ----------------------------------------------------------------------------------------- */

/* Both sums over the span; true when they agree for every arm. The worst arm decides: one arm's narrow peak
 * would be lost in an average over many. */
static bool integrate(struct quad *q, const struct span *s)
{
    double half = 0.5 * (s->hi - s->lo), centre = s->lo + half, worst = 0;
    for (size_t a = 0; a < q->n_active; a++) {
        q->gap[a] = q->mean[s->arm] - q->mean[q->active[a]];
        q->gauss[a] = q->kronrod[a] = 0;
    }
    for (size_t i = 0; i < 7; i++) {
        add_node(q, centre - half * kb_kronrod_nodes[i], half, kb_kronrod_weights[i], kb_gauss_weights[i]);
        add_node(q, centre + half * kb_kronrod_nodes[i], half, kb_kronrod_weights[i], kb_gauss_weights[i]);
    }
    add_node(q, centre, half, kb_kronrod_weights[7], kb_gauss_weights[7]);
    for (size_t a = 0; a < q->n_active; a++)
        worst = fmax(worst, fabs(q->kronrod[a] - q->gauss[a]));
    return worst <= TOLERANCE;
}

/* Halves the span until both rules agree everywhere; depth first, so the stack holds one span per depth. A
 * span too short to be halved in double is taken as it is; MAX_DEPTH bounds the work for hopeless integrands. */
static void integrate_adaptively(struct quad *q, struct span whole)
{
    struct span stack[MAX_DEPTH + 1];
    size_t n = 0;
    stack[n++] = whole;
    while (n > 0) {
        struct span s = stack[--n];
        double middle = s.lo + 0.5 * (s.hi - s.lo);
        bool is_splittable = s.depth < MAX_DEPTH && middle > s.lo && middle < s.hi;
        if (integrate(q, &s) || !is_splittable) {
            for (size_t a = 0; a < q->n_active; a++)
                q->probability[q->active[a]] += q->kronrod[a];
            continue;
        }
        stack[n++] = (struct span){.arm = s.arm, .lo = s.lo, .hi = middle, .depth = s.depth + 1};
        stack[n++] = (struct span){.arm = s.arm, .lo = middle, .hi = s.hi, .depth = s.depth + 1};
    }
}

/* --- marks -------------------------------------------------------------------------------------------- */

/* Position of b minus position of a. */
static double distance(const struct quad *q, struct mark a, struct mark b)
{
    return (q->mean[b.arm] - q->mean[a.arm]) + (b.offset - a.offset);
}

/* Where the integrals start; point_mass is SIZE_MAX when there is none. Needs at least one arm of sd > 0. It
 * is the highest of all lower ends m_j - TAIL d_j and of the point mass. */
static struct mark find_start(const struct quad *q, size_t n, size_t point_mass)
{
    struct mark start = {.arm = point_mass};
    for (size_t i = 0; i < n; i++) {
        struct mark end = {.arm = i, .offset = -TAIL * q->sd[i]};
        if (q->sd[i] > 0 && (start.arm == SIZE_MAX || distance(q, start, end) > 0))
            start = end;
    }
    return start;
}

/* The arms that reach beyond start, and their marks there. The tails at both ends are marks themselves, so
 * the last mark is the end of the integral. */
static void collect(struct quad *q, size_t n, struct mark start)
{
    static const double multiples[N_MARKS] = {-TAIL, -6, -3, -1, 0, 1, 3, 6, TAIL};
    q->n_active = 0;
    q->mark[0] = start;
    q->n_marks = 1;
    for (size_t i = 0; i < n; i++) {
        struct mark end = {.arm = i, .offset = TAIL * q->sd[i]};
        if (!(q->sd[i] > 0) || !(distance(q, start, end) > 0))
            continue;
        q->active[q->n_active++] = i;
        for (size_t k = 0; k < N_MARKS; k++) {
            struct mark m = {.arm = i, .offset = multiples[k] * q->sd[i]};
            if (distance(q, start, m) > 0)
                q->mark[q->n_marks++] = m;
        }
    }
}

/* Shell sort: in place, without the allocation that qsort may make. */
static void sort_marks(struct quad *q)
{
    size_t gap = 1;
    while (gap < q->n_marks / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (size_t i = gap; i < q->n_marks; i++) {
            struct mark m = q->mark[i];
            size_t j = i;
            for (; j >= gap && distance(q, m, q->mark[j - gap]) > 0; j -= gap)
                q->mark[j] = q->mark[j - gap];
            q->mark[j] = m;
        }
    }
}

/* Drops marks too close to the one before; the last always stays, as the end of the integral. */
static void thin_marks(struct quad *q)
{
    size_t n = 1;
    for (size_t i = 1; i < q->n_marks; i++) {
        struct mark m = q->mark[i];
        if (i + 1 == q->n_marks || distance(q, q->mark[n - 1], m) >= 0.5 * q->sd[m.arm])
            q->mark[n++] = m;
    }
    q->n_marks = n;
}

/* The span between two marks, anchored at the arm of the smaller standard deviation: offsets there keep digits that
 * an absolute position, or the wider arm's offset, would round away. */
static struct span span_between(const struct quad *q, struct mark a, struct mark b)
{
    bool is_at_a = q->sd[a.arm] <= q->sd[b.arm];
    double length = distance(q, a, b);
    if (is_at_a)
        return (struct span){.arm = a.arm, .lo = a.offset, .hi = a.offset + length};
    return (struct span){.arm = b.arm, .lo = b.offset - length, .hi = b.offset};
}

/* --- the whole ----------------------------------------------------------------------------------------- */

/* Highest arm of sd 0; SIZE_MAX when there is none. sd that is not above 0 counts
 * as 0, NaN included. */
static size_t find_point_mass(size_t n, const double *mean, const double *sd)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        if (!(sd[i] > 0) && (best == SIZE_MAX || mean[i] > mean[best]))
            best = i;
    }
    return best;
}

/* P(every arm of positive sd is below the point mass). */
static double probability_all_below(size_t n, const double *mean, const double *sd, size_t point_mass)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (sd[i] > 0)
            sum += log_normal_cdf((mean[point_mass] - mean[i]) / sd[i]);
    }
    return exp(sum);
}

/* Splits the probability of the best point mass among those tied with it. */
static void share_among_tied(size_t n, const double *mean, const double *sd, size_t best, double *probability)
{
    const double least = mean[best] - KB_TIE * fabs(mean[best]), all = probability[best];
    size_t n_tied = 0;
    for (size_t i = 0; i < n; i++)
        n_tied += !(sd[i] > 0) && mean[i] >= least;
    for (size_t i = 0; n_tied > 1 && i < n; i++)
        if (!(sd[i] > 0) && mean[i] >= least)
            probability[i] = all / (double)n_tied;
}

/* What kb_quad_argmax draws: five arrays of doubles, the marks, and the indices of the active arms. */
size_t kb_quad_bytes(size_t n)
{
    size_t marks = N_MARKS * n + 1; /* a mark and an index take no more than two doubles and one */
    return 5 * kb_arena_need(n) + kb_arena_need(2 * marks) + kb_arena_need(n);
}

/* Point mass first, then the integrals from `start` on, span by span. */
void kb_quad_argmax(size_t n, const double *mean, const double *sd, double *probability, struct kb_arena *arena)
{
    _Static_assert(sizeof(struct mark) <= 2 * sizeof(double) && sizeof(size_t) <= sizeof(double), "kb_quad_bytes");
    size_t at = kb_arena_mark(arena), point_mass = find_point_mass(n, mean, sd);
    struct quad q = {.mean = mean, .sd = sd, .probability = probability};
    q.active = kb_arena_bytes(arena, n * sizeof *q.active);
    q.mark = kb_arena_bytes(arena, (N_MARKS * n + 1) * sizeof *q.mark);
    q.gap = kb_arena_doubles(arena, n);
    q.log_cdf = kb_arena_doubles(arena, n);
    q.half_z2 = kb_arena_doubles(arena, n);
    q.gauss = kb_arena_doubles(arena, n);
    q.kronrod = kb_arena_doubles(arena, n);
    for (size_t i = 0; i < n; i++)
        probability[i] = 0;
    if (point_mass != SIZE_MAX) {
        probability[point_mass] = probability_all_below(n, mean, sd, point_mass);
        share_among_tied(n, mean, sd, point_mass, probability);
    }
    struct mark start = find_start(&q, n, point_mass);
    if (start.arm != SIZE_MAX) {
        collect(&q, n, start);
        sort_marks(&q);
        thin_marks(&q);
        for (size_t i = 0; i + 1 < q.n_marks; i++)
            integrate_adaptively(&q, span_between(&q, q.mark[i], q.mark[i + 1]));
    }
    kb_arena_reset(arena, at);
}
