/* See json_vector.h. */
#include "json/json_vector.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(enum ld_dim which)
{
    return which == LD_DIM_CONTEXT ? "context_dim" : "arm_dim";
}

/* --- objects ---------------------------------------------------------------------------------------------- */

static void look(const void *v, struct ld_named_value *out)
{
    static const enum ld_named_kind kinds[] = {
        [LD_V_NULL] = LD_NAMED_NOTHING,  [LD_V_FALSE] = LD_NAMED_NOTHING, [LD_V_TRUE] = LD_NAMED_TRUE,
        [LD_V_NUMBER] = LD_NAMED_NUMBER, [LD_V_STRING] = LD_NAMED_STRING, [LD_V_ARRAY] = LD_NAMED_ARRAY,
        [LD_V_OBJECT] = LD_NAMED_OBJECT};
    const struct ld_value *value = v;

    *out = (struct ld_named_value){kinds[value->kind], ld_number_of(value), ld_string_of(value), value->n};
}

static const void *item(const void *v, size_t i)
{
    return ld_item_of(v, i);
}

static int each(const void *v, int (*fn)(void *arg, const char *key, const void *member), void *arg)
{
    const struct ld_value *object = v;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < object->n; i++)
        rc = fn(arg, object->as.member[i].key, &object->as.member[i].value);
    return rc;
}

/* Below the place in hand. */
static void tell(struct ld_in *in, const struct kb_errmsg *msg, const struct ld_names *names)
{
    char pointer[sizeof in->path + sizeof msg->pointer];

    (void)snprintf(pointer, sizeof pointer, "%s%s", in->path, msg->pointer);
    ld_problem_add(in->p, pointer, "%s", msg->text);
    if (names->limit != NULL)
        ld_problem_limit(in->p, names->limit, names->most);
}

/* An object of two bytes may become a vector of 32 kB: what a body's vectors take is bounded beside its own bytes. */
static bool has_room(struct ld_in *in, uint32_t dim)
{
    struct ld_doc *doc = in->doc;
    const size_t bytes = dim * sizeof(double);

    if (doc->most_mapped == 0 || bytes <= doc->most_mapped - doc->mapped) {
        doc->mapped += bytes;
        return true;
    }
    ld_in_fault(in, NULL, "the vectors of the body's objects take more than %zu bytes: send it in parts",
                doc->most_mapped);
    ld_problem_limit(in->p, "feature_bytes", (double)doc->most_mapped);
    return false;
}

static const struct ld_named_tree tree = {look, item, each};

static enum ld_named_side side_of(bool is_of_arm)
{
    return is_of_arm ? LD_NAMED_ARM : LD_NAMED_CONTEXT;
}

static const double *read_named(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which)
{
    struct ld_named *named = in->doc->named;
    struct kb_errmsg msg = {"", ""};

    if (in->doc->is_short) {
        ld_problem_set(in->p, 503, "out of memory");
        return NULL;
    }
    if (named == NULL) {
        ld_in_fault(in, NULL, "the tenant's %s is %u, and it has no mapping of names: send %s, or configure `features`",
                    name_of(which), (unsigned)dim, dim > 0 ? "an array of as many numbers" : "none");
        return NULL;
    }
    if (!has_room(in, named->map.dim))
        return NULL;
    double *x = ld_in_alloc(in, named->map.dim, sizeof *x);
    const enum kb_err rc =
        x != NULL ? ld_names_map(&named->names, &named->map, side_of(which == LD_DIM_ARM), &tree, v, x, &msg)
                  : KB_ENOMEM;
    if (rc == KB_ENOMEM)
        ld_problem_set(in->p, 503, "out of memory");
    else if (rc != KB_OK)
        tell(in, &msg, &named->names);
    else if (named->names.largest > in->doc->magnitude)
        ld_in_fault(in, NULL, "its vector has a number beyond %.16g in size: lower the weights of `features`",
                    in->doc->magnitude);
    return rc == KB_OK ? x : NULL;
}

const char *ld_in_user(struct ld_in *in, const struct ld_value *context)
{
    const struct ld_named *named = in->doc->named;
    char id[LD_NAMES_USER_BYTES + 1];
    struct kb_errmsg msg = {"", ""};

    if (named == NULL)
        return NULL;
    if (ld_names_user(&named->map, &tree, context, id, &msg) != KB_OK) {
        tell(in, &msg, &(struct ld_names){.limit = NULL});
        return NULL;
    }
    char *user = id[0] != '\0' ? ld_in_alloc(in, strlen(id) + 1, 1) : NULL;
    return user != NULL ? strcpy(user, id) : NULL;
}

/* --- objects without one of their features ------------------------------------------------------------------ */

struct listed {
    struct ld_in *in;
    struct ld_ask *to;
    size_t first; /* of this object */
    bool is_of_arm;
};

