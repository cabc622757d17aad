/* The configuration's fields as a table that json_settings.c reads by and json_out_settings.c writes by.
 * Private to those two. Adding a field is adding a row in json_fields.c. */
#ifndef LD_JSON_FIELDS_H
#define LD_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "json_in.h"

/* How a value is spelled in JSON and what it becomes in the struct. */
enum ld_field_kind {
    LD_ALGORITHM,      /* read before all others */
    LD_DIMENSION,      /* uint32_t; read before all others */
    LD_NUMBER,         /* double in the row's interval */
    LD_SIZE,           /* size_t in [lo, hi] */
    LD_DEGREE,         /* int in [lo, hi] */
    LD_SEED,           /* uint64_t below 2^53 */
    LD_FLAG,           /* bool */
    LD_CHOICE,         /* enum, by names */
    LD_LENGTHSCALE,    /* a number or "median"; the row gives the kernel's offset */
    LD_OR_AUTO,        /* a number or "auto" (0) */
    LD_OR_MEDIAN,      /* a number or "median" (0) */
    LD_WINDOW,         /* seconds <-> int64_t milliseconds */
    LD_DEFAULT_REWARD, /* number or null */
    LD_PENDING,        /* "ignore" */
    LD_DURABILITY,     /* "commit" or "relaxed" */
    LD_SIZE_OR_NULL,   /* size_t in [lo, hi], or null (0) */
    LD_AGE_OR_NULL     /* seconds <-> int64_t milliseconds, or null (0) */
};

/* Names of an enum. */
struct ld_choice {
    const char *(*name)(int type);
    int (*from_name)(const char *name);
};

/* One field of the configuration: where it stands in JSON, where in struct ld_settings (offset), and what it may be.
 * lo and hi bound numbers; choice is set for LD_CHOICE alone. */
struct ld_field {
    const char *group, *key; /* group "" = the configuration itself */
    enum ld_field_kind kind;
    size_t offset;
    double lo, hi;
    bool is_open; /* the ends do not belong to the interval */
    const struct ld_choice *choice;
};

extern const struct ld_field ld_fields[];
extern const size_t ld_n_fields;

/* The row, or NULL. */
const struct ld_field *ld_field_find(const char *group, const char *key);
bool ld_field_is_group(const char *key);

#endif
