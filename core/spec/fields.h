/* The fields of a configuration as a table, one row each: what it is called, where it stands in struct kb_spec, which
 * values it takes, what it is when nobody tells it, and which models read it. Defaults, the check of ranges, the
 * digest, the comparison of models and snapshots walk it, and so does the server's JSON in both directions; so a new
 * field is a member of struct kb_spec, a row here, its line in schema/settings.schema.json, and its use.
 *
 * A row is one field of JSON. Two of them are two members of the struct: a number, and a flag in whose place JSON has
 * a word. */
#ifndef KB_FIELDS_H
#define KB_FIELDS_H

#include "base/buf.h"
#include "spec/spec.h"

enum kb_field_kind {
    KB_FIELD_TEXT,        /* char[], NUL-terminated */
    KB_FIELD_WEIGHTS,     /* struct kb_split */
    KB_FIELD_CHOICE,      /* an enum, by its names */
    KB_FIELD_FLAG,        /* bool */
    KB_FIELD_INT,         /* int */
    KB_FIELD_DIMENSION,   /* uint32_t */
    KB_FIELD_SIZE,        /* size_t */
    KB_FIELD_MS,          /* int64_t, milliseconds; JSON has seconds */
    KB_FIELD_SEED,        /* uint64_t */
    KB_FIELD_REAL,        /* double */
    KB_FIELD_LENGTHSCALE, /* double, and a flag: "median" in JSON */
    KB_FIELD_REWARD       /* double, and a flag: where it is false, null in JSON */
};

/* When kb_spec_check looks at the range: it tells the first fault that it finds. */
enum kb_field_turn { KB_TURN_TYPES, KB_TURN_COUNTS, KB_TURN_REALS, KB_TURN_LATER, KB_TURN_ROUTING, KB_TURN_N };

struct kb_field {
    const char *pointer; /* JSON pointer into a configuration */
    enum kb_field_kind kind;
    enum kb_field_turn turn;
    size_t offset, size;          /* of the member in struct kb_spec */
    size_t flag;                  /* offset of the flag of a KB_FIELD_LENGTHSCALE, KB_FIELD_REWARD */
    double usual;                 /* where neither caller nor preset tells it */
    unsigned learned;             /* its bit where it may be left to the rewards ("learned" in JSON); 0: never */
    double start;                 /* and what it is until the first refit */
    double lo, hi;                /* lo <= value <= hi; texts have none */
    bool is_open;                 /* lo < value < hi */
    bool is_late;                 /* came after digests had been written down: counts in them where it is not usual */
    bool is_book;                 /* how rewards are booked and who is routed past the policy: see kb_spec_take_books */
    const char *expected;         /* said of a value out of range; NULL: the range */
    const struct kb_words *words; /* of a choice */
    /* Which models read it: those with one of these values (bits) in the enum at this offset. */
    unsigned readers;
    size_t reader_type;
    bool is_of_scaled; /* and exact ones that have a prior (kb_spec_is_scaled) */
};

extern const struct kb_field kb_fields[];
extern const size_t kb_n_fields;

/* Types, as bits, that more than one row or check names. */
#define KB_TYPE_BIT(type) (1u << (type))
#define KB_GRAPH_KERNELS                                                                                               \
    (KB_TYPE_BIT(KB_USER_LAPLACIAN) | KB_TYPE_BIT(KB_USER_HEAT) | KB_TYPE_BIT(KB_USER_SPECTRAL_RBF))
#define KB_STATIONARY_KERNELS                                                                                          \
    (KB_TYPE_BIT(KB_VEC_RBF) | KB_TYPE_BIT(KB_VEC_MATERN12) | KB_TYPE_BIT(KB_VEC_MATERN32) |                           \
     KB_TYPE_BIT(KB_VEC_MATERN52))

/* Every field at its usual value. */
void kb_spec_init(struct kb_spec *spec);

/* Leaves the values of these bits to the rewards: each begins at its start. */
void kb_spec_learn(struct kb_spec *spec, unsigned bits);
/* Puts the usual values where these were left to the rewards. */
void kb_spec_unlearn(struct kb_spec *spec, unsigned bits);
/* Whether refits find scales of the contexts' coordinates: where the lengthscale is theirs to find, too. One that is
 * told is in the caller's units, as coordinates then are. */
bool kb_spec_finds_context_scales(const struct kb_spec *spec);
/* Whether a refit finds weights of namespaces. */
bool kb_spec_finds_spaces(const struct kb_spec *spec);
/* n: 0, or as many as the spec has (kb_scales_check). */
void kb_spec_put_scales(struct kb_spec *spec, const double *scale, size_t n);
/* What each coordinate of a context is divided by. out[KB_MOST_SPACED_DIM] gets context_dim numbers, or none: 0 is
 * returned, and contexts are as they come. */
size_t kb_spec_expand_scales(const struct kb_spec *spec, double *out);
/* Takes from `from` what `to` leaves to the rewards. */
void kb_spec_keep_learned(struct kb_spec *to, const struct kb_spec *from);

/* Whether nobody reads it and nobody has set it, and it is younger than what was written without it: such a field is
 * left out of digests and of what is written. */
bool kb_field_is_silent(const struct kb_field *f, const struct kb_spec *spec);

/* The first of this turn that is out of its range: KB_EINVAL, and *msg says which. */
enum kb_err kb_fields_check(const struct kb_spec *spec, enum kb_field_turn turn, struct kb_errmsg *msg);

/* For snapshots. What was saved by another table is KB_EVERSION; values are not checked. */
void kb_spec_save(const struct kb_spec *spec, struct kb_writer *w);
enum kb_err kb_spec_load(struct kb_spec *spec, struct kb_reader *r);

#endif
