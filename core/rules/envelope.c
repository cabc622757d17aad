/* Propensities of rand_ucb: which of the lines mean_i + u slope_i is on top, for one u ~ |N(0,1)| that all arms share.
 *
 *   P_i = P(mean_i + u slope_i is the largest)              slope_i = beta sd_i
 *
 *   u_0 = 0 < u_1 < ..     where the line on top changes: the upper envelope of the lines on u >= 0
 *   P(u_k <= u < u_k+1) = erfc(u_k / sqrt 2) - erfc(u_k+1 / sqrt 2)
 *
 * One multiplier for all arms is the coupled form of RandUCB [RU, sec. 2]: what adds the same deviation to every arm,
 * as a term of the user does, cancels out, and independent draws would explore it. Deviation: [RU] draws u from a grid
 * on [0, U]; here the whole half-normal is integrated, without a grid, in closed form (unit test:
 * propensities_equal_the_integral).
 *
 * The lines are sorted by slope, then mean, and enter a stack: a line takes those off that it passes before they were
 * on top. Lines of one slope meet nowhere (minus infinity, or NaN for equal lines), which takes the lower one off.
 *
 * Ties. Lines tie with one on top when neither mean nor slope differ from its by more than KB_TIE of their sum; they
 * share its interval alike. Equal arms are thus shown alike, whatever rounding made of them.
 *
 * Before that, lines are dropped that are nowhere on top. f is the line on top at u = 0, l the steepest one; between
 * the two the envelope is nowhere below the higher of them, and its part above both stands over the point where they
 * cross. So a line that is below there is below everywhere. Lines that equal l bit by bit are counted in place of being
 * sorted: most of a large catalogue is unseen, and unseen arms share one line, the steepest.
 *
 * A line without a slope is one that is known to be below (kb_posterior_predict_lines), and is dropped likewise.
 *
 * Cost: O(C), and O(c log c) for the c lines that are left. No allocation. */
#include "rules/policy.h"

#include <math.h>
#include <stdbool.h>

#include "base/sort.h"
#include "posterior/top_lines.h"

struct lines {
    const double *mean, *slope;
    size_t last;   /* a steepest one */
    double n_last; /* as many lines are equal to it, itself among them */
};

static double value_at(const struct lines *l, size_t i, double u)
{
    return l->mean[i] + u * l->slope[i];
}

/* By how much mean and slope of a line may differ from those of one that it ties with. */
static double slack_of(const struct lines *l, size_t i)
{
    return KB_TIE * (fabs(l->mean[i]) + l->slope[i]);
}

static bool is_flatter(const void *items, size_t a, size_t b)
{
    const struct lines *l = items;

    return l->slope[a] != l->slope[b] ? l->slope[a] < l->slope[b] : l->mean[a] < l->mean[b];
}

/* Where a line passes a flatter one. */
static double crossing(const struct lines *l, size_t flat, size_t steep)
{
    return (l->mean[flat] - l->mean[steep]) / (l->slope[steep] - l->slope[flat]);
}

static bool is_last(const struct lines *l, size_t i)
{
    return l->mean[i] == l->mean[l->last] && l->slope[i] == l->slope[l->last];
}

/* Fills `kept` with the lines that may be on top somewhere, and those tied with them; of those equal to the last one
 * only that. Returns how many. */
static size_t keep(struct lines *l, size_t n, size_t *kept)
{
    size_t first = 0, n_kept = 0;

    while (l->last + 1 < n && isnan(l->slope[l->last]))
        first = ++l->last;
    for (size_t i = first + 1; i < n; i++) {
        if (isnan(l->slope[i]))
            continue;
        if (l->mean[i] > l->mean[first] || (l->mean[i] == l->mean[first] && l->slope[i] > l->slope[first]))
            first = i;
        if (is_flatter(l, l->last, i))
            l->last = i;
    }
    const double u = l->slope[l->last] > l->slope[first] ? fmin(crossing(l, first, l->last), KB_MOST_U) : 0;
    const double top = fmax(value_at(l, first, u), value_at(l, l->last, u));
    for (size_t i = 0; i < n; i++) {
        if (is_last(l, i))
            l->n_last++;
        else if (value_at(l, i, u) >= top - 2 * (1 + u) * slack_of(l, i))
            kept[n_kept++] = i;
    }
    kept[n_kept++] = l->last;
    return n_kept;
}

/* The envelope: stack[0..] are places in `order`, from[0..] where their lines come on top. Returns how many there are.
 */
static size_t stack_up(const struct lines *l, size_t n, const size_t *order, size_t *stack, double *from)
{
    size_t n_stack = 0;

    for (size_t i = 0; i < n; i++) {
        double u = 0;

        while (n_stack > 0) {
            u = crossing(l, order[stack[n_stack - 1]], order[i]);
            if (u > from[n_stack - 1])
                break;
            n_stack--;
        }
        from[n_stack] = n_stack > 0 ? u : 0;
        stack[n_stack++] = i;
    }
    return n_stack;
}

/* Shares p among the line at place `at` of the order and those tied with it, which stand beside it. */
static void share_out(const struct lines *l, size_t n, const size_t *order, size_t at, double p, double *probability)
{
    const size_t top = order[at];
    const double slack = slack_of(l, top);
    size_t lo = at, hi = at + 1;
    double n_tied = 0;

    while (lo > 0 && l->slope[order[lo - 1]] >= l->slope[top] - slack)
        lo--;
    while (hi < n && l->slope[order[hi]] <= l->slope[top] + slack)
        hi++;
    for (size_t i = lo; i < hi; i++)
        if (fabs(l->mean[order[i]] - l->mean[top]) <= slack)
            n_tied += order[i] == l->last ? l->n_last : 1;
    for (size_t i = lo; i < hi; i++)
        if (fabs(l->mean[order[i]] - l->mean[top]) <= slack)
            probability[order[i]] += p / n_tied;
}

size_t kb_envelope_bytes(size_t n)
{
    return 3 * kb_arena_need(n);
}

void kb_envelope_argmax(size_t n, const double *mean, const double *slope, double *probability, struct kb_arena *arena)
{
    _Static_assert(sizeof(size_t) <= sizeof(double), "kb_envelope_bytes");
    const size_t mark = kb_arena_mark(arena);
    struct lines l = {mean, slope, 0, 0};
    size_t *order = kb_arena_bytes(arena, n * sizeof *order), *stack = kb_arena_bytes(arena, n * sizeof *stack);
    double *from = kb_arena_doubles(arena, n);
    const size_t n_kept = keep(&l, n, order);

    kb_sort(n_kept, order, is_flatter, &l);
    const size_t n_stack = stack_up(&l, n_kept, order, stack, from);
    for (size_t i = 0; i < n; i++)
        probability[i] = 0;
    for (size_t k = 0; k < n_stack; k++) {
        const double end = k + 1 < n_stack ? erfc(from[k + 1] * M_SQRT1_2) : 0;
        const double p = erfc(from[k] * M_SQRT1_2) - end;

        if (p > 0)
            share_out(&l, n_kept, order, stack[k], p, probability);
    }
    for (size_t i = 0; i < n; i++)
        if (is_last(&l, i))
            probability[i] = probability[l.last];
    kb_arena_reset(arena, mark);
}
