/* What an arm earned where it was shown, and whether arms were shown as their propensities say (sequences.h).
 *
 * The beta-binomial sequence holds for any r in [0, 1]: (a/m)^r ((1-a)/(1-m))^(1-r) <= r a/m + (1-r) (1-a)/(1-m), whose
 * mean is 1, and M is the mean of such products over a ~ Beta(1/2, 1/2).
 *
 * log M(m) = n KL(s/n, m) + a term without m, so the interval's ends are where n KL is log(1 / alpha) less that term;
 * each is found by bisection on its side of s/n. The term is a difference of logarithms of the gamma function: some
 * 1e-16 times their size is lost, 1e-6 of the log at 1e9 decisions.
 *
 * Traffic: x - p <= 1 and p - x <= 1, so E exp(+-theta (x - p)) <= exp((e^theta - 1 - theta) p (1 - p))  [Bennett]. */
#include "inference/sequences.h"

#include <assert.h>
#include <math.h>

bool kb_shown_add(struct kb_shown *s, double reward)
{
    if (!(reward >= 0 && reward <= 1))
        return false;
    s->n++;
    s->reward += reward;
    return true;
}

/* lgamma without the global sign of the C library's. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static double log_beta(double a, double b)
{
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b);
}

/* s log(1 / m) + (n - s) log(1 / (1 - m)), 0 log 0 being 0. */
static double surprise(double s, double n, double m)
{
    return (s > 0 ? -s * log(m) : 0) + (n > s ? -(n - s) * log1p(-m) : 0);
}

/* The point between `inside`, where the surprise is below `limit`, and `outside`; from outside of the interval, so that
 * no rounding makes it narrower. */
static double bisect(double s, double n, double inside, double outside, double limit)
{
    for (int i = 0; i < 60; i++) {
        const double middle = inside + (outside - inside) / 2;
        if (surprise(s, n, middle) < limit)
            inside = middle;
        else
            outside = middle;
    }
    return outside;
}

void kb_shown_interval(const struct kb_shown *s, double alpha, double *low, double *high)
{
    const double n = (double)s->n, sum = fmin(s->reward, n);
    *low = 0;
    *high = 1;
    if (s->n == 0)
        return;
    const double limit = log(1 / alpha) - log_beta(0.5 + sum, 0.5 + n - sum) + log(M_PI); /* lbeta(1/2, 1/2) = log pi */
    if (sum > 0)
        *low = bisect(sum, n, sum / n, 0, limit);
    if (sum < n)
        *high = bisect(sum, n, sum / n, 1, limit);
}

void kb_shown_posterior(const struct kb_shown *s, double *mean, double *sd)
{
    const double n = (double)s->n;
    *mean = fmin(1, (s->reward + 0.5) / (n + 1));
    *sd = sqrt(*mean * (1 - *mean) / (n + 2));
}

void kb_traffic_add(struct kb_traffic *t, double propensity, bool is_shown)
{
    t->deviation += (is_shown ? 1 : 0) - propensity;
    t->variance += propensity * (1 - propensity);
}

#define N_THETAS 12

/* clang-format off */
/* theta = 0.01 * 2^(0.75 k), and e^theta - 1 - theta. The test computes them anew in long double. */
static const struct { double size, price; } thetas[N_THETAS] = {
    {0.01, 5.0167084168057543e-05},
    {0.016817928305074292, 0.00014221750555743281},
    {0.028284271247461901, 0.00040379805439643622},
    {0.04756828460010884, 0.0011495253525379693},
    {0.080000000000000002, 0.0032870676749585546},
    {0.13454342644059433, 0.0094709119537989637},
    {0.22627416997969521, 0.027645235232619626},
    {0.38054627680087072, 0.08253734300684018},
    {0.64000000000000001, 0.25648087930495134},
    {1.0763474115247547, 0.8575960561327175},
    {1.8101933598375617, 3.3014357017521223},
    {3.0443702144069658, 16.952433339240439},
};
/* clang-format on */

static double traffic_term(const struct kb_traffic *t, int k, int sign)
{
    return sign * thetas[k].size * t->deviation - thetas[k].price * t->variance;
}

double kb_traffic_log_e(const struct kb_traffic *t, size_t n_arms)
{
    double most = -INFINITY, sum = 0;
    assert(n_arms >= 1);
    for (size_t a = 0; a < n_arms; a++)
        for (int k = 0; k < N_THETAS; k++)
            most = fmax(most, fmax(traffic_term(&t[a], k, 1), traffic_term(&t[a], k, -1)));
    for (size_t a = 0; a < n_arms; a++)
        for (int k = 0; k < N_THETAS; k++)
            sum += exp(traffic_term(&t[a], k, 1) - most) + exp(traffic_term(&t[a], k, -1) - most);
    return most + log(sum / (2.0 * N_THETAS * (double)n_arms));
}
