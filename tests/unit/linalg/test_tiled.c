/* The factor in tiles, for every width of vectors that the processor has and orders that fill tiles and do not, beside
 * the factor in a square (test_chol.c) and by what it multiplies out to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "kbt.h"
#include "linalg/factor_io.h"
#include "linalg/tiled.h"

static const size_t orders[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 63, 64, 65, 130, 200};
#define N_ORDERS (sizeof orders / sizeof orders[0])

static double *s;         /* n x n */
static struct kb_chol c;  /* its factor */
static struct kb_tiled f; /* the same; nothing stands behind its array, for the sanitizer */

static void set_up(size_t n, uint64_t key)
{
    s = kbt_array(n * n + 1);
    kbt_random_spd(n, key, 0.5, s);
    kb_chol_init(&c);
    ck_assert_int_eq(kb_chol_factor(&c, s, n, n), KB_OK);
    f.t = malloc(kb_tiled_doubles(n) * sizeof *f.t);
    memset(f.t, 0xff, kb_tiled_doubles(n) * sizeof *f.t); /* not numbers */
    f.n = 0;
}

static void close_all(void)
{
    kb_chol_close(&c);
    free(f.t);
    free(s);
}

static double entry(const struct kb_chol *l, size_t i, size_t j)
{
    return l->l[j * l->cap + i];
}

/* The largest distance of L L^T from s. */
static double distance_of(const struct kb_tiled *of, size_t n)
{
    struct kb_chol l;
    double most = 0;
    kb_chol_init(&l);
    ck_assert_int_eq(kb_chol_reserve(&l, n + 1), KB_OK);
    kb_tiled_unpack(of, &l);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k <= j; k++)
                sum += entry(&l, i, k) * entry(&l, j, k);
            most = fmax(most, fabs(sum - s[j * n + i]));
        }
    kb_chol_close(&l);
    return most;
}

START_TEST(what_is_packed_is_unpacked)
{
    for (size_t o = 0; o < N_ORDERS; o++) {
        const size_t n = orders[o];
        struct kb_chol back;
        set_up(n, 1 + o);
        kb_tiled_pack(&f, &c);
        ck_assert(kb_tiled_is_sound(&f));
        kb_chol_init(&back);
        ck_assert_int_eq(kb_chol_reserve(&back, n + 1), KB_OK);
        kb_tiled_unpack(&f, &back);
        ck_assert_uint_eq(back.n, n);
        for (size_t i = 0; i < n; i++) {
            ck_assert_double_eq(kb_tiled_pivot(&f, i), entry(&c, i, i));
            for (size_t j = 0; j <= i; j++)
                ck_assert_double_eq(entry(&back, i, j), entry(&c, i, j));
        }
        kb_chol_close(&back);
        close_all();
    }
}
END_TEST

/* Row by row, into memory that held no numbers: bit by bit what packing makes of the same factor. */
START_TEST(rows_that_are_appended_stand_where_packing_puts_them)
{
    for (size_t o = 0; o < N_ORDERS; o++) {
        const size_t n = orders[o];
        double *row = kbt_array(n + 1), *grown;
        set_up(n, 30 + o);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < i; j++)
                row[j] = entry(&c, i, j);
            kb_tiled_append_row(&f, row, entry(&c, i, i));
            ck_assert(kb_tiled_is_sound(&f));
        }
        grown = f.t;
        f.t = kbt_array(kb_tiled_doubles(n) + 1);
        kb_tiled_pack(&f, &c);
        ck_assert_mem_eq(grown, f.t, kb_tiled_doubles(n) * sizeof *grown);
        free(grown);
        free(row);
        close_all();
    }
}
END_TEST

