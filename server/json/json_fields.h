/* The configuration's fields as a table that json_settings.c reads by and json_out_settings.c writes by.
 * Private to those two. Adding a field is adding it to schema/settings.schema.json, and a row in json_fields.c. */
#ifndef LD_JSON_FIELDS_H
#define LD_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "types/settings.h"
#include "json/rules.h"

/* How a value is spelled in JSON and what it becomes in the struct. */
enum ld_field_kind {
    LD_ALGORITHM,      /* read before all others */
    LD_DIMENSION,      /* uint32_t; read before all others */
    LD_NUMBER,         /* double */
    LD_SIZE,           /* size_t */
    LD_DEGREE,         /* int */
    LD_SEED,           /* uint64_t */
    LD_FLAG,           /* bool */
    LD_CHOICE,         /* enum, by names */
    LD_LENGTHSCALE,    /* a number or "median"; the row gives the kernel's offset */
    LD_OR_AUTO,        /* a number or "auto" (0) */
    LD_OR_MEDIAN,      /* a number or "median" (0) */
    LD_WINDOW,         /* seconds <-> int64_t milliseconds */
    LD_DEFAULT_REWARD, /* number or null */
    LD_PENDING,        /* "ignore" */
    LD_DURABILITY,     /* "commit" or "relaxed" */
    LD_SIZE_OR_NULL,   /* size_t, or null (0) */
    LD_AGE_OR_NULL,    /* seconds <-> int64_t milliseconds, or null (0) */
    LD_NAME_OR_NULL,   /* char[LD_CHALLENGER_NAME_BYTES], or null ("") */
    LD_CHALLENGERS,    /* objects by their names; read behind all others, on whose values they rest */
    LD_ROUTING         /* an object of its own (json_routing.c) */
};

/* Names of an enum. */
struct ld_choice {
    const char *(*name)(int type);
    int (*from_name)(const char *name);
};

/* One field of the configuration: where it stands in JSON, by which rule of the schema it is judged, and where it is in
 * struct ld_settings (offset). choice is set for LD_CHOICE alone. */
struct ld_field {
    const char *group; /* "" = the configuration itself */
    const struct ld_rules *rules;
    size_t at; /* index among the group's rules */
    enum ld_field_kind kind;
    size_t offset;
    const struct ld_choice *choice;
};

extern const struct ld_field ld_fields[];
extern const size_t ld_n_fields;

/* Name and limits. */
const struct ld_rule *ld_field_rule(const struct ld_field *f);

/* The row of a group's member, or NULL: the member is a group itself. */
const struct ld_field *ld_field_find(const char *group, size_t at);
/* A group's rules. */
const struct ld_rules *ld_field_rules(const char *group);

#endif
