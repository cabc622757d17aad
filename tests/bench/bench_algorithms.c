/* Bench of every preset at 64, 256 and 1,024 points: what a decision, a learned reward, the question of admission, a
 * spectrum and a redraw cost, the flops that they need, and what fraction of the machine's rate that is.
 *
 *   bench_algorithms FILE      JSON lines go to FILE, a table to standard output
 *
 * The flops are counted by the table in bench_flops.c.
 *
 * Thread CPU time. The rates of dgemm and dtrsm are measured around every batch of the operation, so that a busy
 * machine slows both; what is printed are medians over the repetitions, of the ratios too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench_flops.h"
#include "bench_machine.h"
#include "bench_subject.h"
#include "linalg/linalg.h"
#include "base/rng.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"

#define REPS 7
#define SLOW_REPS 3 /* of what takes milliseconds */
#define NEW_PER_REP 5
#define BATCH_US 1500.0
#define MAX_BATCH 100
#define NAME "bench_algorithms"

static const struct bench_row variants[] = {
    {"laplaced, threshold", "laplaced-kors", KB_REPR_THRESHOLD, -1, -1},
    {"cmm, exact, to read", "cmm-ucb", -1, -1, KB_SCORE_FIXED},
    {"dmm, exact, to read", "dmm-ucb", -1, -1, KB_SCORE_FIXED},
    {"cmm, dictionary", "cmm-ucb", KB_REPR_KORS, -1, -1},
    {"cmm, dict., to read", "cmm-ucb", KB_REPR_KORS, -1, KB_SCORE_FIXED},
    {"dmm, dictionary", "dmm-ucb", KB_REPR_KORS, -1, -1},
    {"dmm, dict., to read", "dmm-ucb", KB_REPR_KORS, -1, KB_SCORE_FIXED},
    {"amm, dictionary", "amm-ucb", KB_REPR_KORS, -1, -1},
};

/* --- operations ---------------------------------------------------------------------------------------------- */

static void fit(struct bench_subject *s)
{
    if (kb_engine_fit_scratch(s->engine, s->scratch, N_CANDIDATES, 0) != KB_OK)
        bench_die(NAME, "scratch");
}

static void decide(struct bench_subject *s)
{
    struct kb_decision d;
    const struct kb_query q = {.user = "u3",
                               .context = s->x,
                               .candidates = s->candidate,
                               .n_candidates = N_CANDIDATES,
                               .n_shown = s->spec.conf.score == KB_SCORE_FIXED ? 1 : 0,
                               .key = s->n_drawn++};

    if (kb_engine_decide(s->engine, &q, s->scratch, &d, NULL) != KB_OK || !(d.sd[d.chosen] >= 0))
        bench_die(NAME, "decide");
}

/* Points in an order that leaves no column of the factor out, whatever m is. */
static void learn(struct bench_subject *s)
{
    bench_teach(s, (size_t)(kb_rng_uniform(3, KB_STREAM_SIMULATION, s->n_drawn++) * (double)s->m));
}

static void learn_new(struct bench_subject *s)
{
    bench_teach(s, s->n_points);
}

/* Reserved, asked and forgotten: whether the point is drawn makes no difference to what follows. */
static void ask(struct bench_subject *s)
{
    struct bench_names names;
    struct kb_event next, ev = bench_observation(s, s->m + s->n_drawn++ % N_NEW, &names);

    ev.seq = s->seq + 1;
    if (kb_engine_reserve(s->engine, &ev, NULL) != KB_OK || kb_engine_follow_up(s->engine, &ev, &next) != KB_OK)
        bench_die(NAME, "ask");
    kb_engine_rollback(s->engine);
}

/* Enough rewards for the next settle to be due: one, or a sixteenth where the bounds are only read. */
static void earn_settle(struct bench_subject *s)
{
    struct kb_engine_counts counts;

    kb_engine_publish(s->engine);
    kb_engine_counts(s->engine, &counts);
    const size_t n = s->spec.conf.score == KB_SCORE_FIXED ? counts.learned / 15 + 1 : 1;
    for (size_t i = 0; i < n; i++)
        learn(s);
}

static void settle(struct bench_subject *s)
{
    if (kb_engine_settle(s->engine) != KB_OK || !kb_engine_has_settled(s->engine))
        bench_die(NAME, "settle");
}

static void earn_redraw(struct bench_subject *s)
{
    learn(s);
}

static void redraw(struct bench_subject *s)
{
    struct kb_event next;

    if (kb_engine_due(s->engine, s->seq + 1, true, &next) != KB_OK || next.type != KB_EV_DICTIONARY)
        bench_die(NAME, "redraw");
    bench_fold(s, &next);
}

static bool reads_spectrum(const struct bench_subject *s)
{
    return kb_spec_reads_spectrum(&s->spec);
}

static bool is_resampled(const struct bench_subject *s)
{
    return kb_repr_is_resampled(s->spec.repr.type);
}

