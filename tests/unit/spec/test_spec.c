/* Specifications: names, presets, ranges, combinations, equality, digest. */
#include <math.h>
#include <string.h>

#include "kbt.h"
#include "spec/spec.h"

static struct kb_spec preset(const char *name, uint32_t context_dim, uint32_t arm_dim)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, name, context_dim, arm_dim), KB_OK);
    return spec;
}

static void expect_refused(const struct kb_spec *spec, enum kb_err want, const char *pointer)
{
    struct kb_errmsg msg = {{0}, {0}};
    enum kb_err rc = kb_spec_check(spec, &msg);
    ck_assert_msg(rc == want, "%s: %d, expected %d", pointer, (int)rc, (int)want);
    ck_assert_str_eq(msg.pointer, pointer);
    ck_assert_uint_gt(strlen(msg.text), 0);
    ck_assert_int_eq(kb_spec_check(spec, NULL), want);
}

/* --- names ----------------------------------------------------------------------------------------------- */

static const struct {
    const struct kb_words *words;
    int n;
} enums[] = {
    {&kb_user_kernel_words, KB_USER_N}, {&kb_vec_kernel_words, KB_VEC_N},     {&kb_repr_words, KB_REPR_N},
    {&kb_conf_words, KB_CONF_N},        {&kb_sketch_form_words, KB_SKETCH_N}, {&kb_score_words, KB_SCORE_N},
    {&kb_rule_words, KB_RULE_N},        {&kb_aggregation_words, KB_AGG_N},    {&kb_forgetting_words, KB_FORGET_N},
};

START_TEST(names_and_values_are_each_others_inverse)
{
    for (size_t e = 0; e < sizeof enums / sizeof enums[0]; e++) {
        for (int i = 0; i < enums[e].n; i++) {
            ck_assert_ptr_nonnull(kb_word(enums[e].words, i));
            ck_assert_int_eq(kb_word_value(enums[e].words, kb_word(enums[e].words, i)), i);
        }
        ck_assert_ptr_null(kb_word(enums[e].words, enums[e].n));
        ck_assert_ptr_null(kb_word(enums[e].words, -1));
        ck_assert_int_eq(kb_word_value(enums[e].words, "no such thing"), -1);
        ck_assert_int_eq(kb_word_value(enums[e].words, ""), -1);
    }
}
END_TEST

/* --- presets ---------------------------------------------------------------------------------------------- */

START_TEST(every_preset_passes_its_own_check_in_all_dimensions)
{
    size_t n = 0;
    for (; kb_preset_name(n) != NULL; n++) {
        for (uint32_t d = 0; d < 4; d++) {
            struct kb_spec spec = preset(kb_preset_name(n), d % 2 * 3, d / 2 * 4);
            ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
            ck_assert_str_eq(spec.algorithm, kb_preset_name(n));
            if (spec.arm_dim == 0)
                ck_assert_int_eq(spec.arm_kernel.type, KB_VEC_DELTA);
            if (spec.context_dim == 0)
                ck_assert_int_eq(spec.context_kernel.type, KB_VEC_ONES);
        }
    }
    ck_assert_uint_eq(n, 25);
}
END_TEST

START_TEST(the_default_row_finds_its_own_scales)
{
    const struct kb_spec spec = preset(kb_preset_name(0), 2, 0);
    ck_assert_str_eq(spec.algorithm, "laplaced");
    ck_assert_int_eq(spec.repr.type, KB_REPR_BY_ARM);
    ck_assert_int_eq(spec.rule.type, KB_RULE_RAND_UCB);
    ck_assert(spec.is_tuned && spec.learned == KB_LEARNED_ALL);
    ck_assert_double_eq(spec.rule.epsilon, 0.02);
    ck_assert_double_eq(spec.conf.beta, 1);
}
END_TEST

/* ucb and ts: of the papers where they are not tuned, whatever was learned. */
START_TEST(rows_of_means_find_their_scales_or_are_those_of_the_papers)
{
    static const char *const rows[] = {"ucb", "ts"};
    for (size_t i = 0; i < 2; i++) {
        struct kb_spec spec = preset(rows[i], 2, 3), papers = spec;
        ck_assert(kb_spec_is_scaled(&spec) && kb_spec_has_prior(&spec) && spec.learned == KB_LEARNED_APART);
        kb_spec_tune(&papers, false);
        ck_assert(!kb_spec_has_prior(&papers) && papers.learned == 0);
        ck_assert_double_eq(papers.repr.lambda, 1);
        ck_assert(!kb_spec_same_model(&spec, &papers) && !kb_spec_same_model(&papers, &spec));
        spec.prior.arm = 0;
        expect_refused(&spec, KB_EUNSUPPORTED, "/prior/arm");
        spec.conf.type = KB_CONF_LK; /* a bound is of variance 1 */
        ck_assert(!kb_spec_is_scaled(&spec));
        kb_spec_tune(&spec, true);
        ck_assert(!spec.is_tuned && spec.learned == 0);
    }
}
END_TEST

