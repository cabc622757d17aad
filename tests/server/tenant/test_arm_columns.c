/* What decisions keep of the catalogue's arms (core/kernel/arm_columns.h), in a tenant that serves: many readers fill
 * it beside the writer, and none of them sees another value than a computation anew gives; and the tenant's quota is
 * the model's. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "tenant_fixture.h"
#include "model/engine_write.h"

#define DIM 3u
#define N_ARMS 20u
#define N_READERS 3u
#define N_ROUNDS 150u
#define LEAST_DECISIONS 300u
#define KEYED "{\"algorithm\":\"ek-ucb\",\"arm_dim\":3,\"representation\":{\"max_dictionary\":200}}"

static double coordinate(uint64_t i, size_t k)
{
    return 4 * kb_rng_uniform(3, KB_STREAM_SIMULATION, DIM * i + k) - 2;
}

/* [x, y, z] of point i. */
static const char *features(uint64_t i)
{
    static char text[128];

    snprintf(text, sizeof text, "[%.17g,%.17g,%.17g]", coordinate(i, 0), coordinate(i, 1), coordinate(i, 2));
    return text;
}

/* The whole catalogue, with features that are new in every version. */
static void put_arms(struct ld_tenant *t, uint64_t version)
{
    static char json[N_ARMS * 160 + 64];
    size_t n = (size_t)sprintf(json, "{\"arms\":[");

    for (uint64_t i = 0; i < N_ARMS; i++)
        n += (size_t)sprintf(json + n, "%s{\"id\":\"a%u\",\"features\":%s}", i > 0 ? "," : "", (unsigned)i,
                             features(1000 + N_ARMS * version + i));
    sprintf(json + n, "]}");
    expect_status(t, op_arms(t, json), 200);
}

static int observe(struct ld_tenant *t, uint64_t i)
{
    char json[256];

    snprintf(json, sizeof json, "{\"user\":\"u\",\"arm\":{\"id\":\"x\",\"features\":%s},\"reward\":1}",
             features(100000 + i));
    struct ld_op *op = op_observe(t, json, false);
    const int status = settle_op(t, op);
    ld_op_free(op);
    return status;
}