static bool is_exact(const struct bench_subject *s)
{
    return !bench_has_dictionary(s);
}

static bool is_grown(const struct bench_subject *s)
{
    return bench_has_dictionary(s) && !is_resampled(s);
}

/* In the order in which they are measured: decisions read the spectrum, new points change m. */
static const struct operation {
    const char *name;
    bool (*applies)(const struct bench_subject *); /* NULL: to all */
    void (*prepare)(struct bench_subject *);       /* before each, not timed; NULL: nothing, and batches are timed */
    void (*run)(struct bench_subject *);
    double (*flops)(const struct bench_subject *);
    size_t n_rhs;      /* that its solves have; 0: none */
    int n_reps, batch; /* batch 0: as many as fill BATCH_US */
} operations[] = {
    {"settle", reads_spectrum, earn_settle, settle, bench_settle_flops, 0, SLOW_REPS, 1},
    {"decide", NULL, NULL, decide, bench_decide_flops, N_CANDIDATES, REPS, 0},
    {"learn", NULL, NULL, learn, bench_learn_flops, 1, REPS, 0},
    {"ask", is_grown, NULL, ask, bench_ask_flops, 1, REPS, 0},
    {"learn new", is_exact, NULL, learn_new, bench_learn_new_flops, 1, REPS, NEW_PER_REP},
    {"redraw", is_resampled, earn_redraw, redraw, NULL, 0, SLOW_REPS, 1},
};
#define N_OPERATIONS (sizeof operations / sizeof operations[0])

/* --- measuring ------------------------------------------------------------------------------------------------- */

/* Medians: microseconds, millions of flops, and rates in GFlop/s with fractions of the machine's. */
struct figures {
    double us, mflop, rate, of_gemm, of_alone, of_pair;
};

static double time_batch(struct bench_subject *s, const struct operation *op, int batch)
{
    if (op->prepare != NULL)
        op->prepare(s);
    else
        op->run(s); /* what the floor has pushed out of the caches comes back untimed */
    const double start = bench_cpu_us();
    for (int i = 0; i < batch; i++)
        op->run(s);
    return (bench_cpu_us() - start) / batch;
}

static int batch_of(struct bench_subject *s, const struct operation *op)
{
    if (op->batch > 0)
        return op->batch;
    const double n = BATCH_US / (time_batch(s, op, 2) + 0.01);
    return n < 1 ? 1 : n > MAX_BATCH ? MAX_BATCH : (int)n;
}

static struct figures measure(struct bench_subject *s, const struct operation *op, struct bench_floor *floor)
{
    double us[REPS], rate[REPS], of_gemm[REPS], of_alone[REPS] = {0}, of_pair[REPS] = {0}, mflop = 0;
    const double m = (double)floor->m, gemm = 2.0 * BENCH_GEMM * BENCH_GEMM * BENCH_GEMM;
    const int batch = batch_of(s, op);
    const size_t n = (size_t)op->n_reps;

    for (size_t i = 0; i < n; i++) {
        const double gemm_rate = gemm / bench_gemm_us(), solve = m * m * (double)op->n_rhs;
        mflop = op->flops != NULL ? op->flops(s) * 1e-6 : 0;
        us[i] = time_batch(s, op, batch);
        rate[i] = mflop * 1e6 / us[i];
        of_gemm[i] = rate[i] / gemm_rate;
        if (op->n_rhs > 0) {
            of_alone[i] = rate[i] * bench_trsm_us(floor, op->n_rhs, 1) / solve;
            of_pair[i] = rate[i] * bench_trsm_us(floor, op->n_rhs, 2) / solve;
        }
    }
    return (struct figures){bench_median(n, us),          mflop,
                            bench_median(n, rate) * 1e-3, bench_median(n, of_gemm),
                            bench_median(n, of_alone),    bench_median(n, of_pair)};
}

/* --- output ---------------------------------------------------------------------------------------------------- */

static void print_figures(FILE *out, const struct bench_subject *s, const char *label, const struct operation *op,
                          const struct figures *f)
{
    printf("%-22s %5zu  %-9s %10.1f", label, s->m, op->name, f->us);
    fprintf(out,
            "{\"bench\":\"algorithms\",\"row\":\"%s\",\"algorithm\":\"%s\",\"representation\":\"%s\",\"confidence\":"
            "\"%s\",\"score\":\"%s\",\"m\":%zu,\"operation\":\"%s\",\"us\":%.3f",
            label, s->spec.algorithm, kb_word(&kb_repr_words, s->spec.repr.type),
            kb_word(&kb_conf_words, s->spec.conf.type), kb_word(&kb_score_words, s->spec.conf.score), s->m, op->name,
            f->us);
    if (f->mflop > 0) {
        printf(" %10.3f %8.2f %8.3f", f->mflop, f->rate, f->of_gemm);
        fprintf(out, ",\"mflop\":%.5f,\"gflops\":%.3f,\"of_dgemm\":%.4f", f->mflop, f->rate, f->of_gemm);
    }
    if (f->of_alone > 0) {
        printf(" %8.2f %8.2f", f->of_alone, f->of_pair);
        fprintf(out, ",\"of_dtrsm\":%.4f,\"of_dtrsm_pair\":%.4f", f->of_alone, f->of_pair);
    }
    printf("\n");
    fprintf(out, ",\"load\":%.2f,\"blas_core\":\"%s\"}\n", bench_load(), kb_blas_core_name());
}