START_TEST(the_default_row_is_laplaced_by_component_where_arms_have_features)
{
    const struct kb_spec other = preset(kb_preset_name(0), 2, 3), spec = preset("laplaced-by-component", 2, 3);
    ck_assert_str_eq(other.algorithm, "laplaced");
    ck_assert(kb_spec_same_model(&other, &spec) && other.learned == spec.learned && other.is_tuned);
    ck_assert(other.rule.type == spec.rule.type && other.rule.epsilon == spec.rule.epsilon);
    ck_assert(other.repr.type == KB_REPR_BY_COMPONENT && other.arm_kernel.is_median && other.context_kernel.is_median);
}
END_TEST

START_TEST(the_row_laplaced_kors_is_the_default_of_before)
{
    struct kb_spec spec = preset("laplaced-kors", 2, 3);
    ck_assert_str_eq(spec.algorithm, "laplaced-kors");
    ck_assert_int_eq(spec.user_kernel.type, KB_USER_LAPLACIAN);
    ck_assert_double_eq(spec.user_kernel.population, 1);
    ck_assert(spec.user_kernel.is_normalized);
    ck_assert_int_eq(spec.repr.type, KB_REPR_KORS);
    ck_assert_uint_eq(spec.repr.max_dictionary, 1024);
    ck_assert_double_eq(spec.repr.lambda, 0.25);
    ck_assert_double_eq(spec.repr.mu, spec.repr.lambda);
    ck_assert_double_eq(spec.user_kernel.rho, 0.01);
    ck_assert_double_eq(spec.conf.beta, 2);
}
END_TEST

START_TEST(documented_defaults_hold)
{
    struct kb_spec spec = preset("k-ucb", 2, 3);
    ck_assert_double_eq(spec.repr.lambda, 1);
    ck_assert_double_eq(spec.repr.mu, 1);
    ck_assert_double_eq(spec.repr.gamma, 1);
    ck_assert_double_eq(spec.repr.epsilon, 0.5);
    ck_assert_double_eq(spec.repr.threshold, 0.01);
    ck_assert_double_eq(spec.repr.q, 5);
    ck_assert_double_eq(spec.repr.batch_ratio, 10);
    ck_assert_uint_eq(spec.repr.max_dictionary, 1024);
    ck_assert_uint_eq(spec.repr.exact_limit, 4096);
    ck_assert_uint_eq(preset("lk-gp-ts", 0, 0).repr.exact_limit, 1500);
    ck_assert_double_eq(spec.conf.noise, 0.1);
    ck_assert_double_eq(spec.conf.delta, 0.01);
    ck_assert_double_eq(spec.conf.norm_bound, 0);
    ck_assert_double_eq(spec.user_kernel.rho, 0.1);
    ck_assert_int_eq(spec.reward_window_ms, 3600 * 1000);
    ck_assert_uint_eq(spec.seed, 1);
    ck_assert(spec.has_default_reward && spec.default_reward == 0);
    ck_assert_double_eq(spec.rule.epsilon, 0);
    ck_assert_double_eq(preset("laplaced-kors", 0, 0).rule.epsilon, 0.05);
    ck_assert_double_eq(preset("ts", 0, 0).conf.beta, 1);
    ck_assert_int_eq(preset("random", 0, 0).rule.type, KB_RULE_UNIFORM);
}
END_TEST

START_TEST(presets_k_ucb_and_gp_ucb_are_one_model)
{
    struct kb_spec a = preset("k-ucb", 2, 3), b = preset("gp-ucb", 2, 3), c = preset("ek-ucb", 2, 3);
    ck_assert(kb_spec_same_model(&a, &b));
    ck_assert(!kb_spec_same_model(&a, &c));
}
END_TEST

START_TEST(unknown_presets_are_not_found)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "lk-gp-ucB", 0, 0), KB_ENOTFOUND);
    ck_assert_int_eq(kb_spec_preset(&spec, "", 0, 0), KB_ENOTFOUND);
}
END_TEST

/* --- ranges and combinations --------------------------------------------------------------------------------- */