/* For ld_names_each. */
static enum kb_err list_name(void *arg, const char *path, size_t n, const char *text)
{
    const struct listed *l = arg;
    struct ld_ask *to = l->to;

    for (size_t i = l->first; i < to->n_without; i++)
        if (ld_names_is(to->without[i].name, path, n, text))
            return KB_OK;
    if (to->n_without == LD_MOST_WITHOUT)
        return KB_EFULL;
    char *name = ld_in_alloc(l->in, n + (text != NULL ? strlen(text) + 1 : 0) + 1, 1);
    if (name == NULL)
        return KB_ENOMEM;
    memcpy(name, path, n);
    if (text != NULL)
        strcpy(strcpy(name + n, "=") + 1, text);
    to->without[to->n_without++] = (struct ld_without){.name = name, .is_of_arm = l->is_of_arm};
    return KB_OK;
}

static enum kb_err map_without(struct ld_in *in, const struct ld_value *object, struct ld_without *w)
{
    struct ld_named *named = in->doc->named;
    struct kb_errmsg msg;
    double *x = has_room(in, named->map.dim) ? ld_in_alloc(in, named->map.dim, sizeof *x) : NULL;

    w->x = x;
    return x == NULL ? KB_ENOMEM
                     : ld_names_map_without(&named->names, &named->map, side_of(w->is_of_arm), &tree, object, w->name,
                                            x, &msg);
}

void ld_in_without(struct ld_in *in, const struct ld_value *object, bool is_of_arm, const char *asked,
                   struct ld_ask *to)
{
    struct ld_named *named = in->doc->named;
    struct listed l = {in, to, to->n_without, is_of_arm};
    struct kb_errmsg msg;
    enum kb_err rc = ld_names_each(&named->names, &named->map, side_of(is_of_arm), &tree, object, list_name, &l, &msg);

    if (rc == KB_EFULL) {
        ld_in_fault(in, asked, "the objects of context and arm have more than %zu features in all", LD_MOST_WITHOUT);
        ld_problem_limit(in->p, "explained_features", (double)LD_MOST_WITHOUT);
        return;
    }
    for (size_t i = l.first; rc == KB_OK && i < to->n_without; i++)
        rc = map_without(in, object, &to->without[i]);
    if (rc == KB_ENOMEM)
        ld_problem_set(in->p, 503, "out of memory");
}

/* --- arrays ----------------------------------------------------------------------------------------------- */

/* Items that are numbers have no use for a pointer, and bodies are full of them. */
static void fault_number(struct ld_in *in, const struct ld_value *array, size_t i, double most)
{
    const size_t here = ld_in_item(in, array, i);
    if (in->is_log)
        ld_in_fault(in, NULL, "expected a finite number");
    else
        ld_in_fault(in, NULL, "expected a number >= %.16g and <= %.16g", -most, most);
    ld_in_leave(in, here);
}

/* In a body by the member of the configuration that its dimension comes from. */
static void fault_vector(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which)
{
    const char *dim_name = name_of(which);
    if (in->is_log)
        ld_in_fault(in, NULL, "expected an array of %u numbers", (unsigned)dim);
    else if (dim == 0)
        ld_in_fault(in, NULL, "the tenant's %s is 0: leave this out, or configure %s", dim_name, dim_name);
    else if (ld_is(v, LD_V_ARRAY))
        ld_in_fault(in, NULL, "expected an array of %u numbers, got %zu: the tenant's %s is %u", (unsigned)dim,
                    ld_n_items(v), dim_name, (unsigned)dim);
    else
        ld_in_fault(in, NULL, "expected an array of %u numbers: the tenant's %s is %u", (unsigned)dim, name_of(which),
                    (unsigned)dim);
}

/* The dimension is the tenant's, so a vector of another length is a fault and never padded or cut. O(dim). One block a
 * vector, in the document; NULL for no numbers. */
const double *ld_in_vector_value(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which,
                                 bool may_be_null)
{
    if (may_be_null && ld_is(v, LD_V_NULL))
        return NULL;
    if (ld_is(v, LD_V_OBJECT) && !in->is_log)
        return read_named(in, v, dim, which);
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != dim) {
        fault_vector(in, v, dim, which);
        return NULL;
    }
    const double most = in->is_log ? DBL_MAX : in->doc->magnitude;
    double *x = dim > 0 ? ld_in_alloc(in, dim, sizeof *x) : NULL;
    for (size_t i = 0; x != NULL && i < dim; i++) {
        const struct ld_value *item = ld_item_of(v, i);
        x[i] = ld_is(item, LD_V_NUMBER) ? ld_number_of(item) : (double)NAN;
        if (!(fabs(x[i]) <= most))
            fault_number(in, v, i, most);
    }
    return x;
}
