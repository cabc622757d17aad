/* To whom, and when, an arm of the catalogue may be shown: by attributes of the request's user, and by a schedule in
 * UTC. The rules of an event are borrowed; those of the catalogue are a copy in one block, sorted, so that a question
 * costs no allocation and O(rules log values) comparisons. */
#ifndef KB_ELIGIBILITY_H
#define KB_ELIGIBILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define KB_MAX_ATTRIBUTES 32u      /* of a request */
#define KB_MAX_ATTRIBUTE_RULES 16u /* that allow, and that deny */
#define KB_MAX_RULE_VALUES 256u
#define KB_ATTRIBUTE_NAME_MAX_BYTES 64u
#define KB_ATTRIBUTE_VALUE_MAX_BYTES 256u

struct kb_attribute {
    const char *name, *value;
};

/* The attribute has one of these values. */
struct kb_attribute_rule {
    const char *name;
    const char *const *values;
    size_t n_values; /* 1 to KB_MAX_RULE_VALUES */
};

struct kb_eligibility {
    const struct kb_attribute_rule *allow; /* all of them must hold; an attribute that is not told satisfies none */
    const struct kb_attribute_rule *deny;  /* none of them may hold */
    size_t n_allow, n_deny;
    int64_t from_ms, until_ms; /* from <= now < until; INT64_MIN, INT64_MAX: open */
    uint32_t hours;            /* bit h: during hour h of the day, 0: always */
    uint32_t days;             /* bit 0: on Mondays, .., bit 6: on Sundays; 0: always */
};

/* Rules without any member filled: always eligible. */
#define KB_ELIGIBILITY_ANY ((struct kb_eligibility){.from_ms = INT64_MIN, .until_ms = INT64_MAX})

/* Whether numbers and lengths are within their bounds, and no name stands twice among those that allow or those that
 * deny. */
bool kb_eligibility_is_valid(const struct kb_eligibility *rules);

/* A sorted copy in one block that kb_free releases. KB_ENOMEM. */
enum kb_err kb_eligibility_copy(const struct kb_eligibility *rules, struct kb_eligibility **out);
size_t kb_eligibility_bytes(const struct kb_eligibility *rules); /* that such a copy takes */

/* Whether an arm with these rules (a sorted copy) may be shown to a user with these attributes. */
bool kb_eligibility_admits(const struct kb_eligibility *rules, const struct kb_attribute *attributes, size_t n,
                           int64_t now_ms);

uint64_t kb_eligibility_digest(const struct kb_eligibility *rules, uint64_t h);
void kb_eligibility_save(const struct kb_eligibility *rules, struct kb_writer *w);
enum kb_err kb_eligibility_load(struct kb_reader *r, struct kb_eligibility **out);

#endif
