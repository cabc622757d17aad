/* Models for benches (bench_subject.h).
 *
 * Points are Gaussian in 12 dimensions under lengthscale 2, far enough from one another for every one to be worth a
 * place in a dictionary. An exact model learns them one by one. A dictionary is filled by one reset that names all of
 * them, which is the same posterior as m admissions and m^2 times cheaper than m passes over the history.
 *
 * Users: 128 on a ring with chords. Rewards: a smooth function of two coordinates, and noise of 0.1. */
#include "bench_subject.h"

#include <string.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "bench_machine.h"
#include "base/rng.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"
#include "posterior/learning.h"

#define N_USERS 128
#define NAME "bench_subject"

void bench_fold(struct bench_subject *s, struct kb_event *ev)
{
    struct kb_errmsg msg = {0};

    ev->seq = ++s->seq;
    if (kb_engine_fold(s->engine, ev, &msg) != KB_OK) {
        fprintf(stderr, "%s: %s %s\n", NAME, msg.pointer, msg.text);
        bench_die(NAME, kb_word(&kb_event_words, ev->type));
    }
    if (kb_engine_is_building(s->engine)) /* nobody here would finish it, and what is measured were another model */
        bench_die(NAME, "an event has only begun its work");
}

/* A smooth function of the point and a little noise. */
static double reward_at(const struct bench_subject *s, size_t i)
{
    const double *x = s->x + i * DIM;
    return 0.5 * tanh(x[0] + x[CONTEXT_DIM]) + 0.1 * kb_rng_normal(5, KB_STREAM_SIMULATION, s->seq);
}

struct kb_event bench_observation(const struct bench_subject *s, size_t i, struct bench_names *names)
{
    snprintf(names->user, sizeof names->user, "u%zu", i % N_USERS);
    snprintf(names->arm, sizeof names->arm, "a%zu", i);
    return (struct kb_event){.type = KB_EV_OBSERVED,
                             .as.observed = {.user = names->user,
                                             .context = s->x + i * DIM,
                                             .arm = {names->arm, s->x + i * DIM + CONTEXT_DIM},
                                             .reward = reward_at(s, i),
                                             .propensity = (double)NAN}};
}

/* Decided and rewarded, for a rule that learns from its decisions alone: all of them stand at level 1. */
static void teach_by_decision(struct bench_subject *s, size_t i)
{
    struct bench_names names;
    const struct kb_event seen = bench_observation(s, i, &names);
    const struct kb_ev_slot slot = seen.as.observed.arm;
    char id[32];

    snprintf(id, sizeof id, "d%llu", (unsigned long long)s->seq);
    struct kb_event decided = {.type = KB_EV_DECIDED,
                               .as.decided = {.decision = id,
                                              .user = names.user,
                                              .context = seen.as.observed.context,
                                              .slots = &slot,
                                              .n_slots = 1,
                                              .propensity = 1,
                                              .expires_at_ms = 1000,
                                              .level = 1}};
    struct kb_event rewarded = {.type = KB_EV_REWARDED,
                                .as.rewarded = {.decision = id, .reward = seen.as.observed.reward}};
    bench_fold(s, &decided);
    bench_fold(s, &rewarded);
}

void bench_teach(struct bench_subject *s, size_t i)
{
    if (kb_rule_reads_levels(s->spec.rule.type)) {
        teach_by_decision(s, i);
    } else {
        struct bench_names names;
        struct kb_event ev = bench_observation(s, i, &names);
        bench_fold(s, &ev);
    }
    if (i == s->n_points)
        s->taught[s->n_points++] = s->seq;
}

/* A ring with chords over all users, so that no two rows of the user kernel are alike. */
static void tell_graph(struct bench_subject *s)
{
    static char name[N_USERS][8];
    const char *users[N_USERS];
    struct kb_ev_edge edge[2 * N_USERS];

    for (size_t u = 0; u < N_USERS; u++) {
        snprintf(name[u], sizeof name[u], "u%zu", u);
        users[u] = name[u];
    }
    for (size_t u = 0; u < N_USERS; u++) {
        edge[2 * u] = (struct kb_ev_edge){users[u], users[(u + 1) % N_USERS], 1};
        edge[2 * u + 1] = (struct kb_ev_edge){users[u], users[(u + 7) % N_USERS], 0.5};
    }
    struct kb_event ev = {
        .type = KB_EV_GRAPH,
        .as.graph = {.is_replace = true, .users = users, .n_users = N_USERS, .add = edge, .n_add = 2 * N_USERS}};
    bench_fold(s, &ev);
}

