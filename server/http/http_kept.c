/* What a request's head says, in the connection's memory and apart from it.
 *
 * The library (0.9.75) closes a connection whose socket reports an error (a reset, urgent data) whatever the request is
 * at, as long as it is not suspended, which it is a round after the handler was called (http.c: complete). So whoever
 * hands a request to another thread has its head kept first. */
#include "http/http_impl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct field {
    enum MHD_ValueKind kind;
    const char *name, *value; /* "": none was told */
};

struct ld_kept {
    size_t n;
    struct field field[];
};

/* Of a first pass; and where the second one has come to. */
struct measure {
    size_t n, n_bytes;
    struct ld_kept *kept;
    char *text;
};

static enum MHD_Result count(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct measure *m = arg;
    (void)kind;
    m->n++;
    m->n_bytes += strlen(name) + 1 + (value != NULL ? strlen(value) : 0) + 1;
    return MHD_YES;
}

static const char *put(struct measure *m, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *at = m->text;
    m->text += n;
    return memcpy(at, text, n);
}

static enum MHD_Result keep(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct measure *m = arg;
    struct field *f = &m->kept->field[m->kept->n++];
    f->kind = kind;
    f->name = put(m, name);
    f->value = put(m, value != NULL ? value : "");
    return MHD_YES;
}

int ld_request_keep_head(struct ld_request *r)
{
    const enum MHD_ValueKind kinds = MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND;
    struct measure m = {0};
    if (r->kept != NULL)
        return 0;
    (void)MHD_get_connection_values(r->connection, kinds, count, &m);
    m.kept = calloc(1, sizeof *m.kept + m.n * sizeof *m.kept->field + m.n_bytes);
    if (m.kept == NULL)
        return -1;
    m.text = (char *)&m.kept->field[m.n];
    (void)MHD_get_connection_values(r->connection, kinds, keep, &m);
    r->kept = m.kept;
    return 0;
}

bool ld_request_is_kept(const struct ld_request *r)
{
    return r->kept != NULL;
}

const char *ld_kept_find(const struct ld_kept *kept, enum MHD_ValueKind kind, const char *name)
{
    for (size_t i = 0; i < kept->n; i++)
        if (kept->field[i].kind == kind && strcasecmp(kept->field[i].name, name) == 0)
            return kept->field[i].value;
    return NULL;
}
