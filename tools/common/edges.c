/* Edge lists, as `laplacectl graph put` and the demo read them.
 *
 * Is the first row a header? When it was not said (--header yes|no):
 *   three columns   yes when the third is not a number
 *   two columns     yes when the names are customary ones (u, source, node_1, ...), or when the second row holds
 *                   two numbers and the first row holds none
 * so a list of numeric ids with a header, and a list of named users without one, are both read right; the one
 * undecidable case (named users, named and unusual header) needs the option.
 *
 * Weights must be positive and finite here already, since the server would refuse the whole upload for one of them.
 *
 * No state beyond two rows: memory does not grow with the file. */
#include "common/edges.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Order of names = order of enum lc_header. */
int lc_header_from_name(const char *name)
{
    static const char *const names[] = {"auto", "yes", "no"};
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Column names of the public data sets we have met; compared without case. Both first names must be in this list, so
 * one user called "u" is no header. */
static bool is_customary(const char *name)
{
    static const char *const names[] = {"u",       "v",      "source",    "target",   "src",     "dst",    "from",
                                        "to",      "node",   "node_1",    "node_2",   "node1",   "node2",  "user",
                                        "user_1",  "user_2", "user1",     "user2",    "user_id", "id_1",   "id_2",
                                        "userid",  "friend", "friend_id", "friendid", "arm",     "arm_id", "item",
                                        "item_id", "itemid", "artist",    "artistid", "genre"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

int lc_edges_open(struct lc_edge_reader *r, const char *path, enum lc_header header)
{
    memset(r, 0, sizeof *r);
    r->header = header;
    return lc_csv_open(&r->csv, path);
}

void lc_edges_close(struct lc_edge_reader *r)
{
    for (size_t i = 0; i < 3; i++) {
        free(r->first[i]);
        r->first[i] = NULL;
    }
    lc_csv_close(&r->csv);
}

/* --- one row ---------------------------------------------------------------------------------------- */

/* A file with two and three columns mixed is more likely broken than meant. */
static int check_columns(struct lc_edge_reader *r)
{
    size_t n = r->csv.n_fields;
    if (n < 2 || n > 3)
        return lc_csv_fail(&r->csv, "%zu column%s: %s", n, n == 1 ? "" : "s",
                           r->is_likes ? "a like is user,arm or user,arm,count" : "an edge is u,v or u,v,weight");
    if (r->n_columns != 0 && n != r->n_columns)
        return lc_csv_fail(&r->csv, "%zu columns where the rows before have %zu", n, r->n_columns);
    r->n_columns = n;
    return 0;
}

/* The current row of the CSV as an edge: 1, or -1 with why. u and v borrow from the row. Loops and repeats pass. */
static int to_edge(struct lc_edge_reader *r, struct lc_edge_row *out)
{
    if (check_columns(r) != 0)
        return -1;
    out->u = r->csv.fields[0];
    out->v = r->csv.fields[1];
    out->weight = 1.0;
    if (*out->u == '\0' || *out->v == '\0')
        return lc_csv_fail(&r->csv, "an empty %s id", r->is_likes && *out->u != '\0' ? "arm" : "user");
    if (r->n_columns == 3) {
        if (!lc_csv_number(&r->csv, 2, &out->weight))
            return lc_csv_fail(&r->csv, "%s \"%.40s\": expected a finite number", r->is_likes ? "count" : "weight",
                               r->csv.fields[2]);
        if (!(out->weight > 0.0) && !r->is_likes)
            return lc_csv_fail(&r->csv, "weight %s: a weight is greater than 0", r->csv.fields[2]);
    }
    r->n_edges++;
    return 1;
}

/* --- the header ------------------------------------------------------------------------------------- */

static void keep_first(struct lc_edge_reader *r)
{
    r->n_first = r->csv.n_fields < 3 ? r->csv.n_fields : 3;
    r->first_line = r->csv.line;
    for (size_t i = 0; i < r->n_first; i++)
        r->first[i] = lc_copy(r->csv.fields[i]);
}

/* The rules of the file header, in their order. The second row stands in csv.fields when this is asked. */
static bool first_is_header(const struct lc_edge_reader *r)
{
    if (r->header != LC_HEADER_AUTO)
        return r->header == LC_HEADER_YES;
    if (r->n_first == 3)
        return !lc_is_number(r->first[2]);
    if (is_customary(r->first[0]) && is_customary(r->first[1]))
        return true;
    return r->second == 1 && r->csv.n_fields >= 2 && lc_is_number(r->csv.fields[0]) && lc_is_number(r->csv.fields[1]) &&
           !lc_is_number(r->first[0]) && !lc_is_number(r->first[1]);
}

/* The held row stands in the place of the current one for the time of the check: errors name its own line. */
static int first_edge(struct lc_edge_reader *r, struct lc_edge_row *out)
{
    const char *held[3] = {r->first[0], r->first[1], r->first[2]};
    const char **fields = r->csv.fields;
    size_t n = r->csv.n_fields, line = r->csv.line;
    r->csv.fields = held;
    r->csv.n_fields = r->n_first;
    r->csv.line = r->first_line;
    int rc = to_edge(r, out);
    r->csv.fields = fields;
    r->csv.n_fields = n;
    r->csv.line = line;
    return rc;
}

/* Reads two rows to judge the first. 1: *out is the first row; 0: go on with the second; -1. */
static int start(struct lc_edge_reader *r, struct lc_edge_row *out)
{
    int rc = lc_csv_next(&r->csv);
    r->state = LC_EDGES_SECOND;
    if (rc <= 0) {
        r->second = rc;
        return rc;
    }
    if (r->csv.n_fields < 2 || r->csv.n_fields > 3)
        return check_columns(r);
    keep_first(r);
    r->second = lc_csv_next(&r->csv);
    if (r->second < 0)
        return -1;
    return first_is_header(r) ? 0 : first_edge(r, out);
}

/* Three states: both first rows are read at once, then given out one by one, then all others. */
int lc_edges_next(struct lc_edge_reader *r, struct lc_edge_row *out)
{
    int rc;
    if (r->state == LC_EDGES_START) {
        rc = start(r, out);
        if (rc != 0)
            return rc;
    }
    if (r->state == LC_EDGES_SECOND) {
        /* the second row was read together with the first */
        r->state = LC_EDGES_REST;
        return r->second == 1 ? to_edge(r, out) : r->second;
    }
    rc = lc_csv_next(&r->csv);
    return rc == 1 ? to_edge(r, out) : rc;
}
