/* In place of the other pg_*.c where the program is built without PostgreSQL (make WITHOUT_PG=1). */
#include "shared/pg_log.h"

#define WITHOUT "this program was built without PostgreSQL (make WITHOUT_PG=1)"

int ld_pg_check_url(const char *url, struct ld_message *why)
{
    (void)url;
    return ld_fail(why, WITHOUT);
}

int ld_pg_log_open(struct ld_shared_log **out, const struct ld_pg_config *config, struct ld_message *why)
{
    (void)config;
    *out = NULL;
    return ld_fail(why, WITHOUT);
}

int ld_pg_init(const char *url, bool *is_new, struct ld_message *why)
{
    (void)url;
    *is_new = false;
    return ld_fail(why, WITHOUT);
}

int ld_pg_upgrade(const char *url, unsigned *version, struct ld_message *why)
{
    (void)url;
    *version = 0;
    return ld_fail(why, WITHOUT);
}

int ld_pg_look_at(struct ld_pg_view **out, const char *url, bool is_trusted, struct ld_message *why)
{
    (void)url;
    (void)is_trusted;
    *out = NULL;
    return ld_fail(why, WITHOUT);
}

void ld_pg_view_free(struct ld_pg_view *v)
{
    (void)v;
}
