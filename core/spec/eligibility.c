/* Eligibility rules of an arm (eligibility.h).
 *
 * A copy is one block: the struct, the rules, the pointers to their values, the strings, in this order of falling
 * alignment. Rules stand by name and values by bytes, so rules that mean the same are the same to the digest in
 * whatever order they came, and a value is found by bisection.
 *
 * In a snapshot each string is written with its NUL, so that reading borrows it where it lies until the copy is made.
 */
#include "spec/eligibility.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define MS_PER_HOUR INT64_C(3600000)
#define HOURS_PER_DAY 24
#define DAYS_PER_WEEK 7
#define FIRST_WEEKDAY 3 /* 1970-01-01 was a Thursday, and Monday is 0 */

/* ---- checking ------------------------------------------------------------------------------------------ */

static bool is_short(const char *text, size_t most)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= most;
}

static bool is_valid_rule(const struct kb_attribute_rule *rule)
{
    if (!is_short(rule->name, KB_ATTRIBUTE_NAME_MAX_BYTES) || rule->n_values < 1 || rule->n_values > KB_MAX_RULE_VALUES)
        return false;
    for (size_t i = 0; i < rule->n_values; i++)
        if (!is_short(rule->values[i], KB_ATTRIBUTE_VALUE_MAX_BYTES))
            return false;
    return true;
}

static bool are_valid_rules(const struct kb_attribute_rule *rule, size_t n)
{
    if (n > KB_MAX_ATTRIBUTE_RULES)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_valid_rule(&rule[i]))
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(rule[k].name, rule[i].name) == 0)
                return false;
    }
    return true;
}

bool kb_eligibility_is_valid(const struct kb_eligibility *rules)
{
    return are_valid_rules(rules->allow, rules->n_allow) && are_valid_rules(rules->deny, rules->n_deny) &&
           rules->from_ms < rules->until_ms && rules->hours >> HOURS_PER_DAY == 0 && rules->days >> DAYS_PER_WEEK == 0;
}

/* ---- copying ------------------------------------------------------------------------------------------- */

/* Parts of a block, as they are counted and as they are handed out. */
struct room {
    size_t n_rules, n_values, n_bytes;
};

static void add_room(const struct kb_attribute_rule *rule, size_t n, struct room *room)
{
    room->n_rules += n;
    for (size_t i = 0; i < n; i++) {
        room->n_values += rule[i].n_values;
        room->n_bytes += strlen(rule[i].name) + 1;
        for (size_t k = 0; k < rule[i].n_values; k++)
            room->n_bytes += strlen(rule[i].values[k]) + 1;
    }
}

static struct room room_for(const struct kb_eligibility *rules)
{
    struct room room = {0};

    add_room(rules->allow, rules->n_allow, &room);
    add_room(rules->deny, rules->n_deny, &room);
    return room;
}

static size_t block_bytes(const struct room *room)
{
    return sizeof(struct kb_eligibility) + room->n_rules * sizeof(struct kb_attribute_rule) +
           room->n_values * sizeof(char *) + room->n_bytes;
}