/* Every double of the spec that has a range, with one value below and one above it. */
START_TEST(numbers_out_of_range_are_named)
{
    struct kb_spec s = preset("laplaced-kors", 2, 3);
    struct {
        double *field;
        const char *pointer;
        double below, above;
    } fields[] = {
        {&s.user_kernel.rho, "/user_kernel/rho", 0, INFINITY},
        {&s.user_kernel.population, "/user_kernel/population", -0.1, INFINITY},
        {&s.user_kernel.power, "/user_kernel/power", 0, 4.001},
        {&s.user_kernel.tau, "/user_kernel/tau", 0, INFINITY},
        {&s.user_kernel.lengthscale, "/user_kernel/lengthscale", -1, INFINITY},
        {&s.context_kernel.lengthscale, "/context_kernel/lengthscale", 0, INFINITY},
        {&s.context_kernel.offset, "/context_kernel/offset", -1, INFINITY},
        {&s.user_kernel.bandwidth, "/user_kernel/bandwidth", -1, INFINITY},
        {&s.arm_kernel.lengthscale, "/arm_kernel/lengthscale", -1, INFINITY},
        {&s.arm_kernel.offset, "/arm_kernel/offset", -1, INFINITY},
        {&s.repr.lambda, "/representation/lambda", 0, INFINITY},
        {&s.repr.mu, "/representation/mu", 0, INFINITY},
        {&s.repr.gamma, "/representation/gamma", 0, INFINITY},
        {&s.repr.epsilon, "/representation/epsilon", 0, 1},
        {&s.repr.threshold, "/representation/threshold", 0, 1},
        {&s.conf.beta, "/confidence/beta", -1, INFINITY},
        {&s.conf.norm_bound, "/confidence/norm_bound", -1, INFINITY},
        {&s.conf.noise, "/confidence/noise", 0, INFINITY},
        {&s.conf.delta, "/confidence/delta", 0, 1},
        {&s.rule.epsilon, "/rule/epsilon", -0.01, 1.01},
        {&s.rule.gamma_scale, "/rule/gamma_scale", -0.01, INFINITY},
        {&s.rule.gamma_exponent, "/rule/gamma_exponent", -0.01, 1.01},
        {&s.forgetting.discount, "/forgetting/discount", 0, 1},
        {&s.forgetting.half_life_s, "/forgetting/half_life_s", 0.0009, 1.1e9},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const double good = *fields[i].field, bad[] = {fields[i].below, fields[i].above, (double)NAN};
        for (size_t b = 0; b < 3; b++) {
            *fields[i].field = bad[b];
            expect_refused(&s, KB_EINVAL, fields[i].pointer);
        }
        *fields[i].field = good;
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
    }
}
END_TEST

START_TEST(counts_out_of_range_are_named)
{
    struct kb_spec s = preset("laplaced-kors", 2, 3);
    s.context_dim = 4097;
    expect_refused(&s, KB_EINVAL, "/context_dim");
    s = preset("laplaced-kors", 2, 3);
    s.arm_dim = 4097;
    expect_refused(&s, KB_EINVAL, "/arm_dim");
    s = preset("laplaced-kors", 2, 3);
    s.repr.max_dictionary = 0;
    expect_refused(&s, KB_EINVAL, "/representation/max_dictionary");
    s.repr.max_dictionary = 4097;
    expect_refused(&s, KB_EINVAL, "/representation/max_dictionary");
    s = preset("laplaced-kors", 2, 3);
    s.user_kernel.n_vectors = 0;
    expect_refused(&s, KB_EINVAL, "/user_kernel/k");
    s.user_kernel.n_vectors = 2049;
    expect_refused(&s, KB_EINVAL, "/user_kernel/k");
    s = preset("coop-kernel-ucb", 2, 3);
    const struct {
        size_t *field, most;
        const char *pointer;
    } learning[] = {{&s.user_kernel.n_features, 4096, "/user_kernel/features"},
                    {&s.user_kernel.refresh, 1000000, "/user_kernel/refresh"},
                    {&s.user_kernel.min_observations, 1000000, "/user_kernel/min_observations"}};
    for (size_t i = 0; i < 3; i++) {
        *learning[i].field = 0;
        expect_refused(&s, KB_EINVAL, learning[i].pointer);
        *learning[i].field = learning[i].most + 1;
        expect_refused(&s, KB_EINVAL, learning[i].pointer);
        *learning[i].field = learning[i].most;
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
    }
    s = preset("k-ucb", 2, 3);
    s.repr.exact_limit = 0;
    expect_refused(&s, KB_EINVAL, "/representation/exact_limit");
    s.repr.exact_limit = 16385;
    expect_refused(&s, KB_EINVAL, "/representation/exact_limit");
    s = preset("laplaced-kors", 2, 3);
    s.reward_window_ms = 0;
    expect_refused(&s, KB_EINVAL, "/reward_window_s");
    s = preset("laplaced-kors", 2, 3);
    s.seed = UINT64_C(1) << 53;
    expect_refused(&s, KB_EINVAL, "/seed");
    s = preset("laplaced-kors", 2, 3);
    s.has_default_reward = true;
    s.default_reward = INFINITY;
    expect_refused(&s, KB_EINVAL, "/default_reward");
    s = preset("laplaced-kors", 2, 3);
    s.arm_kernel.degree = 9;
    expect_refused(&s, KB_EINVAL, "/arm_kernel/degree");
    s.arm_kernel.degree = 0;
    expect_refused(&s, KB_EINVAL, "/arm_kernel/degree");
}
END_TEST

