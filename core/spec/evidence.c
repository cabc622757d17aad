/* Running sums of the prequential radius: see evidence.h for what they are and prove.
 *
 * Numerical notes. All terms are >= 0, so the sums lose nothing but rounding in their last bits. The mixture is a
 * log-sum-exp around its least term: -2 sigma^2 ln of numbers like exp(-10^6) would be infinite otherwise.
 *
 * Cost: O(1) a reward. */
#include "spec/evidence.h"

#include <math.h>

#include "base/hash.h"
#include "base/magnitude.h"

const double kb_mixture_ridge[KB_N_MIXTURE] = {1, 0.1, 10, 100};

void kb_evidence_add(struct kb_evidence *e, double y, const struct kb_foretold *by, size_t n)
{
    for (size_t i = 0; i < KB_N_MIXTURE; i++) {
        const struct kb_foretold *f = &by[i < n ? i : 0];
        double miss = y - f->mean;
        e->energy[i] += miss * miss / (1 + f->s2);
        e->log_det[i] += log1p(f->s2);
    }
}

void kb_evidence_share(struct kb_evidence *e, double energy, double log_det)
{
    for (size_t i = 0; i < KB_N_MIXTURE; i++) {
        e->energy[i] = energy;
        e->log_det[i] = log_det;
    }
}

double kb_evidence_radius_sq(const double *energy, const double *log_det, size_t n, double noise, double delta)
{
    double variance = noise * noise, least = INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        least = fmin(least, energy[i] + variance * log_det[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((least - energy[i] - variance * log_det[i]) / (2 * variance));
    return least - 2 * variance * (log(sum / (double)n) + log(delta));
}

bool kb_evidence_is_measurable(const struct kb_evidence *e)
{
    for (size_t i = 0; i < KB_N_MIXTURE; i++)
        if (!kb_is_square_measurable(e->energy[i]) || !kb_is_square_measurable(e->log_det[i]))
            return false;
    return kb_is_square_measurable(e->square) && kb_is_square_measurable(e->ignored);
}

/* --- digest and snapshot ---------------------------------------------------------------------------------- */

uint64_t kb_evidence_digest(const struct kb_evidence *e, uint64_t h)
{
    h = kb_hash_double(h, e->square);
    h = kb_hash_bytes(h, e->energy, sizeof e->energy);
    h = kb_hash_bytes(h, e->log_det, sizeof e->log_det);
    return kb_hash_u64(h, e->is_void);
}

void kb_evidence_save(const struct kb_evidence *e, struct kb_writer *w)
{
    kb_put_double(w, e->square);
    kb_put_double(w, e->ignored);
    kb_put_doubles(w, e->energy, KB_N_MIXTURE);
    kb_put_doubles(w, e->log_det, KB_N_MIXTURE);
    kb_put_u64(w, e->is_void);
}

enum kb_err kb_evidence_load(struct kb_evidence *e, struct kb_reader *r)
{
    e->square = kb_get_double(r);
    e->ignored = kb_get_double(r);
    kb_get_doubles(r, e->energy, KB_N_MIXTURE);
    kb_get_doubles(r, e->log_det, KB_N_MIXTURE);
    e->is_void = kb_get_u64(r) != 0;
    return r->rc != KB_OK ? r->rc : kb_evidence_is_measurable(e) ? KB_OK : KB_ECORRUPT;
}
