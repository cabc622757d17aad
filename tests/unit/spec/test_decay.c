/* Halvings by their definition: events of a discount, times of a half-life, changes of the setting, and the grid. */
#include <math.h>
#include <string.h>

#include "spec/decay.h"
#include "kbt.h"

static const struct kb_forgetting_spec none = {KB_FORGET_NONE, 0.999, 86400, false};
static const struct kb_forgetting_spec discount = {KB_FORGET_DISCOUNT, 0.9, 86400, false};
static const struct kb_forgetting_spec half_life = {KB_FORGET_HALF_LIFE, 0.999, 2, false};

START_TEST(a_discount_counts_events_and_the_first_forgets_nothing)
{
    struct kb_decay d = {0};
    for (int i = 0; i < 1000; i++) {
        kb_decay_step(&d, &discount, -i); /* times mean nothing */
        ck_assert(kbt_close(exp2(-kb_decay_halvings(&d, &discount)), pow(0.9, i), 1e-12));
        ck_assert_double_eq(kb_decay_halvings(&d, &none), 0);
    }
}
END_TEST

START_TEST(a_half_life_counts_time_and_waits_for_a_clock_that_was_set_back)
{
    static const int64_t at[] = {5000, 7000, 9000, 4000, 8999, 9000, 11000};
    static const double want[] = {0, 1, 2, 2, 2, 2, 3};
    struct kb_decay d = {0};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        kb_decay_step(&d, &half_life, at[i]);
        ck_assert_double_eq(kb_decay_halvings(&d, &half_life), want[i]);
    }
}
END_TEST

START_TEST(another_setting_counts_from_its_first_event)
{
    struct kb_decay d = {0};
    kb_decay_step(&d, &half_life, 1000);
    kb_decay_step(&d, &half_life, 5000); /* two halvings */
    kb_decay_change(&d, &half_life);
    ck_assert_double_eq(kb_decay_halvings(&d, &discount), 2);
    kb_decay_step(&d, &discount, 9000);
    ck_assert_double_eq(kb_decay_halvings(&d, &discount), 2);
    kb_decay_step(&d, &discount, 9000);
    ck_assert(kbt_close(kb_decay_halvings(&d, &discount), 2 - log2(0.9), 1e-15));
    kb_decay_change(&d, &discount);
    kb_decay_step(&d, &none, 90000);
    ck_assert(kbt_close(kb_decay_halvings(&d, &none), 2 - log2(0.9), 1e-15));
    ck_assert(!kb_decay_is_none(&d) && !d.has_begun);
    kb_decay_change(&d, &none);
    kb_decay_step(&d, &half_life, 92000);
    kb_decay_step(&d, &half_life, 94000);
    ck_assert(kbt_close(kb_decay_halvings(&d, &half_life), 3 - log2(0.9), 1e-15));
}
END_TEST

START_TEST(without_forgetting_nothing_is_counted)
{
    struct kb_decay d = {0}, other = {0};
    kb_decay_step(&d, &none, 1000);
    ck_assert(kb_decay_is_none(&d));
    ck_assert_uint_eq(kb_decay_digest(&d, 1), kb_decay_digest(&other, 1));
    kb_decay_step(&d, &discount, 1000);
    kb_decay_step(&other, &discount, 5000); /* at another time */
    ck_assert_uint_eq(kb_decay_digest(&d, 1), kb_decay_digest(&other, 1));
}
END_TEST

/* A weight in the unit is between 1 and 1/0.9, and the unit never falls. */
START_TEST(units_lie_on_a_grid_just_below)
{
    double last = 0;
    for (double halvings = 0; halvings < 3000; halvings = halvings * 1.01 + 0.01) {
        double unit = kb_decay_unit(halvings), steps = unit / KB_DECAY_STEP, weight = exp2(halvings - unit);
        ck_assert_double_ge(unit, last);
        ck_assert(kbt_close(steps, round(steps), 1e-12));
        ck_assert_double_gt(weight, 1 - 1e-9);
        ck_assert_double_lt(weight, (1 + 1e-9) / 0.9);
        last = unit;
    }
    ck_assert(kbt_close(exp2(-KB_DECAY_STEP), 0.9, 1e-15));
}
END_TEST

START_TEST(settings_differ_by_what_their_type_reads)
{
    struct kb_forgetting_spec a = none, b = none;
    b.discount = 0.5;
    b.half_life_s = 1;
    ck_assert(kb_forgetting_is_same(&a, &b));
    a.type = b.type = KB_FORGET_DISCOUNT;
    ck_assert(!kb_forgetting_is_same(&a, &b));
    b.discount = a.discount;
    ck_assert(kb_forgetting_is_same(&a, &b));
    a.type = b.type = KB_FORGET_HALF_LIFE;
    ck_assert(!kb_forgetting_is_same(&a, &b));
    b.half_life_s = a.half_life_s;
    ck_assert(kb_forgetting_is_same(&a, &b));
    b.type = KB_FORGET_NONE;
    ck_assert(!kb_forgetting_is_same(&a, &b));
}
END_TEST

START_TEST(a_change_is_halvings_at_once_under_any_setting)
{
    struct kb_decay d = {0};
    kb_decay_step(&d, &discount, 0);
    kb_decay_step(&d, &discount, 0);
    kb_decay_jump(&d, 0.125, 9);
    ck_assert(kbt_close(kb_decay_halvings(&d, &discount), 3 - log2(0.9), 1e-15));
    kb_decay_change(&d, &discount);
    kb_decay_jump(&d, 0.5, 12);
    ck_assert(kbt_close(kb_decay_halvings(&d, &half_life), 4 - log2(0.9), 1e-15));
    ck_assert(d.n_changes == 2 && d.last_change == 12);
}
END_TEST

START_TEST(a_snapshot_keeps_every_field_and_damage_is_refused)
{
    struct kb_decay d = {1.25, 7, -3, 12, true, 2, 40}, copy;
    struct kb_decay bad[3] = {d, d, d};
    bad[0].base = -1;
    bad[1].base = (double)NAN;
    bad[2].last_ms = -4;
    for (size_t i = 0; i < 4; i++) {
        struct kb_writer w;
        struct kb_reader r;
        kb_writer_init(&w);
        kb_decay_save(i < 3 ? &bad[i] : &d, &w);
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_decay_load(&copy, &r), i < 3 ? KB_ECORRUPT : KB_OK);
        kb_reader_init(&r, w.data, w.n - 1);
        ck_assert_int_ne(kb_decay_load(&copy, &r), KB_OK);
        kb_writer_close(&w);
        if (i < 3)
            ck_assert_uint_ne(kb_decay_digest(&bad[i], 1), kb_decay_digest(&d, 1));
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("decay", a_discount_counts_events_and_the_first_forgets_nothing,
                   a_half_life_counts_time_and_waits_for_a_clock_that_was_set_back,
                   another_setting_counts_from_its_first_event, without_forgetting_nothing_is_counted,
                   units_lie_on_a_grid_just_below, settings_differ_by_what_their_type_reads,
                   a_change_is_halvings_at_once_under_any_setting, a_snapshot_keeps_every_field_and_damage_is_refused);
}
