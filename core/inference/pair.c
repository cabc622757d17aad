/* The difference of two arms, told so that it holds however often one looks (sequences.h).
 *
 *   l_j   0.95 * 1.5^-j, j = 0 .. 23            l_0   sqrt(2 log(2 / 0.05) / 200): sharpest near 200 c^2 of sum g^2
 *   w_j   in proportion to l_j l_0 / (l_j^2 + l_0^2), sum 1
 *   k_j   -(log(1 - l_j) + l_j + l_j^2 / 2 + l_j^3 / 3)
 *
 * Why it holds. For y = l x with 0 < l < 1 and x >= -1,
 *
 *   log(1 + y) = y - y^2/2 + y^3/3 - y^4 int_0^1 s^3 / (1 + s y) ds
 *
 * and the integral is largest at x = -1, where l^4 times it is k. So
 *
 *   exp(l x - l^2 x^2/2 + l^3 x^3/3 - k x^4) <= 1 + l x
 *
 * whose mean for x = g / c is 1 + l v delta / c <= exp(l v delta / c). Each term of the mixture is therefore a
 * nonnegative supermartingale that starts at w_j, and so is the sum: Ville's inequality. This is the empirical
 * Bernstein bound of [HRMS], [WSR] with the third and the fourth power kept; it is never looser for |x| <= 1.
 *
 * w_j are the same for every alpha: they say where the bound is sharpest, not whether it holds.
 *
 * Cost: a few ns to add, about 1 us for both ends of an interval. No allocation. */
#include "inference/sequences.h"

#include <math.h>

#define N_BETS 24

/* clang-format off */
/* l_j, log w_j, k_j. The test computes them anew in long double. */
static const struct { double size, log_weight, fourth; } bets[N_BETS] = {
    {0.94999999999999996, -2.8834973091693832, 1.3086906068873243},
    {0.6333333333333333, -2.5259516670411313, 0.084734207629216934},
    {0.42222222222222222, -2.2205818742440817, 0.012117849325426646},
    {0.2814814814814815, -2.0092926577610561, 0.0020323091392668506},
    {0.18765432098765433, -1.9382230988910403, 0.00036522782209049906},
    {0.12510288065843622, -2.0271591535118887, 6.8080899373777016e-05},
    {0.083401920438957472, -2.2517117844666883, 1.2963554555432402e-05},
    {0.055601280292638319, -2.5649103762604386, 2.500798465726795e-06},
    {0.037067520195092213, -2.9264667585068849, 4.8641204268850519e-07},
    {0.024711680130061475, -3.3117804145022331, 9.5110431547100497e-08},
    {0.016474453420040985, -3.7081572991424605, 1.8661611798802789e-08},
    {0.010982968946693988, -4.1095565319869021, 3.6698911867900729e-09},
    {0.007321979297795992, -4.5132092644459041, 7.2277982001788187e-10},
    {0.004881319531863995, -4.9178678167110927, 1.4249134994795303e-10},
    {0.0032542130212426632, -5.32297424663677, 2.8109696050365547e-11},
    {0.0021694753474951088, -5.7282799009149823, 5.5477048673339383e-12},
    {0.0014463168983300727, -6.13367413249218, 1.0952081512352402e-12},
    {0.00096421126555338167, -6.5391077383073668, 2.1625390347105739e-13},
    {0.00064280751036892118, -6.9445588450778777, 4.2705830721181867e-14},
    {0.00042853834024594742, -7.3500177303063809, 8.4342730893119957e-15},
    {0.00028569222683063163, -7.7554800726778215, 1.6658388155072623e-15},
    {0.00019046148455375441, -8.1609439515672086, 3.2902950773298221e-16},
    {0.00012697432303583627, -8.566408513355432, 6.4990181637294615e-17},
    {8.4649548690557516e-05, -8.971873378654637, 1.2837132032971786e-17},
};
/* clang-format on */

static bool is_share(double x)
{
    return x >= 0 && x <= 1;
}

/* What max(pi, 1 - pi) may be above the reach by rounding alone: both are ratios of the same kind. */
#define ROUNDING 1e-12

/* g = z (r - q), of a decision of this weight; z: less its mean. */
static void add_score(struct kb_pair *p, double z, double weight, double reward)
{
    const double guess = (p->reward + 0.5) / ((double)p->n + 1);
    const double g = z * (reward - guess), g2 = g * g;

    p->weight += weight;
    p->score += g;
    p->square += g2;
    p->cube += g * g2;
    p->fourth += g2 * g2;
    p->reward += reward;
    p->n++;
}