/* Entry by entry |L x - b| <= n eps |L||x|, as substitution has it, also where some pivots are small. */
START_TEST(what_a_solve_leaves_over_is_rounding)
{
    for (size_t o = 0; o < N_ORDERS; o++)
        for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
            const size_t n = orders[o];
            double *b = kbt_array(n + 1), *x = kbt_array(kb_tiled_padded(n) + 1);
            set_up(n, 60 + o);
            for (size_t i = 3; i < n; i += 11)
                c.l[i * (c.cap + 1)] *= 1e-5;
            kb_tiled_pack(&f, &c);
            kbt_random_normal(n, 7, b);
            memcpy(x, b, n * sizeof *x);
            x[kb_tiled_padded(n)] = 12;
            kb_tiled_solve(lanes, &f, x);
            ck_assert_double_eq(x[kb_tiled_padded(n)], 12);
            for (size_t i = 0; i < n; i++) {
                long double rest = b[i], size = fabsl(rest);
                for (size_t j = 0; j <= i; j++) {
                    rest -= (long double)entry(&c, i, j) * x[j];
                    size += fabsl((long double)entry(&c, i, j) * x[j]);
                }
                if (!(fabsl(rest) <= (long double)(i + 5) * 0x1p-53L * size))
                    ck_abort_msg("order %zu, row %zu: %Lg is left over, of %Lg", n, i, rest, size);
            }
            free(b);
            free(x);
            close_all();
        }
}
END_TEST

START_TEST(a_transposed_solve_is_that_of_the_square)
{
    for (size_t o = 0; o < N_ORDERS; o++)
        for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
            const size_t n = orders[o], room = kb_tiled_padded(n);
            set_up(n, 40 + o);
            kb_tiled_pack(&f, &c);
            double *x = kbt_array(room + 1), *y = kbt_array(n + 1);
            kbt_random_normal(n, 7, x);
            memcpy(y, x, n * sizeof *x);
            for (size_t i = n; i < room; i++)
                x[i] = (double)NAN; /* what is there is not read */
            x[room] = 3;            /* stays */
            kb_tiled_solve_t(lanes, &f, x);
            kb_chol_solve_lt(&c, y);
            for (size_t i = 0; i < n; i++)
                ck_assert(kbt_close(x[i], y[i], 1e-11));
            ck_assert_double_eq(x[room], 3);
            free(x);
            free(y);
            close_all();
        }
}
END_TEST

START_TEST(the_sum_of_squares_is_the_trace)
{
    for (size_t o = 0; o < N_ORDERS; o++) {
        double sum = 0;
        set_up(orders[o], 60 + o);
        kb_tiled_pack(&f, &c);
        for (size_t j = 0; j < c.n; j++)
            for (size_t i = j; i < c.n; i++)
                sum += c.l[j * c.cap + i] * c.l[j * c.cap + i];
        ck_assert(kbt_close(kb_tiled_square(&f), sum, 1e-12));
        close_all();
    }
}
END_TEST

/* x of all magnitudes that leave S - x x^T definite, from every place within a tile and behind it. */
START_TEST(a_downdate_is_the_factor_of_the_changed_matrix)
{
    for (size_t o = 1; o < N_ORDERS; o++)
        for (size_t first = 0; first < orders[o]; first += first < 18 ? 1 : 29)
            for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
                const size_t n = orders[o], room = kb_tiled_padded(n);
                double *x = kbt_array(room), *work = kbt_array(2 * room);
                set_up(n, 90 + o);
                kb_tiled_pack(&f, &c);
                kbt_random_normal(n, 8 + first, x);
                for (size_t i = 0; i < n; i++)
                    x[i] = i < first ? 0 : x[i] * 0.3 / sqrt((double)n);
                for (size_t j = 0; j < n; j++)
                    for (size_t i = 0; i < n; i++)
                        s[j * n + i] -= x[i] * x[j];
                ck_assert_int_eq(kb_tiled_downdate(lanes, &f, x, first, work), KB_OK);
                ck_assert(kb_tiled_is_sound(&f));
                ck_assert_double_lt(distance_of(&f, n), 1e-12);
                free(x);
                free(work);
                close_all();
            }
}
END_TEST