/* All points into the dictionary, by a reset that names them: as if every one had been admitted. */
static void fill_dictionary(struct bench_subject *s)
{
    struct kb_ev_atom *atom = kb_array(s->m, 1, sizeof *atom);
    struct kb_evidence proved;
    struct kb_scratch scratch;

    if (atom == NULL)
        bench_die(NAME, "memory");
    for (size_t i = 0; i < s->m; i++)
        atom[i] = (struct kb_ev_atom){s->taught[i], 1};
    kb_scratch_init(&scratch);
    if (kb_posterior_evidence(kb_engine_posterior(s->engine), &scratch, &proved) != KB_OK)
        bench_die(NAME, "memory");
    kb_scratch_close(&scratch);
    struct kb_event ev = {.type = KB_EV_DICTIONARY,
                          .as.dictionary = {.is_reset = true,
                                            .repr = s->spec.repr.type,
                                            .context_lengthscale = s->spec.context_kernel.lengthscale,
                                            .arm_lengthscale = s->spec.arm_kernel.lengthscale,
                                            .has_evidence = !proved.is_void,
                                            .square = proved.square,
                                            .atoms = atom,
                                            .n_atoms = s->m}};
    memcpy(ev.as.dictionary.energy, proved.energy, sizeof proved.energy);
    memcpy(ev.as.dictionary.log_det, proved.log_det, sizeof proved.log_det);
    bench_fold(s, &ev);
    kb_free(atom);
}

static void fill_spec(struct kb_spec *spec, const struct bench_row *row, size_t m)
{
    if (kb_spec_preset(spec, row->preset, CONTEXT_DIM, ARM_DIM) != KB_OK)
        bench_die(NAME, row->preset);
    kb_spec_tune(spec, false);
    spec->is_tuned = false; /* scales that move would move the dictionary */
    spec->context_kernel.is_median = spec->arm_kernel.is_median = false;
    spec->context_kernel.lengthscale = spec->arm_kernel.lengthscale = 2;
    spec->repr.max_dictionary = 2 * m; /* not full, so that admission is asked for */
    spec->repr.exact_limit = 16384;
    spec->repr.q = 1e6;         /* a redraw draws every point */
    spec->repr.batch_ratio = 1; /* bbkb: one reward makes a redraw due */
    if (row->repr >= 0)
        spec->repr.type = (enum kb_repr_type)row->repr;
    if (row->conf >= 0)
        spec->conf.type = (enum kb_conf_type)row->conf;
    if (row->score >= 0)
        spec->conf.score = (enum kb_score)row->score;
}

bool bench_has_dictionary(const struct bench_subject *s)
{
    return s->spec.repr.type != KB_REPR_EXACT && s->spec.repr.type != KB_REPR_BY_ARM;
}

static void ask_for(struct bench_subject *s)
{
    for (size_t c = 0; c < N_CANDIDATES; c++) {
        snprintf(s->arm[c], sizeof s->arm[c], "a%zu", c * s->m / N_CANDIDATES);
        for (size_t k = 0; k < ARM_DIM; k++)
            s->features[c][k] = kb_rng_normal(9, KB_STREAM_SIMULATION, c * ARM_DIM + k);
        s->candidate[c] = (struct kb_candidate){s->arm[c], s->features[c]};
    }
}

void bench_subject_open(struct bench_subject *s, const struct bench_row *row, size_t m)
{
    *s = (struct bench_subject){.m = m};
    fill_spec(&s->spec, row, m);
    s->x = kb_array(m + N_NEW, DIM, sizeof *s->x);
    s->taught = kb_array(m + N_NEW, 1, sizeof *s->taught);
    if (s->x == NULL || s->taught == NULL || kb_engine_new(&s->engine, (struct kb_hash_key){{1, 2}}) != KB_OK ||
        kb_engine_scratch_new(&s->scratch) != KB_OK)
        bench_die(NAME, "memory");
    for (size_t i = 0; i < (m + N_NEW) * DIM; i++)
        s->x[i] = kb_rng_normal(7, KB_STREAM_SIMULATION, i);
    struct kb_event ev = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = &s->spec, .version = 1}};
    bench_fold(s, &ev);
    if (kb_user_kernel_reads_graph(s->spec.user_kernel.type))
        tell_graph(s);
    for (size_t i = 0; i < m; i++)
        bench_teach(s, i);
    if (bench_has_dictionary(s))
        fill_dictionary(s);
    if (kb_posterior_n_support(kb_engine_posterior(s->engine)) != m)
        bench_die(NAME, "filling the model");
    ask_for(s);
}

void bench_subject_close(struct bench_subject *s)
{
    kb_engine_scratch_free(s->scratch);
    kb_engine_free(s->engine);
    kb_free(s->x);
    kb_free(s->taught);
}