bool kb_pair_add(struct kb_pair *p, double p_base, double p_arm, bool is_arm, double reward, double reach)
{
    if (p->is_broken || !is_share(p_base) || !is_share(p_arm) || !is_share(reward)) {
        p->is_broken = true;
        return false;
    }
    if (p_base == 0 || p_arm == 0)
        return true;
    const double share = p_arm / (p_base + p_arm), rest = p_base / (p_base + p_arm);
    if (!(fmax(share, rest) <= reach * (1 + ROUNDING))) {
        p->is_broken = true;
        return false;
    }
    add_score(p, is_arm ? rest : -share, share * rest, reward);
    return true;
}

bool kb_pair_add_group(struct kb_pair *p, double share, double chance, double reward)
{
    if (p->is_broken || !is_share(share) || !(chance >= 0 && chance <= 1 + ROUNDING) || !is_share(reward)) {
        p->is_broken = true;
        return false;
    }
    if (share > 0)
        add_score(p, fmin(chance, 1) - share, share, reward);
    return true;
}

/* What is so far below the largest term is no part of a double's sum. Left out, it makes E no larger. */
#define NEGLIGIBLE 45

/* log of the mixture at x, sums being over powers of c, with the largest term taken out; *slope is its derivative. */
static double log_mixture(double x, double square, double cube, double fourth, double *slope)
{
    double term[N_BETS], most = -INFINITY, sum = 0, sum_slope = 0;
    for (int j = 0; j < N_BETS; j++) {
        const double l = bets[j].size;
        term[j] = bets[j].log_weight + l * x - l * l * square / 2 + l * l * l * cube / 3 - bets[j].fourth * fourth;
        most = term[j] > most ? term[j] : most;
    }
    for (int j = 0; j < N_BETS; j++) {
        if (term[j] < most - NEGLIGIBLE)
            continue;
        const double part = exp(term[j] - most);
        sum += part;
        sum_slope += part * bets[j].size;
    }
    *slope = sum_slope / sum;
    return most + log(sum);
}

/* Newton from the right. The logarithm of the mixture is convex and rises in x, so each step stays right of the root.
 * The start is where one term alone reaches log_inverse. A step that rounding turns round ends the search. */
double kb_pair_bound(double square, double cube, double fourth, double log_inverse)
{
    double x = INFINITY;
    for (int j = 0; j < N_BETS; j++) {
        const double l = bets[j].size, fixed = l * l * square / 2 - l * l * l * cube / 3 + bets[j].fourth * fourth;
        x = fmin(x, (log_inverse - bets[j].log_weight + fixed) / l);
    }
    for (int i = 0; i < 100; i++) {
        double slope;
        const double step = (log_mixture(x, square, cube, fourth, &slope) - log_inverse) / slope;
        if (!(step > 0) || x - step == x)
            break;
        x -= step;
    }
    return x;
}

void kb_pair_interval(const struct kb_pair *p, double reach, double log_inverse, double *low, double *high)
{
    *low = -1;
    *high = 1;
    if (p->is_broken || !(p->weight > 0))
        return;
    const double c2 = reach * reach, square = p->square / c2, cube = p->cube / (c2 * reach),
                 fourth = p->fourth / (c2 * c2);
    const double below = reach * kb_pair_bound(square, cube, fourth, log_inverse);
    const double above = reach * kb_pair_bound(square, -cube, fourth, log_inverse);
    *low = fmin(1, fmax(-1, (p->score - below) / p->weight));
    *high = fmax(-1, fmin(1, (p->score + above) / p->weight));
}

double kb_pair_log_e(const struct kb_pair *p, double reach, double delta, bool is_above)
{
    const double c2 = reach * reach, sign = is_above ? 1 : -1;
    double slope;
    if (p->is_broken)
        return 0;
    return log_mixture(sign * (p->score - delta * p->weight) / reach, p->square / c2, sign * p->cube / (c2 * reach),
                       p->fourth / (c2 * c2), &slope);
}

double kb_pair_estimate(const struct kb_pair *p)
{
    return p->is_broken || !(p->weight > 0) ? (double)NAN : p->score / p->weight;
}
