/* laplacectl cluster: the log that several servers share. It asks PostgreSQL itself: init makes the tables, status
 * shows what an operator looks for first. repair is asked of a server, or done in the folder of a stopped one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ctl/commands.h"
#include "shared/pg_log.h"
#include "store/folder.h"
#include "task/repair_shared.h"

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
    lc_say("lines     of version %u may be written%s", v->log_version,
           v->log_version < ld_log_version() ? "; this program knows a newer one (laplacectl cluster upgrade)" : "");
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
        lc_put_count(t, "log_version", v->nodes[i].log_version);
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
    lc_put_count(&t, "log_version", v->log_version);
    put_standbys(&t, v);
    put_servers(&t, v);
    put_tenants(&t, v);
    lc_text_puts(&t, "}");
    puts(t.data);
    lc_text_close(&t);
}

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

static int upgrade(const struct lc_session *s, const char *url)
{
    struct ld_message why;
    unsigned version = 0;

    if (ld_pg_upgrade(url, &version, &why) != 0)
        return lc_fail("%s", why.text);
    if (s->is_json)
        printf("{\"log_version\":%u}\n", version);
    else
        lc_say("lines of version %u may be written", version);
    return 0;
}

/* --- repair ------------------------------------------------------------------------------------------------ */

static const char *const done[] = {
    [LD_REPAIR_PUSH] = "are back in the shared log", [LD_REPAIR_REWIND] = "are put aside"};

static int repair_copy(const struct ld_pg_config *config, const char *data, const char *name,
                       enum ld_repair_action action)
{
    struct ld_shared_log *log = NULL;
    struct ld_message why;
    struct ld_problem p;
    struct ld_repaired out;
    int fd, rc = -1;

    if (!ld_folder_has(data, name))
        return lc_fail("%s: the folder has no such tenant", name);
    if (ld_folder_open(data, &fd, &why) != 0)
        return lc_fail("%s", why.text);
    ld_log_set_level(LD_LOG_ERROR);
    ld_problem_init(&p);
    if (ld_pg_log_open(&log, config, &why) == 0)
        rc = ld_repair_shared(log, config->node, data, name, action, NULL, &out, &p);
    else
        ld_problem_set(&p, 503, "%s", why.text);
    if (log != NULL)
        log->ops->close(log);
    close(fd);
    if (rc != 0)
        return lc_fail("%s: %s", name, p.detail);
    printf("%s: %llu lines %s%s%s\n", name, (unsigned long long)out.n_lines, done[action],
           out.file[0] != '\0' ? ": tenants/" : "", out.file);
    return 0;
}

/* What cluster repair is told. */
struct wish {
    const char *name, *data;
    bool is_push, is_rewind;
};

static int repair(const struct lc_session *s, const char *url, bool is_trusted, const struct wish *w)
{
    const struct ld_pg_config config = {.url = url, .node = "laplacectl", .wait_ms = 5000, .is_trusted = is_trusted};
    const struct ld_repair wanted = {.action = w->is_push ? LD_REPAIR_PUSH : LD_REPAIR_REWIND};

    if (w->is_push == w->is_rewind)
        return lc_misuse("cluster repair wants one of --push and --rewind");
    if (w->name == NULL)
        return lc_misuse("cluster repair wants the name of a tenant");
    return w->data != NULL ? repair_copy(&config, w->data, w->name, wanted.action) : lc_ask_repair(s, w->name, &wanted);
}

/* --- the command ------------------------------------------------------------------------------------------ */

/* What wants the log's address. */
static int run_on(const struct lc_command *self, const struct lc_session *s, const char *verb, const char *url,
                  bool is_trusted, const struct wish *wish)
{
    struct ld_message why;

    if (url == NULL || url[0] == '\0')
        return lc_misuse("cluster wants --log URL");
    if (ld_pg_check_url(url, &why) != 0)
        return lc_misuse("--log: %s", why.text);
    if (strcmp(verb, "init") == 0)
        return init(s, url);
    if (strcmp(verb, "upgrade") == 0)
        return upgrade(s, url);
    if (strcmp(verb, "status") == 0)
        return show(s, url, is_trusted);
    if (strcmp(verb, "repair") == 0)
        return repair(s, url, is_trusted, wish);
    return lc_usage(self);
}

static int run_cluster(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *url = getenv("LAPLACED_LOG"), *sync = getenv("LAPLACED_LOG_SYNC");
    struct wish wish = {.name = NULL};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"log", LC_OPT_TEXT, &url, "URL", "the shared log, as the servers have it (LAPLACED_LOG)"},
        {"log-sync", LC_OPT_TEXT, &sync, "WORD",
         "required: the primary must have a standby that commits wait for; or trusted (LAPLACED_LOG_SYNC)"},
        {"push", LC_OPT_FLAG, &wish.is_push, NULL, "repair: the copy's lines that the log has lost go back into it"},
        {"rewind", LC_OPT_FLAG, &wish.is_rewind, NULL, "repair: they are kept in a file, and the copy follows the log"},
        {"data", LC_OPT_TEXT, &wish.data, "DIR", "repair: in the data folder of a stopped server (with --log)"},
    };
    const int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof *opts, argc, argv, &w, 1, 2);

    if (rc != LC_GO)
        return rc;
    const bool is_repair = strcmp(w.word[0], "repair") == 0;
    if (sync != NULL && strcmp(sync, "required") != 0 && strcmp(sync, "trusted") != 0)
        return lc_misuse("--log-sync: expected required or trusted, not %s", sync);
    if (!is_repair && (w.n > 1 || wish.is_push || wish.is_rewind || wish.data != NULL))
        return lc_usage(self);
    wish.name = w.n > 1 ? w.word[1] : NULL;
    const bool is_trusted = sync != NULL && strcmp(sync, "trusted") == 0;
    return is_repair && wish.data == NULL ? repair(s, url, is_trusted, &wish)
                                          : run_on(self, s, w.word[0], url, is_trusted, &wish);
}

const struct lc_command lc_cmd_cluster = {
    .name = "cluster",
    .synopsis = "cluster init | upgrade | status --log URL [--log-sync required|trusted] | repair NAME --push|--rewind",
    .about = "the log that several servers share: make its tables, show its state, mend what it has lost",
    .text =
        "init and status ask PostgreSQL, not a server. init makes the tables, in the schema `laplaced`, and changes\n"
        "nothing where they are; the role of the URL has to own the database, or the right to create in it. status "
        "shows\n"
        "the primary, whether commits are acknowledged, its standbys (for roles of pg_read_all_stats), the servers, "
        "and\n"
        "each tenant's last line; exit status 1 when no commit is acknowledged. The password belongs into ~/.pgpass "
        "or\n"
        "PGPASSFILE.\n\n"
        "upgrade is for when all servers have a new version: they may then write what older ones could not read. It "
        "is\n"
        "refused while a server that could not was heard of in the last 15 seconds.\n\n"
        "repair is for a log that has lost lines (a backup was restored; a standby was promoted that had not all).\n"
        "Ask the server whose copy has most. --push puts the lines of its copy back, where the copy has all lines of "
        "the\n"
        "log and more. --rewind gives them up: they are kept in a file of the server's data folder, and the copy\n"
        "follows the log. With --data it is done in the folder of a stopped server, and wants --log as well.\n\n"
        "  laplacectl cluster init --log postgresql://laplaced@db1,db2/log\n"
        "  laplacectl cluster status --log postgresql://laplaced@db1,db2/log --json\n"
        "  laplacectl cluster repair shop --push --server http://10.0.0.1:8080\n",
    .run = run_cluster,
};
