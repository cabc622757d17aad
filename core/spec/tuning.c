/* See tuning.h. */
#include "spec/tuning.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/magnitude.h"

#define FIRST_REFIT 8.0
#define GROWTH 1.5
#define OFTEN 256.0

double kb_tuning_next(double n)
{
    double next = FIRST_REFIT;

    while (next <= n)
        next = floor(GROWTH * next + 0.5);
    return next;
}

bool kb_tuning_looks_for_rho(double before, double n)
{
    double power = OFTEN;

    while (power <= before)
        power *= 4;
    return n < OFTEN || n >= power;
}

void kb_tuning_put(const struct kb_tuning *t, struct kb_spec *spec)
{
    spec->prior = t->prior;
    spec->repr.lambda = t->noise;
    spec->context_kernel.lengthscale = t->lengthscale;
    spec->user_kernel.rho = t->rho;
}

void kb_tuning_take(struct kb_tuning *t, const struct kb_spec *spec)
{
    t->prior = spec->prior;
    t->noise = spec->repr.lambda;
    t->lengthscale = spec->context_kernel.lengthscale;
    t->rho = spec->user_kernel.rho;
}

/* --- its numbers, in their order in digests and snapshots -------------------------------------------------- */

#define AT(member) offsetof(struct kb_tuning, member)
static const struct {
    const char *pointer;
    size_t offset;
    double lo, hi;
} numbers[] = {
    {"/rewards", AT(rewards), 0, KB_MOST_NUMBER},
    {"/prior/mean", AT(prior.mean), -KB_MOST_MAGNITUDE, KB_MOST_MAGNITUDE},
    {"/prior/arm", AT(prior.arm), 0, KB_MOST_SCALE},
    {"/prior/feature", AT(prior.feature), 0, KB_MOST_SCALE},
    {"/prior/user", AT(prior.user), 0, KB_MOST_SCALE},
    {"/prior/context", AT(prior.context), 0, KB_MOST_SCALE},
    {"/prior/linear", AT(prior.linear), 0, KB_MOST_SCALE},
    {"/lambda", AT(noise), KB_LEAST_SCALE, KB_MOST_SCALE},
    {"/context_lengthscale", AT(lengthscale), KB_LEAST_SCALE, KB_MOST_SCALE},
    {"/rho", AT(rho), KB_LEAST_SCALE, KB_MOST_SCALE},
    {"/range", AT(range), 0, 2 * KB_MOST_MAGNITUDE},
    {"/before", AT(before), -HUGE_VAL, HUGE_VAL},
    {"/after", AT(after), -HUGE_VAL, HUGE_VAL},
};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)

static double number_of(const struct kb_tuning *t, size_t i)
{
    double x;

    memcpy(&x, (const char *)t + numbers[i].offset, sizeof x);
    return x;
}

enum kb_err kb_tuning_check(const struct kb_tuning *t, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        const double x = number_of(t, i);

        if (!(isfinite(x) && x >= numbers[i].lo && x <= numbers[i].hi))
            return kb_fail(KB_EINVAL, msg, numbers[i].pointer, "expected a number from %g to %g", numbers[i].lo,
                           numbers[i].hi);
    }
    return KB_OK;
}

enum kb_err kb_scales_check(const struct kb_spec *spec, const double *scale, size_t n, struct kb_errmsg *msg)
{
    const bool has_spaces = spec->spaces.n > 0;

    if (n != 0 && (n != (has_spaces ? spec->spaces.n : spec->context_dim) || n > KB_MOST_SCALED ||
                   (has_spaces && spec->context_dim > KB_MOST_SPACED_DIM)))
        return kb_fail(KB_EINVAL, msg, "/scale", "expected none, or one for each %s of contexts",
                       has_spaces ? "namespace" : "coordinate");
    for (size_t i = 0; i < n; i++)
        if (!(scale[i] >= KB_LEAST_SCALE && scale[i] <= KB_MOST_MAGNITUDE))
            return kb_fail_item(KB_EINVAL, msg, "/scale", i, "", "expected a number from %g to %g", KB_LEAST_SCALE,
                                KB_MOST_MAGNITUDE);
    return KB_OK;
}

