/* The configuration's fields in JSON: json_settings.c reads by them and json_out_settings.c writes by them, in the
 * order of schema/settings.schema.json. Those of a kb_spec are the rows of spec/fields.h; json_fields.c adds the
 * server's. */
#ifndef LD_JSON_FIELDS_H
#define LD_JSON_FIELDS_H

#include <stddef.h>

#include "base/words.h"
#include "json/rules.h"

/* How a value is spelled in JSON and what it becomes in the struct. */
enum ld_field_kind {
    LD_GROUP,          /* no field: an object of fields */
    LD_ALGORITHM,      /* read before all others */
    LD_DIMENSION,      /* uint32_t; read before all others */
    LD_NUMBER,         /* double */
    LD_SIZE,           /* size_t */
    LD_DEGREE,         /* int */
    LD_SEED,           /* uint64_t */
    LD_FLAG,           /* bool */
    LD_CHOICE,         /* enum, by its words */
    LD_LENGTHSCALE,    /* a number, or "median" (the flag) */
    LD_OR_WORD,        /* a number, or the rule's word (0): "auto", "median" */
    LD_WINDOW,         /* seconds <-> int64_t milliseconds */
    LD_DEFAULT_REWARD, /* a number (and the flag), or null */
    LD_EITHER,         /* the second of two words is true */
    LD_SIZE_OR_NULL,   /* size_t, or null (0) */
    LD_AGE_OR_NULL,    /* seconds <-> int64_t milliseconds, or null (0) */
    LD_NAME_OR_NULL,   /* char[LD_CHALLENGER_NAME_BYTES], or null ("") */
    LD_CHALLENGERS,    /* objects by their names; read behind all others, on whose values they rest */
    LD_ROUTING,        /* an object of its own (json_routing.c) */
    LD_EXPERIMENT,     /* likewise (json_experiment.c), or null */
    LD_RANGE_OR_NULL,  /* two doubles, the first below the second (and the flag), or null */
    LD_WEIGHTS,        /* struct kb_split: numbers by the ids of arms (json_split.c) */
    LD_METRICS,        /* a list of objects (json_metric.c) */
    LD_FEATURES        /* an object (json_features.c), or null */
};

/* A field by the rule of the schema that judges it, and where it is in struct ld_settings. */
struct ld_field {
    enum ld_field_kind kind;
    const struct ld_rule *rule;
    size_t offset, flag;
    const struct kb_words *words; /* of a LD_CHOICE */
    unsigned learned;             /* its bit in kb_spec.learned, where the word "learned" may stand; 0: never */
};

/* A member of a group ("": the configuration, or a challenger) by its rule. */
struct ld_field ld_field_find(const char *group, const struct ld_rule *rule);
/* A group's rules, NULL when there is no such group. */
const struct ld_rules *ld_field_rules(const char *group);

#endif
