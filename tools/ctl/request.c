/* What commands share: one request with its printed answer, paths of tenants, tables, files that are JSON. */
#include <stdio.h>

#include "common/http_client.h"
#include "ctl/commands.h"

int lc_request(const struct lc_session *s, const char *method, const char *path, const char *type,
               const struct lc_text *body)
{
    struct lc_client *c = lc_client_new(s, NULL);
    const struct lc_reply *r =
        lc_client_send(c, method, path, type, body != NULL ? body->data : NULL, body != NULL ? body->n : 0);
    const int status = lc_reply_print(s, r, path);
    lc_client_free(c);
    return status;
}

int lc_tenant_request(const struct lc_session *s, const char *method, const char *rest, const char *type,
                      const struct lc_text *body)
{
    struct lc_text path = lc_tenant_path(lc_tenant_name(s), rest);
    const int status = lc_request(s, method, path.data, type, body);
    lc_text_close(&path);
    return status;
}

int lc_list(const struct lc_session *s, const char *path, const char *what, const char *member, const char *header,
            void (*print)(const struct json_t *item))
{
    int status = 0;
    struct lc_client *c = lc_client_new(s, NULL);
    const struct lc_reply *r = lc_client_get(c, path);
    if (s->is_json || !lc_reply_ok(r)) {
        status = lc_reply_print(s, r, what);
    } else {
        struct json_t *doc = lc_reply_json(r);
        const struct json_t *items = lc_json_get(doc, member);
        puts(header);
        for (size_t i = 0; i < lc_json_length(items); i++)
            print(lc_json_at(items, i));
        lc_json_free(doc);
    }
    lc_client_free(c);
    return status;
}

struct json_t *lc_json_from_file(const char *file)
{
    struct lc_text text = {0};
    char why[LC_WHY];
    struct json_t *doc = NULL;
    if (lc_read_file(file, &text, why) != 0)
        lc_fail("%s", why);
    else if ((doc = lc_json_parse(text.data, text.n, why)) == NULL)
        lc_fail("%s: %s", file, why);
    lc_text_close(&text);
    return doc;
}

const char *lc_type_of(const char *file)
{
    if (lc_ends_with(file, ".ndjson") || lc_ends_with(file, ".jsonl"))
        return LC_NDJSON_TYPE;
    return lc_ends_with(file, ".json") ? LC_JSON_TYPE : NULL;
}