uint64_t kb_tuning_digest(const struct kb_tuning *t, uint64_t h)
{
    h = kb_hash_u64(h, t->event);
    for (size_t i = 0; i < N_NUMBERS; i++)
        h = kb_hash_double(h, number_of(t, i));
    return h;
}

void kb_tuning_save(const struct kb_tuning *t, struct kb_writer *w)
{
    kb_put_u64(w, t->event);
    for (size_t i = 0; i < N_NUMBERS; i++)
        kb_put_double(w, number_of(t, i));
}

void kb_tuning_load(struct kb_tuning *t, struct kb_reader *r)
{
    t->event = kb_get_u64(r);
    for (size_t i = 0; i < N_NUMBERS; i++) {
        const double x = kb_get_double(r);

        memcpy((char *)t + numbers[i].offset, &x, sizeof x);
    }
}

/* --- sums over rewards ------------------------------------------------------------------------------------- */

void kb_reward_sums_init(struct kb_reward_sums *s)
{
    *s = (struct kb_reward_sums){.lowest = HUGE_VAL, .highest = -HUGE_VAL};
}

void kb_reward_sums_see(struct kb_reward_sums *s, double reward)
{
    s->lowest = reward < s->lowest ? reward : s->lowest;
    s->highest = reward > s->highest ? reward : s->highest;
}

void kb_reward_sums_add(struct kb_reward_sums *s, double importance, double d_count, double d_sum, double d_square,
                        double halvings, double now)
{
    const double left = now > s->halvings ? exp2(s->halvings - now) : 1;
    const double share = now > halvings ? exp2(halvings - now) : 1;

    s->weight = left * s->weight + share * importance * d_count;
    s->weighted = left * s->weighted + share * importance * d_sum;
    s->square = left * s->square + share * d_square;
    s->halvings = now > s->halvings ? now : s->halvings;
}

/* Whether it has seen any. */
static bool is_empty(const struct kb_reward_sums *s)
{
    return s->lowest > s->highest;
}

bool kb_reward_sums_are_valid(const struct kb_reward_sums *s)
{
    const bool is_bounded = is_empty(s) ? s->lowest == HUGE_VAL && s->highest == -HUGE_VAL
                                        : kb_is_measurable(s->lowest) && kb_is_measurable(s->highest);

    return is_bounded && isfinite(s->weight) && s->weight >= 0 && isfinite(s->weighted) && isfinite(s->square) &&
           isfinite(s->halvings) && s->halvings >= 0;
}

uint64_t kb_reward_sums_digest(const struct kb_reward_sums *s, uint64_t h)
{
    h = kb_hash_double(kb_hash_double(h, s->lowest), s->highest);
    h = kb_hash_double(kb_hash_double(h, s->weight), s->weighted);
    return kb_hash_double(kb_hash_double(h, s->square), s->halvings);
}

void kb_reward_sums_save(const struct kb_reward_sums *s, struct kb_writer *w)
{
    kb_put_double(w, s->lowest);
    kb_put_double(w, s->highest);
    kb_put_double(w, s->weight);
    kb_put_double(w, s->weighted);
    kb_put_double(w, s->square);
    kb_put_double(w, s->halvings);
}

enum kb_err kb_reward_sums_load(struct kb_reward_sums *s, struct kb_reader *r)
{
    s->lowest = kb_get_double(r);
    s->highest = kb_get_double(r);
    s->weight = kb_get_double(r);
    s->weighted = kb_get_double(r);
    s->square = kb_get_double(r);
    s->halvings = kb_get_double(r);
    return r->rc == KB_OK && !kb_reward_sums_are_valid(s) ? KB_ECORRUPT : r->rc;
}

double kb_importance(size_t n, double propensity)
{
    if (n == 0 || !(propensity > 0))
        return 0;
    return fmin(1 / ((double)n * propensity), KB_MOST_IMPORTANCE);
}