START_TEST(types_past_the_end_are_refused)
{
    struct kb_spec s = preset("laplaced-kors", 2, 3);
    s.rule.type = KB_RULE_N;
    expect_refused(&s, KB_EINVAL, "/rule/type");
    s = preset("laplaced-kors", 2, 3);
    s.user_kernel.type = KB_USER_N;
    expect_refused(&s, KB_EINVAL, "/user_kernel/type");
    s = preset("laplaced-kors", 2, 3);
    s.repr.type = KB_REPR_N;
    expect_refused(&s, KB_EINVAL, "/representation/type");
}
END_TEST

START_TEST(kernels_of_coordinates_need_coordinates)
{
    for (int type = 0; type < KB_VEC_N; type++) {
        struct kb_spec s = preset("laplaced-kors", 0, 0);
        s.arm_kernel.type = (enum kb_vec_kernel_type)type;
        if (type == KB_VEC_DELTA || type == KB_VEC_ONES)
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        else
            expect_refused(&s, KB_EUNSUPPORTED, "/arm_kernel/type");
        s = preset("laplaced-kors", 0, 0);
        s.context_kernel.type = (enum kb_vec_kernel_type)type;
        if (type == KB_VEC_ONES)
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        else
            expect_refused(&s, KB_EUNSUPPORTED, "/context_kernel/type");
    }
}
END_TEST

START_TEST(median_wants_a_kernel_with_a_lengthscale)
{
    struct kb_spec s = preset("lin-ucb", 2, 3);
    s.arm_kernel.is_median = true;
    expect_refused(&s, KB_EUNSUPPORTED, "/arm_kernel/lengthscale");
    s = preset("lin-ucb", 2, 3);
    s.context_kernel.is_median = true;
    expect_refused(&s, KB_EUNSUPPORTED, "/context_kernel/lengthscale");
    s = preset("k-ucb", 2, 3);
    s.arm_kernel.is_median = s.context_kernel.is_median = true;
    ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
}
END_TEST

/* The virtual node is a node of (L + rho I)^-1 only. */
START_TEST(a_population_needs_the_laplacian_at_power_one)
{
    for (int type = 0; type < KB_USER_N; type++)
        for (int p = 1; p <= 2; p++) {
            struct kb_spec s = preset("laplaced-kors", 0, 1);
            s.user_kernel.type = (enum kb_user_kernel_type)type;
            s.user_kernel.power = p;
            s.user_kernel.is_normalized = false;
            bool is_inverse = type == KB_USER_LAPLACIAN && p == 1;
            if (is_inverse || type == KB_USER_IDENTITY || type == KB_USER_ONES)
                ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
            else
                expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/population");
            s.user_kernel.population = 0;
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        }
}
END_TEST

START_TEST(a_learned_kernel_needs_vectors_and_neither_population_nor_normalisation)
{
    for (uint32_t dims = 0; dims < 4; dims++) {
        struct kb_spec s = preset("coop-kernel-ucb", dims & 1, dims >> 1);
        s.user_kernel.type = KB_USER_MMD;
        if (dims == 0) {
            expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/type");
            continue;
        }
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        s.user_kernel.is_normalized = true;
        expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/normalize");
        s.user_kernel.population = 0.1;
        expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/population");
    }
}
END_TEST

START_TEST(variances_of_isolated_users_stay_in_range)
{
    struct kb_spec s = preset("lk-gp-ucb", 0, 0);
    s.user_kernel.rho = 1e-4;
    s.user_kernel.power = 3;
    ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
    s.user_kernel.power = 3.1;
    expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/power");
    s.user_kernel.rho = 1e4;
    expect_refused(&s, KB_EUNSUPPORTED, "/user_kernel/power");
    s.user_kernel.type = KB_USER_HEAT; /* reads neither */
    ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
}
END_TEST

START_TEST(user_kernels_read_their_own_parameters_only)
{
    enum {
        LAPLACIAN = 1 << KB_USER_LAPLACIAN,
        HEAT = 1 << KB_USER_HEAT,
        RBF = 1 << KB_USER_SPECTRAL_RBF,
        MMD = 1 << KB_USER_MMD
    };
    struct kb_spec a = preset("coop-kernel-ucb", 0, 2), b;
    const struct {
        double *field;
        int readers;
    } fields[] = {{&b.user_kernel.rho, LAPLACIAN},
                  {&b.user_kernel.power, LAPLACIAN},
                  {&b.user_kernel.tau, HEAT},
                  {&b.user_kernel.lengthscale, RBF | MMD},
                  {&b.user_kernel.bandwidth, MMD}};
    const struct {
        size_t *field;
        int readers;
    } counts[] = {{&b.user_kernel.n_vectors, RBF},
                  {&b.user_kernel.n_features, MMD},
                  {&b.user_kernel.min_observations, MMD},
                  {&b.user_kernel.refresh, 0}}; /* says when to look, not what is seen */
    for (int type = 0; type < KB_USER_N; type++) {
        a.user_kernel.type = (enum kb_user_kernel_type)type;
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            b = a;
            *fields[f].field += 0.5;
            ck_assert_int_eq(kb_spec_same_model(&a, &b), (fields[f].readers & 1 << type) == 0);
            ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
        }
        for (size_t f = 0; f < sizeof counts / sizeof counts[0]; f++) {
            b = a;
            ++*counts[f].field;
            ck_assert_int_eq(kb_spec_same_model(&a, &b), (counts[f].readers & 1 << type) == 0);
            ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
        }
        b = a;
        b.user_kernel.is_normalized = true;
        ck_assert_int_eq(kb_spec_same_model(&a, &b), !kb_user_kernel_reads_graph(a.user_kernel.type));
    }
}
END_TEST