size_t kb_eligibility_bytes(const struct kb_eligibility *rules)
{
    const struct room room = room_for(rules);

    return block_bytes(&room);
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_rules(const void *a, const void *b)
{
    return strcmp(((const struct kb_attribute_rule *)a)->name, ((const struct kb_attribute_rule *)b)->name);
}

/* Where the next rule, value and string go. */
struct place {
    struct kb_attribute_rule *rule;
    const char **value;
    char *text;
};

static const char *put_text(struct place *at, const char *text)
{
    char *start = at->text;
    const size_t n = strlen(text) + 1;

    memcpy(start, text, n);
    at->text += n;
    return start;
}

static const struct kb_attribute_rule *put_rules(struct place *at, const struct kb_attribute_rule *rule, size_t n)
{
    struct kb_attribute_rule *start = at->rule;

    for (size_t i = 0; i < n; i++) {
        const char **values = at->value;

        for (size_t k = 0; k < rule[i].n_values; k++)
            *at->value++ = put_text(at, rule[i].values[k]);
        qsort(values, rule[i].n_values, sizeof *values, compare_strings);
        *at->rule++ = (struct kb_attribute_rule){put_text(at, rule[i].name), values, rule[i].n_values};
    }
    if (n > 0)
        qsort(start, n, sizeof *start, compare_rules);
    return start;
}

enum kb_err kb_eligibility_copy(const struct kb_eligibility *rules, struct kb_eligibility **out)
{
    const struct room room = room_for(rules);
    unsigned char *block = kb_array(block_bytes(&room), 1, 1);

    if (block == NULL)
        return KB_ENOMEM;
    struct kb_eligibility *copy = (void *)block;
    struct place at = {.rule = (void *)(block + sizeof *copy)};
    at.value = (void *)(at.rule + room.n_rules);
    at.text = (void *)(at.value + room.n_values);
    *copy = *rules;
    copy->allow = put_rules(&at, rules->allow, rules->n_allow);
    copy->deny = put_rules(&at, rules->deny, rules->n_deny);
    *out = copy;
    return KB_OK;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

static bool has_value(const struct kb_attribute_rule *rule, const char *value)
{
    return bsearch(&value, rule->values, rule->n_values, sizeof *rule->values, compare_strings) != NULL;
}

/* Whether the attribute that the rule names is told and has one of its values. */
static bool holds(const struct kb_attribute_rule *rule, const struct kb_attribute *attributes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(attributes[i].name, rule->name) == 0)
            return has_value(rule, attributes[i].value);
    return false;
}

/* Hours since 1970, and days, are counted downwards before it. */
static bool is_scheduled(const struct kb_eligibility *rules, int64_t now_ms)
{
    const int64_t hours = now_ms / MS_PER_HOUR - (now_ms % MS_PER_HOUR < 0);
    const int64_t hour = (hours % HOURS_PER_DAY + HOURS_PER_DAY) % HOURS_PER_DAY;
    const int64_t days = (hours - hour) / HOURS_PER_DAY;
    const int64_t weekday = ((days + FIRST_WEEKDAY) % DAYS_PER_WEEK + DAYS_PER_WEEK) % DAYS_PER_WEEK;

    return now_ms >= rules->from_ms && now_ms < rules->until_ms &&
           (rules->hours == 0 || (rules->hours >> hour & 1) != 0) &&
           (rules->days == 0 || (rules->days >> weekday & 1) != 0);
}

bool kb_eligibility_admits(const struct kb_eligibility *rules, const struct kb_attribute *attributes, size_t n,
                           int64_t now_ms)
{
    for (size_t i = 0; i < rules->n_allow; i++)
        if (!holds(&rules->allow[i], attributes, n))
            return false;
    for (size_t i = 0; i < rules->n_deny; i++)
        if (holds(&rules->deny[i], attributes, n))
            return false;
    return is_scheduled(rules, now_ms);
}

/* ---- digest and snapshot --------------------------------------------------------------------------------- */

static uint64_t digest_rules(uint64_t h, const struct kb_attribute_rule *rule, size_t n)
{
    h = kb_hash_u64(h, n);
    for (size_t i = 0; i < n; i++) {
        h = kb_hash_u64(kb_hash_str(h, rule[i].name), rule[i].n_values);
        for (size_t k = 0; k < rule[i].n_values; k++)
            h = kb_hash_str(h, rule[i].values[k]);
    }
    return h;
}

uint64_t kb_eligibility_digest(const struct kb_eligibility *rules, uint64_t h)
{
    h = digest_rules(digest_rules(h, rules->allow, rules->n_allow), rules->deny, rules->n_deny);
    h = kb_hash_u64(kb_hash_u64(h, (uint64_t)rules->from_ms), (uint64_t)rules->until_ms);
    return kb_hash_u64(kb_hash_u64(h, rules->hours), rules->days);
}

static void save_text(const char *text, struct kb_writer *w)
{
    const size_t n = strlen(text) + 1;

    kb_put_u64(w, n);
    kb_put_bytes(w, text, n);
}

static void save_rules(const struct kb_attribute_rule *rule, size_t n, struct kb_writer *w)
{
    kb_put_u64(w, n);
    for (size_t i = 0; i < n; i++) {
        save_text(rule[i].name, w);
        kb_put_u64(w, rule[i].n_values);
        for (size_t k = 0; k < rule[i].n_values; k++)
            save_text(rule[i].values[k], w);
    }
}

void kb_eligibility_save(const struct kb_eligibility *rules, struct kb_writer *w)
{
    save_rules(rules->allow, rules->n_allow, w);
    save_rules(rules->deny, rules->n_deny, w);
    kb_put_u64(w, (uint64_t)rules->from_ms);
    kb_put_u64(w, (uint64_t)rules->until_ms);
    kb_put_u64(w, rules->hours);
    kb_put_u64(w, rules->days);
}

/* Borrowed from the reader; "" for what is no string. */
static const char *load_text(struct kb_reader *r)
{
    size_t n = 0;
    const char *text = kb_get_str(r, &n);

    if (n == 0 || strnlen(text, n) != n - 1)
        r->rc = KB_ECORRUPT;
    return r->rc == KB_OK ? text : "";
}

/* What a snapshot's rules are read into before they are copied. */
struct draft {
    struct kb_attribute_rule rule[2 * KB_MAX_ATTRIBUTE_RULES];
    const char *value[2 * KB_MAX_ATTRIBUTE_RULES * KB_MAX_RULE_VALUES];
};

static size_t load_rules(struct kb_reader *r, struct kb_attribute_rule *rule, const char **value, size_t *n_values)
{
    const size_t n = kb_get_count(r, KB_MAX_ATTRIBUTE_RULES);

    for (size_t i = 0; i < n; i++) {
        rule[i].name = load_text(r);
        rule[i].values = value + *n_values;
        rule[i].n_values = kb_get_count(r, KB_MAX_RULE_VALUES);
        for (size_t k = 0; k < rule[i].n_values; k++)
            value[(*n_values)++] = load_text(r);
    }
    return n;
}

enum kb_err kb_eligibility_load(struct kb_reader *r, struct kb_eligibility **out)
{
    struct draft *d = kb_malloc(sizeof *d);
    struct kb_eligibility rules = KB_ELIGIBILITY_ANY;
    size_t n_values = 0;

    if (d == NULL)
        return KB_ENOMEM;
    rules.allow = d->rule;
    rules.n_allow = load_rules(r, d->rule, d->value, &n_values);
    rules.deny = d->rule + rules.n_allow;
    rules.n_deny = load_rules(r, d->rule + rules.n_allow, d->value, &n_values);
    rules.from_ms = (int64_t)kb_get_u64(r);
    rules.until_ms = (int64_t)kb_get_u64(r);
    rules.hours = (uint32_t)kb_get_u64(r);
    rules.days = (uint32_t)kb_get_u64(r);
    enum kb_err rc = r->rc;
    if (rc == KB_OK)
        rc = kb_eligibility_is_valid(&rules) ? kb_eligibility_copy(&rules, out) : KB_ECORRUPT;
    kb_free(d);
    return rc;
}
