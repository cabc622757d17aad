/* CSV and edge lists: fields as written, faults with file and line, headers noticed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/edges.h"
#include "kbt.h"

/* Reads all rows of `text` and joins fields by '|' and rows by '/'; an error ends it as "!why". */
static const char *rows_of(const char *text, size_t n)
{
    static char out[65536];
    struct lc_csv csv;
    size_t used = 0;
    int rc;
    FILE *f = fmemopen((void *)(uintptr_t)text, n > 0 ? n : 1, "r");
    if (n == 0)
        getc(f);
    lc_csv_open_stream(&csv, f, "t.csv");
    out[0] = '\0';
    while ((rc = lc_csv_next(&csv)) == 1)
        for (size_t i = 0; i < csv.n_fields; i++)
            used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", csv.fields[i],
                                     i + 1 < csv.n_fields ? "|" : "/");
    if (rc < 0)
        snprintf(out + used, sizeof out - used, "!%s", csv.why);
    lc_csv_close(&csv);
    fclose(f);
    return out;
}

static void assert_rows(const char *text, const char *want)
{
    ck_assert_str_eq(rows_of(text, strlen(text)), want);
}

START_TEST(plain_rows_are_split)
{
    assert_rows("a,b\nc,d\n", "a|b/c|d/");
    assert_rows("a,b\r\nc,d", "a|b/c|d/");
    assert_rows("a,,c\n,\n", "a||c/|/");
    assert_rows("one\n", "one/");
    assert_rows("", "");
}
END_TEST

START_TEST(the_first_separator_holds_for_the_file)
{
    assert_rows("a;b,c\nd;e\n", "a|b,c/d|e/");
    assert_rows("a\tb;c\n", "a|b;c/");
    assert_rows("\"x;y\",b;c\n", "x;y|b;c/");
}
END_TEST

START_TEST(quotes_hold_separators_breaks_and_quotes)
{
    assert_rows("\"a,b\",c\n", "a,b|c/");
    assert_rows("\"say \"\"hi\"\"\",2\n", "say \"hi\"|2/");
    assert_rows("\"two\nlines\",x\ny,z\n", "two\nlines|x/y|z/");
    assert_rows("\"\",\"\"\n", "|/");
    assert_rows("\"a\" ,b\n", "a|b/");
}
END_TEST

START_TEST(blanks_and_comments_are_skipped)
{
    assert_rows("# head\n\n  \na,b\n#x,y\nc,d\n\n", "a|b/c|d/");
    assert_rows("  a , b  \n", "a|b/");
}
END_TEST

START_TEST(a_byte_order_mark_is_no_data)
{
    assert_rows("\xEF\xBB\xBF"
                "a,b\n",
                "a|b/");
    assert_rows("\xEF\xBB"
                "x,b\n",
                "\xEF\xBB"
                "x|b/");
    assert_rows("\xEF\xBC\x83,b\n", "\xEF\xBC\x83|b/");
}
END_TEST

START_TEST(faults_name_the_line)
{
    assert_rows("a,b\n\"c,d\n", "a|b/!t.csv:2: a quote is not closed");
    assert_rows("a\n\"x\"y,z\n", "a/!t.csv:2: text after a closing quote");
    ck_assert_str_eq(rows_of("a\nb\0c\n", 6), "a/!t.csv:2: a NUL byte: this is no text file");
    assert_rows("\"1\n2\n3\",x\n\"", "1\n2\n3|x/!t.csv:4: a quote is not closed");
}
END_TEST

START_TEST(a_field_without_end_is_refused_before_memory_runs_out)
{
    struct lc_csv csv;
    size_t n = 3u << 20;
    char *text = malloc(n);
    memset(text, 'x', n);
    text[0] = '"';
    FILE *f = fmemopen(text, n, "r");
    lc_csv_open_stream(&csv, f, "big.csv");
    ck_assert_int_eq(lc_csv_next(&csv), -1);
    ck_assert_ptr_nonnull(strstr(csv.why, "big.csv:1: a field of more than 1 MiB"));
    lc_csv_close(&csv);
    fclose(f);
    free(text);
}
END_TEST

START_TEST(numbers_are_whole_fields_and_finite)
{
    ck_assert(lc_is_number("1") && lc_is_number("-2.5e-3") && lc_is_number("0x10"));
    ck_assert(!lc_is_number("") && !lc_is_number("1a") && !lc_is_number("nan") && !lc_is_number("1e999") &&
              !lc_is_number("inf") && !lc_is_number("1 "));
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    struct lc_csv csv;
    ck_assert_int_eq(lc_csv_open(&csv, "/no/such/file.csv"), -1);
    ck_assert_ptr_nonnull(strstr(csv.why, "/no/such/file.csv: No such file"));
    lc_csv_close(&csv);
}
END_TEST

