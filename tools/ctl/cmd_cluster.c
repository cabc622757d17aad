/* laplacectl cluster: the log that several servers share. It asks PostgreSQL itself, not a server: init makes the
 * tables, status shows what an operator looks for first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands.h"
#include "shared/pg_log.h"

/* --- status for people ------------------------------------------------------------------------------------ */

static void print_view(const struct ld_pg_view *v)
{
    lc_say("primary   %s:%s, PostgreSQL %d.%d", v->host, v->port, v->version / 10000, v->version % 10000);
    if (v->health.is_up && v->health.n_standbys >= 0)
        lc_say("commits   are acknowledged; synchronous standbys: %d", v->health.n_standbys);
    else if (v->health.is_up)
        lc_say("commits   are acknowledged; standbys are not looked at, or hidden from this role");
    else
        lc_say("commits   are REFUSED: %s", v->health.why.text);
    for (size_t i = 0; i < v->n_standbys; i++) {
        const struct ld_pg_standby *s = &v->standbys[i];
        lc_say("standby   %-24s %s, %s, %lld bytes behind", s->name, s->state, s->sync, (long long)s->behind);
    }
    for (size_t i = 0; i < v->n_nodes; i++)
        lc_say("server    %-24s %s, seen %.1f s ago", v->nodes[i].name, v->nodes[i].version,
               (double)v->nodes[i].silent_ms / 1000.0);
    for (size_t i = 0; i < v->n_tenants; i++)
        lc_say("tenant    %-24s line %llu", v->tenants[i].name, (unsigned long long)v->tenants[i].at.tip.seq);
}

/* --- and as JSON ------------------------------------------------------------------------------------------ */

static void put_standbys(struct lc_text *t, const struct ld_pg_view *v)
{
    lc_put_key(t, "standbys");
    lc_text_puts(t, "[");
    for (size_t i = 0; i < v->n_standbys; i++) {
        lc_text_puts(t, i > 0 ? ",{" : "{");
        lc_put_text(t, "name", v->standbys[i].name);
        lc_put_text(t, "state", v->standbys[i].state);
        lc_put_text(t, "sync", v->standbys[i].sync);
        lc_put_number(t, "behind_bytes", (double)v->standbys[i].behind);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "]");
}

static void put_servers(struct lc_text *t, const struct ld_pg_view *v)
{
    lc_put_key(t, "servers");
    lc_text_puts(t, "[");
    for (size_t i = 0; i < v->n_nodes; i++) {
        lc_text_puts(t, i > 0 ? ",{" : "{");
        lc_put_text(t, "name", v->nodes[i].name);
        lc_put_text(t, "version", v->nodes[i].version);
        lc_put_number(t, "silent_ms", (double)v->nodes[i].silent_ms);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "]");
}

static void put_tenants(struct lc_text *t, const struct ld_pg_view *v)
{
    lc_put_key(t, "tenants");
    lc_text_puts(t, "[");
    for (size_t i = 0; i < v->n_tenants; i++) {
        lc_text_puts(t, i > 0 ? ",{" : "{");
        lc_put_text(t, "name", v->tenants[i].name);
        lc_put_count(t, "id", v->tenants[i].at.id);
        lc_put_count(t, "seq", v->tenants[i].at.tip.seq);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "]");
}

static void print_json(const struct ld_pg_view *v)
{
    struct lc_text t = {0};

    lc_text_puts(&t, "{");
    lc_put_text(&t, "host", v->host);
    lc_put_text(&t, "port", v->port);
    lc_put_count(&t, "postgresql", (unsigned long long)v->version);
    lc_put_key(&t, "is_acknowledging");
    lc_text_puts(&t, v->health.is_up ? "true" : "false");
    if (!v->health.is_up)
        lc_put_text(&t, "why", v->health.why.text);
    put_standbys(&t, v);
    put_servers(&t, v);
    put_tenants(&t, v);
    lc_text_puts(&t, "}");
    puts(t.data);
    lc_text_close(&t);
}

/* --- the command ------------------------------------------------------------------------------------------ */

static int show(const struct lc_session *s, const char *url, bool is_trusted)
{
    struct ld_pg_view *v = NULL;
    struct ld_message why;

    if (ld_pg_look_at(&v, url, is_trusted, &why) != 0)
        return lc_fail("%s", why.text);
    if (s->is_json)
        print_json(v);
    else
        print_view(v);
    const int status = v->health.is_up ? 0 : 1;
    ld_pg_view_free(v);
    return status;
}

static int init(const struct lc_session *s, const char *url)
{
    struct ld_message why;
    bool is_new = false;

    if (ld_pg_init(url, &is_new, &why) != 0)
        return lc_fail("%s", why.text);
    if (s->is_json)
        printf("{\"is_new\":%s}\n", is_new ? "true" : "false");
    else
        lc_say(is_new ? "the tables of the shared log are made" : "the tables of the shared log were there already");
    return 0;
}

static int run_cluster(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *url = getenv("LAPLACED_LOG"), *sync = getenv("LAPLACED_LOG_SYNC");
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"log", LC_OPT_TEXT, &url, "URL", "the shared log, as the servers have it (LAPLACED_LOG)"},
        {"log-sync", LC_OPT_TEXT, &sync, "WORD",
         "required: the primary must have a standby that commits wait for; or trusted (LAPLACED_LOG_SYNC)"},
    };
    const int rc = lc_args_parse(self, s, opts, 2, argc, argv, &w, 1, 1);

    if (rc != LC_GO)
        return rc;
    if (url == NULL || url[0] == '\0')
        return lc_misuse("cluster wants --log URL");
    if (sync != NULL && strcmp(sync, "required") != 0 && strcmp(sync, "trusted") != 0)
        return lc_misuse("--log-sync: expected required or trusted, not %s", sync);
    struct ld_message why;
    if (ld_pg_check_url(url, &why) != 0)
        return lc_misuse("--log: %s", why.text);
    if (strcmp(w.word[0], "init") == 0)
        return init(s, url);
    if (strcmp(w.word[0], "status") == 0)
        return show(s, url, sync != NULL && strcmp(sync, "trusted") == 0);
    return lc_usage(self);
}

const struct lc_command lc_cmd_cluster = {
    .name = "cluster",
    .synopsis = "cluster init | status --log URL [--log-sync required|trusted]",
    .about = "the log that several servers share: make its tables, show its state",
    .text = "Both ask PostgreSQL, not a server. init makes the tables, in the schema `laplaced`, and changes nothing "
            "where\n"
            "they are; the role of the URL has to own the database, or the right to create in it. status shows the "
            "primary,\n"
            "whether commits are acknowledged, its standbys (for roles of pg_read_all_stats), the servers, and each "
            "tenant's\n"
            "last line; exit status 1 when no commit is acknowledged. The password belongs into ~/.pgpass or "
            "PGPASSFILE.\n\n"
            "  laplacectl cluster init --log postgresql://laplaced@db1,db2/log\n"
            "  laplacectl cluster status --log postgresql://laplaced@db1,db2/log --json\n",
    .run = run_cluster,
};
