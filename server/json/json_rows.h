/* Objects of JSON as tables: a row says how a member is spelled and where it stands in a struct, and the same row reads
 * and writes it. The rows of a body stand beside the rules of its schema. Private to server/json/json_*.c. */
#ifndef LD_JSON_ROWS_H
#define LD_JSON_ROWS_H

#include "base/words.h"
#include "json/json_util.h"

enum ld_row_kind {
    LD_ROW_IGNORED,     /* may stand there, is not looked at and never written */
    LD_ROW_TEXT,        /* const char *, borrowed from the document */
    LD_ROW_REAL,        /* double */
    LD_ROW_COUNT,       /* uint64_t, size_t */
    LD_ROW_NUMBER,      /* uint32_t */
    LD_ROW_FLAG,        /* bool */
    LD_ROW_TIME,        /* int64_t of milliseconds, in the log's one spelling */
    LD_ROW_WORD,        /* an enum; `of` are its words (struct kb_words) */
    LD_ROW_CHOICE,      /* an enum, whose values are the places of the rule's choices */
    LD_ROW_VECTOR,      /* const double *, as many as `dim` says; null or [] where there are none */
    LD_ROW_TEXTS,       /* const char *const *, and their number */
    LD_ROW_LIST,        /* const struct *, and their number; `of`: struct ld_list */
    LD_ROW_COLUMN,      /* an array, and its number of items; `of`: a row of one item */
    LD_ROW_OBJECT,      /* a struct, or members of the same one (at 0); `of`: struct ld_rows */
    LD_ROW_ELIGIBILITY, /* const struct kb_eligibility * */
    LD_ROW_VALUE,       /* const char *, JSON text of a value that is kept as it is (json_flag_value.c) */
    LD_ROW_SETTINGS,    /* const struct kb_spec *, of the settings that it is the first member of */
    LD_ROW_OWN          /* read by `own` */
};

/* A member must be there and is always written, but for these. */
enum {
    LD_ROW_OPTIONAL = 1, /* it is left out where it says nothing: NULL, NaN, 0, false, an empty list */
    LD_ROW_YOUNG = 2,    /* it is always written, and older lines lack it */
    LD_ROW_HAS = 4,      /* a bool at `more` says whether it is there */
    LD_ROW_OR_NULL = 8,  /* a vector of no numbers is null */
    LD_ROW_OR_ZERO = 16, /* a real that is not there is 0 and not NaN */
    LD_ROW_SETS_N = 32,  /* the first of the columns, which have one length */
    LD_ROW_EARLY = 64,   /* its faults are told before those of the other members, */
    LD_ROW_LATE = 128    /* or behind them */
};

struct ld_row {
    const char *key;
    enum ld_row_kind kind;
    unsigned how;
    size_t at, more;            /* more: where the number of items stands, or the flag */
    const struct ld_rule *rule; /* of a line; a body has its schema's */
    const void *of;
    enum ld_dim dim;
    void (*own)(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base);
};

struct ld_rows {
    const struct ld_row *row;
    size_t n;
};

struct ld_list {
    struct ld_rows rows;
    size_t size; /* of an item */
    /* Tuples are items without names, in the order of the rows. Of a short list an item whose second member says
     * nothing is its first alone. */
    enum { LD_LIST_OBJECTS, LD_LIST_SHORT, LD_LIST_TUPLES } shape;
    bool is_set; /* an item's first member, a text, stands once */
    void (*read_item)(struct ld_in *in, const struct ld_value *v, void *item); /* in place of the rows, or NULL */
};

#define LD_ROWS(name)                                                                                                  \
    {                                                                                                                  \
        name, sizeof name / sizeof *name                                                                               \
    }

/* Where vectors get their lengths from, and a configuration its whole. */
struct ld_out {
    struct ld_text *t;
    uint32_t dim[LD_N_DIMS];
    const struct ld_settings *settings;
};

/* Fills the struct from an object: tells of members that no row has, then of what is wrong with the others. *base was
 * zeroed. */
void ld_in_rows(struct ld_in *in, const struct ld_value *v, const struct ld_rows *rows, void *base);
/* The same of an object of a body, member by member in the order of its text (ld_in_members). False: it is no object.
 */
bool ld_in_body(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules, const struct ld_row *row,
                void *base);
/* A body that is one object. 0, or -1 with the faults in p. */
int ld_decode_body(struct ld_doc *doc, const struct ld_rules *rules, const struct ld_row *row, void *base,
                   struct ld_problem *p);

/* The items of an array, in the document's memory, each of list->size bytes that were zeroed; and their number. Not
 * NULL where there are none: a list that is there is not one that is not. O(n). */
const void *ld_in_items(struct ld_in *in, const struct ld_list *list, const struct ld_value *array, size_t *n);

/* Bytes of a value that is no pointer. */
size_t ld_row_size(enum ld_row_kind kind);

/* The members of the rows from..to - 1, without braces. */
void ld_text_rows(const struct ld_out *out, const struct ld_rows *rows, size_t from, size_t to, const void *base);

/* Lists that bodies and log lines share (json_graph.c). */
extern const struct ld_list ld_edges_list, ld_pairs_list, ld_arms_list;

#endif