/* --- edges -------------------------------------------------------------------------------------------- */

/* All edges of `text` as "u-v:w " and, after a fault, "!why". */
static const char *edges_of(const char *text, enum lc_header header)
{
    static char out[4096];
    char path[] = "/tmp/lc-edges-XXXXXX";
    struct lc_edge_reader r;
    struct lc_edge_row row;
    size_t used = 0;
    int rc, fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    out[0] = '\0';
    ck_assert_int_eq(lc_edges_open(&r, path, header), 0);
    r.csv.path = "e.csv";
    while ((rc = lc_edges_next(&r, &row)) == 1)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s-%s:%g ", row.u, row.v, row.weight);
    if (rc < 0)
        snprintf(out + used, sizeof out - used, "!%s", r.csv.why);
    lc_edges_close(&r);
    remove(path);
    return out;
}

START_TEST(headers_are_noticed)
{
    ck_assert_str_eq(edges_of("u,v,weight\n1,2,3\n", LC_HEADER_AUTO), "1-2:3 ");
    ck_assert_str_eq(edges_of("node_1,node_2\nann,bob\n", LC_HEADER_AUTO), "ann-bob:1 ");
    ck_assert_str_eq(edges_of("left,right\n1,2\n3,4\n", LC_HEADER_AUTO), "1-2:1 3-4:1 ");
}
END_TEST

START_TEST(first_edges_are_not_taken_for_headers)
{
    ck_assert_str_eq(edges_of("ann,bob\nbob,cat\n", LC_HEADER_AUTO), "ann-bob:1 bob-cat:1 ");
    ck_assert_str_eq(edges_of("ann,bob,2\nbob,cat,1\n", LC_HEADER_AUTO), "ann-bob:2 bob-cat:1 ");
    ck_assert_str_eq(edges_of("1,2\n3,4\n", LC_HEADER_AUTO), "1-2:1 3-4:1 ");
    ck_assert_str_eq(edges_of("ann,bob\n", LC_HEADER_AUTO), "ann-bob:1 ");
    ck_assert_str_eq(edges_of("", LC_HEADER_AUTO), "");
}
END_TEST

START_TEST(a_header_can_be_said_or_denied)
{
    ck_assert_str_eq(edges_of("links,rechts\nann,bob\n", LC_HEADER_YES), "ann-bob:1 ");
    ck_assert_str_eq(edges_of("user,item\nann,bob\n", LC_HEADER_NO), "user-item:1 ann-bob:1 ");
    ck_assert_int_eq(lc_header_from_name("maybe"), -1);
}
END_TEST

START_TEST(bad_edges_name_their_row)
{
    ck_assert_str_eq(edges_of("a,b,1\nb,c,-2\n", LC_HEADER_AUTO),
                     "a-b:1 !e.csv:2: weight -2: a weight is greater than 0");
    ck_assert_str_eq(edges_of("a,b,1\nb,c,x\n", LC_HEADER_AUTO),
                     "a-b:1 !e.csv:2: weight \"x\": expected a finite number");
    ck_assert_str_eq(edges_of("a,b\nb,c\nc\n", LC_HEADER_AUTO),
                     "a-b:1 b-c:1 !e.csv:3: 1 column: an edge is u,v or u,v,weight");
    ck_assert_str_eq(edges_of("a,b\nb,c,1\n", LC_HEADER_AUTO),
                     "a-b:1 !e.csv:2: 3 columns where the rows before have 2");
    ck_assert_str_eq(edges_of("a,b\n,c\n", LC_HEADER_AUTO), "a-b:1 !e.csv:2: an empty user id");
    ck_assert_str_eq(edges_of("a,b,0\nb,c,1\n", LC_HEADER_AUTO), "!e.csv:1: weight 0: a weight is greater than 0");
}
END_TEST

int main(void)
{
    return KBT_RUN("csv", plain_rows_are_split, the_first_separator_holds_for_the_file,
                   quotes_hold_separators_breaks_and_quotes, blanks_and_comments_are_skipped,
                   a_byte_order_mark_is_no_data, faults_name_the_line,
                   a_field_without_end_is_refused_before_memory_runs_out, numbers_are_whole_fields_and_finite,
                   a_missing_file_is_named) |
           KBT_RUN("edges", headers_are_noticed, first_edges_are_not_taken_for_headers, a_header_can_be_said_or_denied,
                   bad_edges_name_their_row);
}
