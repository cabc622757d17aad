/* struct ld_settings -> the configuration object, by the table of json_fields.c: always in full, so that a line of
 * the log does not depend on what presets a later version ships. `parameters` are the same rows in groups, with
 * numbers where the configuration may hold a rule for them (lengthscale "median").
 *
 * What is written here is read by json_settings.c to the same bits (test: every_preset_reads_back_from_its_full_form).
 */
#include "json/json_out.h"

#include <string.h>

#include "json/json_fields.h"
#include "json/json_routing.h"
#include "json/json_util.h"

/* The rule as it was asked for, or the number that it has come to. */
static void write_lengthscale(struct ld_text *t, const struct kb_vec_kernel_spec *k, bool is_in_force)
{
    if (k->is_median && !is_in_force)
        ld_text_string(t, "median");
    else
        ld_text_number(t, k->lengthscale);
}

/* The name by which the API calls the value; spec_names.c has them all. */
static void write_choice(struct ld_text *t, const struct ld_field *f, const void *at)
{
    int type;
    memcpy(&type, at, sizeof type);
    ld_text_string(t, f->choice->name(type));
}

/* A word for the value that means none (null), ours to choose (auto) or the data's (median, a function of the graph
 * alone or of the log up to the last reset, so `parameters` may leave it as a word). */
static void write_or(struct ld_text *t, bool is_named, const char *name, double x)
{
    if (is_named)
        ld_text_lit(t, name);
    else
        ld_text_number(t, x);
}

/* Which fields: all; those of the model, as they are in force; or those that challengers have of their own. */
enum extent { ALL, IN_FORCE, CHALLENGER };

static void write_fields(struct ld_text *t, const struct ld_settings *s, enum extent extent);

void ld_text_challenger(struct ld_text *t, const struct ld_challenger_settings *c)
{
    const struct ld_settings s = {.spec = c->spec};
    write_fields(t, &s, CHALLENGER);
}

/* By their names, in the order in which they were told. */
static void write_challengers(struct ld_text *t, const struct ld_settings *s)
{
    ld_text_lit(t, "{");
    for (size_t i = 0; i < s->n_challengers; i++) {
        ld_text_key(t, s->challenger[i].name);
        ld_text_challenger(t, &s->challenger[i]);
    }
    ld_text_lit(t, "}");
}

static void write_name(struct ld_text *t, const char *name)
{
    if (name[0] == '\0')
        ld_text_lit(t, "null");
    else
        ld_text_string(t, name);
}

/* is_in_force: numbers where the configuration may hold a rule for them. */
static void write_value(struct ld_text *t, const struct ld_field *f, const struct ld_settings *s, bool is_in_force)
{
    const void *at = (const char *)s + f->offset;
    switch (f->kind) {
    case LD_ALGORITHM:
        ld_text_string(t, at);
        break;
    case LD_DIMENSION:
        ld_text_count(t, *(const uint32_t *)at);
        break;
    case LD_NUMBER:
        ld_text_number(t, *(const double *)at);
        break;
    case LD_SIZE:
        ld_text_count(t, *(const size_t *)at);
        break;
    case LD_DEGREE:
        ld_text_number(t, *(const int *)at);
        break;
    case LD_SEED:
        ld_text_count(t, *(const uint64_t *)at);
        break;
    case LD_FLAG:
        ld_text_bool(t, *(const bool *)at);
        break;
    case LD_CHOICE:
        write_choice(t, f, at);
        break;
    case LD_LENGTHSCALE:
        write_lengthscale(t, at, is_in_force);
        break;
    case LD_OR_AUTO:
        write_or(t, *(const double *)at <= 0, "\"auto\"", *(const double *)at);
        break;
    case LD_OR_MEDIAN:
        write_or(t, *(const double *)at <= 0, "\"median\"", *(const double *)at);
        break;
    case LD_WINDOW:
        ld_text_number(t, (double)*(const int64_t *)at / 1000);
        break;
    case LD_DEFAULT_REWARD:
        write_or(t, !s->spec.has_default_reward, "null", *(const double *)at);
        break;
    case LD_PENDING:
        ld_text_string(t, "ignore");
        break;
    case LD_DURABILITY:
        ld_text_string(t, s->is_relaxed ? "relaxed" : "commit");
        break;
    case LD_SIZE_OR_NULL:
        write_or(t, *(const size_t *)at == 0, "null", (double)*(const size_t *)at);
        break;
    case LD_AGE_OR_NULL:
        write_or(t, *(const int64_t *)at == 0, "null", (double)*(const int64_t *)at / 1000);
        break;
    case LD_NAME_OR_NULL:
        write_name(t, at);
        break;
    case LD_CHALLENGERS:
        write_challengers(t, s);
        break;
    case LD_ROUTING:
        ld_text_routing(t, at);
        break;
    }
}

/* Only fields of the spec are looked at where not all are wanted; of those without a group a challenger has two. */
static bool is_wanted(const struct ld_field *f, enum extent extent)
{
    if (extent == ALL)
        return true;
    if (f->group[0] == '\0')
        return extent == CHALLENGER && (f->kind == LD_ALGORITHM || f->kind == LD_SEED);
    return f->offset < sizeof(struct kb_spec);
}

static void write_fields(struct ld_text *t, const struct ld_settings *s, enum extent extent)
{
    const char *group = "";
    ld_text_lit(t, "{");
    for (size_t i = 0; i < ld_n_fields; i++) {
        const struct ld_field *f = &ld_fields[i];
        if (!is_wanted(f, extent))
            continue;
        if (strcmp(f->group, group) != 0) {
            ld_text_lit(t, group[0] != '\0' ? "}" : "");
            group = f->group;
            if (group[0] != '\0') {
                ld_text_key(t, group);
                ld_text_lit(t, "{");
            }
        }
        ld_text_key(t, ld_field_rule(f)->key);
        write_value(t, f, s, extent == IN_FORCE);
    }
    ld_text_lit(t, group[0] != '\0' ? "}}" : "}");
}

/* Every field, groups as objects. A guardrail that nobody has set, as where there was a spec alone, is the usual one.
 */
void ld_text_settings(struct ld_text *t, const struct ld_settings *settings)
{
    struct ld_settings whole = *settings, usual;
    ld_settings_init(&usual);
    if (whole.guardrail.min_decisions == 0)
        whole.guardrail = usual.guardrail;
    write_fields(t, &whole, ALL);
}

/* Groups only, as they are in force: what a reader needs to recompute the model's answers. */
void ld_text_parameters(struct ld_text *t, const struct kb_spec *in_force)
{
    struct ld_settings s = {.spec = *in_force};
    write_fields(t, &s, IN_FORCE);
}

/* About 900 bytes. */
char *ld_encode_settings(const struct ld_settings *settings, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_settings(&t, settings);
    return ld_text_take(&t, n);
}
