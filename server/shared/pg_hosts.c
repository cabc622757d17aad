/* Which of the addresses in a URL is tried first: see pg_log_impl.h.
 *
 * libpq takes the first that can be written. That may be a primary that was deposed and still answers; it has no
 * standby, so it acknowledges nothing, and hides the one that does. So where a primary is not fit, the next connection
 * begins with the next address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/pg_log_impl.h"

static unsigned count(const char *list)
{
    unsigned n = 1;

    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

/* "a,b,c" with first 1 becomes "b,c,a". A list of one, which stands for all, stays. NULL: out of memory. */
static char *turned(const char *list, unsigned first)
{
    const char *at = list;
    char *out = malloc(strlen(list) + 2);

    for (first %= count(list); first > 0; first--)
        at = strchr(at, ',') + 1;
    if (out != NULL && at == list)
        strcpy(out, list);
    else if (out != NULL)
        (void)sprintf(out, "%s,%.*s", at, (int)(at - list - 1), list);
    return out;
}

void ld_pg_hosts(struct pg_hosts *out, const char *url, unsigned first)
{
    static const char *const names[PG_N_HOSTS] = {"host", "hostaddr", "port"};
    PQconninfoOption *parts = PQconninfoParse(url, NULL);

    memset(out, 0, sizeof *out);
    for (PQconninfoOption *p = parts; p != NULL && p->keyword != NULL; p++)
        for (int i = 0; i < PG_N_HOSTS; i++)
            if (p->val != NULL && strcmp(p->keyword, names[i]) == 0)
                out->list[i] = turned(p->val, first);
    PQconninfoFree(parts);
}

void ld_pg_hosts_free(struct pg_hosts *h)
{
    for (int i = 0; i < PG_N_HOSTS; i++)
        free(h->list[i]);
}