START_TEST(rules_that_need_the_exact_posterior_are_refused_on_dictionaries)
{
    for (int type = 0; type < KB_CONF_N; type++) {
        for (int repr = 0; repr < KB_REPR_N; repr++) {
            struct kb_spec s = preset("k-ucb", 2, 3);
            s.conf.type = (enum kb_conf_type)type;
            s.repr.type = (enum kb_repr_type)repr;
            const bool reads_gram = type == KB_CONF_LK || type == KB_CONF_AY || type == KB_CONF_IGP;
            const bool is_served = repr == KB_REPR_EXACT || type == KB_CONF_FIXED ||
                                   (repr == KB_REPR_BY_ARM ? reads_gram : repr != KB_REPR_BY_COMPONENT && !reads_gram);
            if (repr == KB_REPR_BY_ARM)
                s.arm_kernel.type = KB_VEC_DELTA;
            if (is_served)
                ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
            else
                expect_refused(&s, KB_EUNSUPPORTED, "/confidence/type");
            kb_spec_drop_unserved_confidence(&s);
            ck_assert_int_eq(s.conf.type, is_served ? type : KB_CONF_FIXED);
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        }
    }
}
END_TEST

START_TEST(a_ball_over_a_dictionary_needs_rewards_that_stay_as_they_were_told)
{
    for (int type = 0; type < KB_CONF_N; type++) {
        struct kb_spec s = preset("ek-ucb", 2, 3);
        const bool has_ball = type == KB_CONF_AMM || type == KB_CONF_DMM || type == KB_CONF_CMM;
        s.conf.type = (enum kb_conf_type)type;
        s.aggregation = KB_AGG_LAST;
        if (has_ball)
            expect_refused(&s, KB_EUNSUPPORTED, "/aggregation");
        s.repr.type = KB_REPR_EXACT;
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        s.repr.type = KB_REPR_KORS;
        kb_spec_drop_unserved_confidence(&s);
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        s = preset("ek-ucb", 2, 3);
        s.conf.type = (enum kb_conf_type)type;
        s.conf.is_mixture = true;
        if (!has_ball && type != KB_CONF_LK && type != KB_CONF_AY && type != KB_CONF_IGP)
            expect_refused(&s, KB_EUNSUPPORTED, "/confidence/mixture");
    }
    struct kb_spec amm = preset("amm-ucb", 2, 3);
    amm.conf.is_mixture = true;
    expect_refused(&amm, KB_EUNSUPPORTED, "/confidence/mixture");
}
END_TEST

/* Bounds count every reward in full and elimination is for good: what forgets acts on mean and sd alone. */
START_TEST(what_forgets_needs_confidence_fixed_and_no_elimination)
{
    for (int conf = 0; conf < KB_CONF_N; conf++) {
        for (int forgetting = KB_FORGET_NONE; forgetting < KB_FORGET_N; forgetting++) {
            struct kb_spec s = preset("lk-gp-ucb", 2, 3);
            s.conf.type = (enum kb_conf_type)conf;
            s.forgetting.type = (enum kb_forgetting_type)forgetting;
            if (forgetting != KB_FORGET_NONE && conf != KB_CONF_FIXED)
                expect_refused(&s, KB_EUNSUPPORTED, "/forgetting/type");
            else
                ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
            kb_spec_drop_unserved_confidence(&s);
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        }
    }
    struct kb_spec sup = preset("sup-kernel-ucb", 2, 3);
    sup.forgetting.type = KB_FORGET_HALF_LIFE;
    expect_refused(&sup, KB_EUNSUPPORTED, "/forgetting/type");
}
END_TEST

/* Bounds are of rewards that have come, levels of what they have learned; what fades has no weight to be taken back by;
 * and a learned kernel has one owner. A preset's own bounds give way. */