/* What all fractions are of, once per m. */
static void print_machine(FILE *out, struct bench_floor *f)
{
    static const size_t n_rhs[] = {1, N_CANDIDATES};
    const double gemm = 2.0 * BENCH_GEMM * BENCH_GEMM * BENCH_GEMM * 1e-3, solve = (double)(f->m * f->m) * 1e-3;
    double us[2][REPS], gemm_us[REPS], ns[REPS];

    for (int i = 0; i < REPS; i++) {
        gemm_us[i] = bench_gemm_us();
        ns[i] = bench_exp_ns();
    }
    const double rate = gemm / bench_median(REPS, gemm_us), exp_ns = bench_median(REPS, ns);
    for (size_t k = 0; k < 2; k++) {
        for (int i = 0; i < REPS; i++) {
            us[0][i] = bench_trsm_us(f, n_rhs[k], 1);
            us[1][i] = bench_trsm_us(f, n_rhs[k], 2);
        }
        const double alone = bench_median(REPS, us[0]), pair = bench_median(REPS, us[1]), n = (double)n_rhs[k];
        printf(
            "machine: m %zu, dgemm %.1f GFlop/s, dtrsm with %zu right-hand side%s %.2f (%.1f us), in pairs %.2f, exp "
            "%.1f ns, kernels %s\n",
            f->m, rate, n_rhs[k], n_rhs[k] > 1 ? "s" : "", n * solve / alone, alone, n * solve / pair, exp_ns,
            kb_blas_core_name());
        fprintf(
            out,
            "{\"bench\":\"machine\",\"m\":%zu,\"right_hand_sides\":%zu,\"dgemm_gflops\":%.2f,\"dtrsm_us\":%.2f,"
            "\"dtrsm_gflops\":%.3f,\"dtrsm_pair_gflops\":%.3f,\"exp_ns\":%.2f,\"load\":%.2f,\"blas_core\":\"%s\"}\n",
            f->m, n_rhs[k], rate, alone, n * solve / alone, n * solve / pair, exp_ns, bench_load(),
            kb_blas_core_name());
    }
}

/* Lifted pivots or empty confidence sets would mean that something else was timed than what the row says. */
static void warn_of_degradation(const struct bench_subject *s, const char *label)
{
    struct kb_posterior_facts facts;

    if (kb_posterior_facts(kb_engine_posterior(s->engine), &facts) != KB_OK)
        bench_die(NAME, "facts");
    if (facts.n_clamped + facts.n_empty > 0)
        fprintf(stderr, "%s: %s, m %zu: %llu values lifted, %llu decisions with an empty confidence set\n", NAME, label,
                s->m, (unsigned long long)facts.n_clamped, (unsigned long long)facts.n_empty);
}

static void bench_one(FILE *out, const struct bench_row *row, struct bench_floor *floor)
{
    struct bench_subject s;

    bench_subject_open(&s, row, floor->m);
    for (size_t i = 0; i < N_OPERATIONS; i++) {
        const struct operation *op = &operations[i];

        if (op->applies != NULL && !op->applies(&s))
            continue;
        fit(&s);
        const struct figures f = measure(&s, op, floor);
        print_figures(out, &s, row->label, op, &f);
        if (op->prepare == earn_settle)
            kb_engine_publish(s.engine);
    }
    warn_of_degradation(&s, row->label);
    bench_subject_close(&s);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 256, 1024};
    FILE *out = argc == 2 ? fopen(argv[1], "w") : NULL;

    if (out == NULL) {
        fprintf(stderr, "usage: %s FILE\n", NAME);
        return 2;
    }
    bench_settle_blas(argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bench_floor floor;

        if (!bench_floor_init(&floor, sizes[i]))
            bench_die(NAME, "memory");
        print_machine(out, &floor);
        printf("%-22s %5s  %-9s %10s %10s %8s %8s %8s %8s\n", "row", "m", "operation", "us", "Mflop", "GFlop/s",
               "of dgemm", "of dtrsm", "in pairs");
        for (size_t k = 0; kb_preset_name(k) != NULL; k++)
            bench_one(out, &(struct bench_row){kb_preset_name(k), kb_preset_name(k), -1, -1, -1}, &floor);
        for (size_t k = 0; k < sizeof variants / sizeof variants[0]; k++)
            bench_one(out, &variants[k], &floor);
        bench_floor_close(&floor);
    }
    return fclose(out) == 0 ? 0 : 1;
}