START_TEST(a_downdate_beyond_definiteness_is_refused_and_changes_nothing)
{
    const size_t n = 65, bytes = kb_tiled_doubles(n) * sizeof(double);
    double x[72] = {0}, work[144], *before = kbt_array(kb_tiled_doubles(n));
    set_up(n, 200);
    kb_tiled_pack(&f, &c);
    memcpy(before, f.t, bytes);
    x[3] = 1.0001 * sqrt(s[3 * n + 3]);
    ck_assert_int_eq(kb_tiled_downdate(kb_widest_lanes(), &f, x, 3, work), KB_ENOTPD);
    memset(x, 0, sizeof x);
    x[3] = NAN;
    ck_assert_int_eq(kb_tiled_downdate(kb_widest_lanes(), &f, x, 0, work), KB_ENOTPD);
    ck_assert_mem_eq(before, f.t, bytes);
    free(before);
    close_all();
}
END_TEST

START_TEST(four_and_eight_lanes_have_the_same_bits)
{
    for (size_t o = 1; o < N_ORDERS && kb_widest_lanes() >= KB_LANES_8; o++) {
        const size_t n = orders[o], room = kb_tiled_padded(n);
        double *x = kbt_array(2 * room), *work = kbt_array(2 * room), *four = kbt_array(kb_tiled_doubles(n));
        set_up(n, 300 + o);
        for (enum kb_lanes lanes = KB_LANES_4; lanes <= KB_LANES_8; lanes++) {
            kb_tiled_pack(&f, &c);
            kbt_random_normal(n, 9, x + room * (lanes == KB_LANES_8));
            kb_tiled_solve(lanes, &f, x + room * (lanes == KB_LANES_8));
            double *change = kbt_array(room);
            change[n / 3] = 0.3;
            ck_assert_int_eq(kb_tiled_downdate(lanes, &f, change, n / 3, work), KB_OK);
            if (lanes == KB_LANES_4)
                memcpy(four, f.t, kb_tiled_doubles(n) * sizeof *four);
            free(change);
        }
        ck_assert_mem_eq(x, x + room, n * sizeof *x);
        ck_assert_mem_eq(four, f.t, kb_tiled_doubles(n) * sizeof *four);
        free(x);
        free(work);
        free(four);
        close_all();
    }
}
END_TEST

/* What is read back is the same; each array that cannot be a factor's is refused, whatever place says so. */
START_TEST(a_file_gives_the_factor_back_or_is_refused)
{
    const size_t n = 19, bytes = kb_tiled_doubles(n) * sizeof(double);
    double *back = kbt_array(kb_tiled_doubles(n));
    set_up(n, 400);
    kb_tiled_pack(&f, &c);
    for (size_t at = 0; at <= kb_tiled_doubles(n); at++) {
        struct kb_writer w;
        struct kb_reader r;
        struct kb_tiled read = {back, 0};
        const double kept = at < kb_tiled_doubles(n) ? f.t[at] : 0;
        if (at < kb_tiled_doubles(n))
            f.t[at] = kept != 0 ? NAN : 1;
        kb_writer_init(&w);
        kb_tiled_save(&f, &w);
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_tiled_load(&read, n, &r), at < kb_tiled_doubles(n) ? KB_ECORRUPT : KB_OK);
        ck_assert_uint_eq(read.n, at < kb_tiled_doubles(n) ? 0 : n);
        kb_writer_close(&w);
        if (at < kb_tiled_doubles(n))
            f.t[at] = kept;
    }
    ck_assert_mem_eq(back, f.t, bytes);
    free(back);
    close_all();
}
END_TEST

int main(void)
{
    return KBT_RUN("tiled", what_is_packed_is_unpacked, rows_that_are_appended_stand_where_packing_puts_them,
                   what_a_solve_leaves_over_is_rounding, a_transposed_solve_is_that_of_the_square,
                   the_sum_of_squares_is_the_trace, a_downdate_is_the_factor_of_the_changed_matrix,
                   a_downdate_beyond_definiteness_is_refused_and_changes_nothing,
                   four_and_eight_lanes_have_the_same_bits, a_file_gives_the_factor_back_or_is_refused);
}