START_TEST(open_decisions_need_confidence_fixed_and_a_model_that_stays)
{
    for (int conf = 0; conf < KB_CONF_N; conf++) {
        struct kb_spec s = preset("lk-gp-ucb", 2, 3);
        s.conf.type = (enum kb_conf_type)conf;
        s.pending = KB_PENDING_HALLUCINATE;
        if (conf != KB_CONF_FIXED)
            expect_refused(&s, KB_EUNSUPPORTED, "/pending");
        else
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        kb_spec_drop_unserved_confidence(&s);
        ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
    }
    struct kb_spec sup = preset("sup-kernel-ucb", 2, 3), fading = preset("ts", 0, 0),
                   learned = preset("coop-kernel-ucb", 2, 3), a = preset("ts", 0, 0), b = a;
    sup.pending = fading.pending = learned.pending = b.pending = KB_PENDING_HALLUCINATE;
    fading.forgetting.type = KB_FORGET_DISCOUNT;
    learned.user_kernel.type = KB_USER_MMD;
    expect_refused(&sup, KB_EUNSUPPORTED, "/pending");
    expect_refused(&fading, KB_EUNSUPPORTED, "/pending");
    expect_refused(&learned, KB_EUNSUPPORTED, "/pending");
    ck_assert(!kb_spec_same_model(&a, &b));
    ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
}
END_TEST

START_TEST(the_graph_baselines_are_what_the_paper_says)
{
    struct kb_spec gob = preset("gob-lin", 0, 3), graph = preset("graph-ucb", 0, 3);
    struct kb_spec coop = preset("coop-kernel-ucb", 2, 3), lk = preset("lk-gp-ucb", 2, 3);
    ck_assert(gob.user_kernel.type == KB_USER_LAPLACIAN && gob.user_kernel.rho == 1.0);
    ck_assert(graph.user_kernel.type == KB_USER_LAPLACIAN && graph.user_kernel.rho == 0.1);
    ck_assert(gob.arm_kernel.type == KB_VEC_LINEAR && graph.arm_kernel.type == KB_VEC_LINEAR);
    ck_assert(!kb_spec_same_model(&gob, &graph));
    gob.user_kernel.rho = 0.1;
    ck_assert(kb_spec_same_model(&gob, &graph));
    ck_assert(kb_spec_same_model(&coop, &lk));
}
END_TEST

START_TEST(rules_that_read_a_spectrum_make_another_model_than_those_that_do_not)
{
    const struct kb_spec a = preset("k-ucb", 2, 3);
    struct kb_spec b = a;
    b.conf = (struct kb_conf_spec){.type = KB_CONF_AMM, .norm_bound = 3, .noise = 2, .delta = 0.5};
    ck_assert(kb_spec_same_model(&a, &b));
    b.conf.type = KB_CONF_CMM;
    ck_assert(!kb_spec_same_model(&a, &b));
    struct kb_spec c = b;
    c.conf.type = KB_CONF_DMM;
    c.conf.noise = 1;
    ck_assert(kb_spec_same_model(&b, &c));
}
END_TEST

START_TEST(a_rule_that_learns_by_levels_needs_exact_and_fixed)
{
    struct kb_spec s = preset("sup-kernel-ucb", 2, 3);
    ck_assert(kb_rule_reads_levels(s.rule.type) && s.rule.scale == 1);
    s.repr.type = KB_REPR_KORS;
    expect_refused(&s, KB_EUNSUPPORTED, "/representation/type");
    s.repr.type = KB_REPR_THRESHOLD;
    expect_refused(&s, KB_EUNSUPPORTED, "/representation/type");
    s.repr.type = KB_REPR_EXACT;
    for (int conf = 0; conf < KB_CONF_N; conf++) {
        s.conf.type = (enum kb_conf_type)conf;
        if (conf == KB_CONF_FIXED)
            ck_assert_int_eq(kb_spec_check(&s, NULL), KB_OK);
        else
            expect_refused(&s, KB_EUNSUPPORTED, "/confidence/type");
    }
    s = preset("sup-kernel-ucb", 2, 3);
    s.rule.scale = 0;
    expect_refused(&s, KB_EINVAL, "/rule/scale");
}
END_TEST

START_TEST(levels_make_another_model)
{
    struct kb_spec a = preset("sup-kernel-ucb", 2, 3), b = a;
    b.rule.scale = 2;
    ck_assert(kb_spec_same_model(&a, &b));
    ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
    b.rule.type = KB_RULE_UCB;
    ck_assert(!kb_spec_same_model(&a, &b));
}
END_TEST

/* --- same model, digest ---------------------------------------------------------------------------------------- */

START_TEST(resampled_models_differ_by_what_their_draw_reads)
{
    const struct kb_spec bkb = preset("bkb", 2, 3), bbkb = preset("bbkb", 2, 3);
    struct kb_spec b = bkb;
    ck_assert(kb_repr_is_resampled(bkb.repr.type) && kb_repr_is_resampled(bbkb.repr.type));
    ck_assert(!kb_repr_is_resampled(KB_REPR_EXACT) && !kb_repr_is_resampled(KB_REPR_KORS));
    ck_assert(!kb_spec_same_model(&bkb, &bbkb));
    b.repr.batch_ratio = 3; /* of the batched one */
    b.repr.mu = 7;
    ck_assert(kb_spec_same_model(&bkb, &b));
    b.repr.q = 4;
    ck_assert(!kb_spec_same_model(&bkb, &b));
    b = bbkb;
    b.repr.batch_ratio = 3;
    ck_assert(!kb_spec_same_model(&bbkb, &b));
    b = bbkb;
    b.repr.max_dictionary = 3;
    ck_assert(!kb_spec_same_model(&bbkb, &b));
}
END_TEST

