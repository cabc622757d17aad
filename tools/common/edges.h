/* Edge lists: CSV `u,v[,w]` with or without a header row, one edge at a time.
 *
 * Used for graphs (graph put), networks (network.c) and likes, which are edges from users to arms (likes.c).
 * Checks of the row are done here; what the graph as a whole must satisfy is left to the caller. */
#ifndef LC_EDGES_H
#define LC_EDGES_H

#include "common/csv.h"

enum lc_header { LC_HEADER_AUTO, LC_HEADER_YES, LC_HEADER_NO };

/* "auto", "yes", "no" -> enum; -1 for others. */
int lc_header_from_name(const char *name);

struct lc_edge_reader {
    struct lc_csv csv;
    enum lc_header header;
    bool is_likes;    /* rows are user,arm[,count]: counts of 0 and below pass, and faults speak of likes */
    size_t n_edges;   /* given out so far */
    size_t n_columns; /* of the first edge; every row must have as many */
    char *first[3];   /* first row, held back until the second is seen */
    size_t n_first, first_line;
    enum { LC_EDGES_START, LC_EDGES_SECOND, LC_EDGES_REST } state;
    int second; /* what lc_csv_next said about the second row */
};

struct lc_edge_row {
    const char *u, *v; /* valid until the next row */
    double weight;     /* 1 when the file has no third column */
};

/* Opening an edge list reads nothing yet but a byte order mark. */
int lc_edges_open(struct lc_edge_reader *r, const char *path, enum lc_header header); /* 0 or -1, r->csv.why */
void lc_edges_close(struct lc_edge_reader *r);

/* 1, 0 at the end, -1 with r->csv.why = "file:line: ...". */
int lc_edges_next(struct lc_edge_reader *r, struct lc_edge_row *out);

#endif