static size_t kept_bytes(struct ld_tenant *t)
{
    const size_t bytes = kb_engine_kept_bytes(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return bytes;
}

/* --- readers beside the writer ------------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    struct ld_tenant *t;
    atomic_bool *is_over;
    atomic_size_t *n_done;
    size_t n_different, n_failed;
};

/* The same candidates twice under one lock: by name, and with their features, which nobody keeps. */
static void compare(struct reader *r, const struct kb_engine *e, struct kb_scratch *kept, struct kb_scratch *anew)
{
    struct kb_candidate told[N_ARMS];
    struct kb_decision by_name, by_features;
    struct kb_query q = {.user = "u"};

    if (kb_engine_fit_scratch(e, kept, 0, 0) != KB_OK || kb_engine_fit_scratch(e, anew, N_ARMS, 0) != KB_OK ||
        kb_engine_decide(e, &q, kept, &by_name, NULL) != KB_OK || by_name.n != N_ARMS) {
        r->n_failed++;
        return;
    }
    for (size_t i = 0; i < N_ARMS; i++)
        told[i] = (struct kb_candidate){by_name.arm[i], by_name.features[i]};
    q.candidates = told;
    q.n_candidates = N_ARMS;
    r->n_failed += kb_engine_decide(e, &q, anew, &by_features, NULL) != KB_OK;
    r->n_different += memcmp(by_name.mean, by_features.mean, N_ARMS * sizeof(double)) != 0 ||
                      memcmp(by_name.sd, by_features.sd, N_ARMS * sizeof(double)) != 0;
}

static void *read_on(void *arg)
{
    struct reader *r = arg;
    struct kb_scratch *kept = NULL, *anew = NULL;

    if (kb_engine_scratch_new(&kept) != KB_OK || kb_engine_scratch_new(&anew) != KB_OK)
        r->n_failed++;
    while (r->n_failed == 0 && !atomic_load(r->is_over)) {
        compare(r, ld_tenant_read_lock(r->t, NULL), kept, anew);
        ld_tenant_read_unlock(r->t);
        atomic_fetch_add(r->n_done, 1);
    }
    kb_engine_scratch_free(kept);
    kb_engine_scratch_free(anew);
    return NULL;
}

START_TEST(readers_beside_the_writer_see_what_is_computed_anew)
{
    struct fixture f;
    struct reader reader[N_READERS];
    atomic_bool is_over = false;
    atomic_size_t n_done = 0;
    size_t n_kept = 0;

    fixture_open(&f, KEYED);
    put_arms(f.t, 0);
    for (size_t i = 0; i < N_READERS; i++) {
        reader[i] = (struct reader){.t = f.t, .is_over = &is_over, .n_done = &n_done};
        ck_assert_int_eq(pthread_create(&reader[i].thread, NULL, read_on, &reader[i]), 0);
    }
    for (uint64_t i = 0; i < N_ROUNDS || atomic_load(&n_done) < LEAST_DECISIONS; i++) {
        observe(f.t, i); /* the dictionary grows */
        if (i % 10 == 9)
            put_arms(f.t, i);
        n_kept += kept_bytes(f.t) > 0;
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < N_READERS; i++) {
        ck_assert_int_eq(pthread_join(reader[i].thread, NULL), 0);
        ck_assert_uint_eq(reader[i].n_failed, 0);
        ck_assert_uint_eq(reader[i].n_different, 0);
    }
    ck_assert_uint_gt(n_kept, N_ROUNDS / 2);
    fixture_close(&f);
}
END_TEST

/* --- quota ----------------------------------------------------------------------------------------------------- */

static size_t bytes_of(struct ld_tenant *t)
{
    const size_t bytes = kb_engine_bytes(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return bytes;
}

/* What observation i would take the model to, without what is kept. */
static size_t model_after(struct ld_tenant *t, uint64_t i)
{
    const double x[DIM] = {coordinate(100000 + i, 0), coordinate(100000 + i, 1), coordinate(100000 + i, 2)};
    const struct kb_event ev = {.type = KB_EV_OBSERVED, .as.observed = {.user = "u", .arm = {"x", x}, .reward = 1}};
    const struct kb_engine *e = ld_tenant_read_lock(t, NULL);
    const size_t bytes = kb_engine_bytes_after(e, &ev) - kb_engine_kept_bytes(e);

    ld_tenant_read_unlock(t);
    return bytes;
}

static void ask(struct ld_tenant *t)
{
    expect_status(t, op_select(t, "{\"user\":\"u\",\"dry_run\":true}", "x"), 200);
}

/* A quota that has just room for one observation more is not spent on what is kept, which goes where it must. */
START_TEST(what_is_kept_gives_way_to_the_model)
{
    struct fixture f;
    size_t n_gone = 0;

    fixture_open(&f, KEYED);
    put_arms(f.t, 0);
    for (uint64_t i = 0; i < 150; i++) {
        f.world.tenant_quota = 0;
        for (int k = 0; k < 2; k++) { /* missed, laid out with the next event */
            ask(f.t);
            observe(f.t, 0);
        }
        ck_assert_uint_gt(kept_bytes(f.t), 0);
        f.world.tenant_quota = model_after(f.t, i);
        ck_assert_int_eq(observe(f.t, i), 200);
        ck_assert(kept_bytes(f.t) == 0 || bytes_of(f.t) <= f.world.tenant_quota);
        n_gone += kept_bytes(f.t) == 0;
    }
    ck_assert_uint_gt(n_gone, 0);
    f.world.tenant_quota = bytes_of(f.t) - kept_bytes(f.t) - 1;
    ck_assert_int_eq(observe(f.t, 150), 507);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    return KBT_RUN("arm_columns", readers_beside_the_writer_see_what_is_computed_anew,
                   what_is_kept_gives_way_to_the_model);
}