START_TEST(only_what_moves_a_kernel_value_or_a_feature_makes_another_model)
{
    const struct kb_spec a = preset("laplaced-kors", 2, 3);
    struct kb_spec b = a;
    b.conf.beta = 5;
    b.rule.epsilon = 0.1;
    b.rule.type = KB_RULE_THOMPSON;
    b.seed = 9;
    b.reward_window_ms = 1;
    b.repr.exact_limit = 7;
    b.repr.threshold = 0.5;     /* not read under kors */
    b.arm_kernel.degree = 5;    /* not read under rbf */
    b.arm_kernel.offset = 0.25; /* likewise */
    ck_assert(kb_spec_same_model(&a, &b));
    b.repr.q = 2; /* of resampled dictionaries alone */
    b.repr.batch_ratio = 3;
    ck_assert(kb_spec_same_model(&a, &b));
    b.repr.mu = 0.5;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.arm_kernel.lengthscale = 1.1;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.user_kernel.population = 0.5;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.arm_dim = 4;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.repr.type = KB_REPR_EXACT;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.context_kernel.type = KB_VEC_MATERN52;
    ck_assert(!kb_spec_same_model(&a, &b));
}
END_TEST

START_TEST(exact_models_do_not_depend_on_dictionary_settings)
{
    const struct kb_spec a = preset("k-ucb", 2, 3);
    struct kb_spec b = a;
    b.repr.mu = 3;
    b.repr.max_dictionary = 2;
    b.user_kernel.rho = 0.7; /* not read under ones */
    ck_assert(kb_spec_same_model(&a, &b));
    b.repr.lambda = 0.5;
    ck_assert(!kb_spec_same_model(&a, &b));
}
END_TEST

START_TEST(arms_that_are_held_apart_are_told_apart_by_name_alone)
{
    const struct kb_spec a = preset("laplaced-by-arm", 2, 3);
    struct kb_spec b = a;
    b.arm_kernel.type = KB_VEC_RBF;
    expect_refused(&b, KB_EUNSUPPORTED, "/representation/type");
    b.arm_kernel.type = KB_VEC_ONES;
    expect_refused(&b, KB_EUNSUPPORTED, "/representation/type");
    double *const values[] = {&b.prior.mean, &b.prior.arm, &b.prior.user, &b.prior.context, &b.prior.linear};
    const struct kb_spec exact = preset("k-ucb", 2, 3);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        b = a;
        *values[i] += 0.5;
        ck_assert(!kb_spec_same_model(&a, &b));
        ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
        *values[i] = i > 0 ? -1e-9 : 2e30;
        expect_refused(
            &b, KB_EINVAL,
            (const char *const[]){"/prior/mean", "/prior/arm", "/prior/user", "/prior/context", "/prior/linear"}[i]);
        b = exact;
        *values[i] += 0.5;
        ck_assert(kb_spec_same_model(&exact, &b)); /* not read */
        ck_assert_uint_ne(kb_spec_digest(&exact, 1), kb_spec_digest(&b, 1));
    }
    b = a;
    b.repr.exact_limit++;
    ck_assert(!kb_spec_same_model(&a, &b));
    b = a;
    b.repr.mu = b.repr.q = 3;
    b.repr.max_dictionary = 2;
    ck_assert(kb_spec_same_model(&a, &b));
}
END_TEST

START_TEST(a_sum_of_components_reads_its_variances_and_its_threshold)
{
    const struct kb_spec a = preset("laplaced-by-component", 2, 3), other = preset("laplaced-by-arm", 2, 3);
    struct kb_spec b = a;
    double *const values[] = {&b.prior.mean,    &b.prior.arm,    &b.prior.feature, &b.prior.user,
                              &b.prior.context, &b.prior.linear, &b.repr.threshold};
    ck_assert(a.arm_kernel.is_median && a.context_kernel.is_median && a.arm_kernel.type == KB_VEC_RBF);
    ck_assert(a.is_tuned && a.learned == (KB_LEARNED_ALL & ~(unsigned)KB_LEARNED_SHAPE));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        b = a;
        *values[i] += 0.5;
        ck_assert_int_eq(kb_spec_check(&b, NULL), KB_OK);
        ck_assert(!kb_spec_same_model(&a, &b));
        ck_assert_uint_ne(kb_spec_digest(&a, 1), kb_spec_digest(&b, 1));
    }
    b = other;
    b.prior.feature += 0.5;
    ck_assert(kb_spec_same_model(&other, &b)); /* arms that are held apart have no features */
    b = a;
    b.repr.mu = b.repr.q = 3;
    b.repr.exact_limit++;
    ck_assert(kb_spec_same_model(&a, &b));
    ck_assert_int_eq(kb_spec_of_parts(&a, false).user_kernel.type, KB_USER_ONES);
}
END_TEST

START_TEST(where_nothing_is_shared_along_users_or_contexts_they_are_not_told_apart)
{
    const struct kb_spec a = preset("laplaced-by-arm", 2, 0);
    struct kb_spec b = a;
    ck_assert_int_eq(kb_spec_of_parts(&a, true).user_kernel.type, KB_USER_LAPLACIAN);
    ck_assert_int_eq(kb_spec_of_parts(&a, true).context_kernel.type, KB_VEC_RBF);
    ck_assert_int_eq(kb_spec_of_parts(&a, false).user_kernel.type, KB_USER_ONES);
    b.user_kernel.type = KB_USER_IDENTITY;
    ck_assert_int_eq(kb_spec_of_parts(&b, false).user_kernel.type, KB_USER_IDENTITY);
    b.prior.user = 0;
    ck_assert_int_eq(kb_spec_of_parts(&b, true).user_kernel.type, KB_USER_ONES);
    b.prior.context = 0;
    ck_assert_int_eq(kb_spec_of_parts(&b, true).context_kernel.type, KB_VEC_RBF);
    b.prior.linear = 0;
    ck_assert_int_eq(kb_spec_of_parts(&b, true).context_kernel.type, KB_VEC_ONES);
    b.repr.type = KB_REPR_KORS;
    ck_assert_int_eq(kb_spec_of_parts(&b, false).context_kernel.type, KB_VEC_RBF);
}
END_TEST

START_TEST(digest_sees_each_setting)
{
    const struct kb_spec a = preset("laplaced-kors", 2, 3);
    const uint64_t digest = kb_spec_digest(&a, 1);
    struct kb_spec b = a;
    ck_assert_uint_eq(kb_spec_digest(&b, 1), digest);
    b.rule.epsilon = 1e-9;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.rule.gamma_scale = 0.75; /* at their defaults these two count as absent: older digests were made without them */
    const uint64_t of_scale = kb_spec_digest(&b, 1);
    b = a;
    b.rule.gamma_exponent = 0.75;
    ck_assert_uint_ne(of_scale, digest);
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    ck_assert_uint_ne(kb_spec_digest(&b, 1), of_scale);
    b = a;
    b.algorithm[0] = 'L';
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.arm_kernel.is_median = true;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.has_default_reward = false;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.seed++;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.context_kernel.degree++;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.forgetting.type = KB_FORGET_DISCOUNT;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
    b = a;
    b.forgetting.half_life_s = 1;
    ck_assert_uint_ne(kb_spec_digest(&b, 1), digest);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "spec", names_and_values_are_each_others_inverse, every_preset_passes_its_own_check_in_all_dimensions,
        the_default_row_finds_its_own_scales, rows_of_means_find_their_scales_or_are_those_of_the_papers,
        the_default_row_is_laplaced_by_component_where_arms_have_features,
        the_row_laplaced_kors_is_the_default_of_before, documented_defaults_hold,
        presets_k_ucb_and_gp_ucb_are_one_model, unknown_presets_are_not_found, numbers_out_of_range_are_named,
        counts_out_of_range_are_named, types_past_the_end_are_refused, kernels_of_coordinates_need_coordinates,
        a_learned_kernel_needs_vectors_and_neither_population_nor_normalisation,
        a_population_needs_the_laplacian_at_power_one, variances_of_isolated_users_stay_in_range,
        user_kernels_read_their_own_parameters_only, open_decisions_need_confidence_fixed_and_a_model_that_stays,
        the_graph_baselines_are_what_the_paper_says, median_wants_a_kernel_with_a_lengthscale,
        rules_that_need_the_exact_posterior_are_refused_on_dictionaries,
        a_ball_over_a_dictionary_needs_rewards_that_stay_as_they_were_told,
        what_forgets_needs_confidence_fixed_and_no_elimination,
        rules_that_read_a_spectrum_make_another_model_than_those_that_do_not,
        resampled_models_differ_by_what_their_draw_reads, a_rule_that_learns_by_levels_needs_exact_and_fixed,
        levels_make_another_model, only_what_moves_a_kernel_value_or_a_feature_makes_another_model,
        exact_models_do_not_depend_on_dictionary_settings, arms_that_are_held_apart_are_told_apart_by_name_alone,
        a_sum_of_components_reads_its_variances_and_its_threshold,
        where_nothing_is_shared_along_users_or_contexts_they_are_not_told_apart, digest_sees_each_setting);
}
