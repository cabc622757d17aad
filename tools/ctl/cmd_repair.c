/* laplacectl repair: what an operator does about a tenant whose log no fold takes to its end. Asked of a server, beside
 * its other tenants, or done in the folder of a stopped one, which --open-all keeps from starting. */
#include <stdio.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "store/folder.h"
#include "common/http_client.h"
#include "base/log.h"
#include "task/repair.h"

static const char *const actions[] = {[LD_REPAIR_READ_ONLY] = "read_only",
                                      [LD_REPAIR_DROP] = "drop",
                                      [LD_REPAIR_LIFT] = "lift",
                                      [LD_REPAIR_PUSH] = "push",
                                      [LD_REPAIR_REWIND] = "rewind"};

int lc_ask_repair(const struct lc_session *s, const char *name, const struct ld_repair *wanted)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text path = lc_tenant_path(name, "/repair"), body = {0};
    lc_client_be_patient(c);
    lc_text_puts(&body, "{");
    lc_put_text(&body, "action", actions[wanted->action]);
    if (wanted->seq > 0)
        lc_put_count(&body, "seq", wanted->seq);
    lc_text_puts(&body, "}");
    const struct lc_reply *r = lc_client_json(c, "POST", path.data, &body);
    const int status = lc_reply_ok(r) ? 0 : lc_reply_fail(r, name);
    if (status == 0)
        puts(r->body.data);
    lc_text_close(&path);
    lc_text_close(&body);
    lc_client_free(c);
    return status;
}

static int repair_files(const char *data_dir, const char *name, const struct ld_repair *wanted)
{
    struct ld_message why;
    struct ld_problem p;
    int fd;
    if (!ld_folder_has(data_dir, name))
        return lc_fail("%s: the folder has no such tenant", name);
    if (ld_folder_open(data_dir, &fd, &why) != 0)
        return lc_fail("%s", why.text);
    ld_log_set_level(LD_LOG_ERROR);
    ld_problem_init(&p);
    const int rc = ld_repair(data_dir, name, wanted, NULL, &why, &p);
    if (rc != 0)
        lc_fail("%s: %s", name, p.detail);
    else
        printf("%s: %s%s%s\n", name, actions[wanted->action], why.text[0] != '\0' ? ": " : "", why.text);
    close(fd);
    return rc == 0 ? 0 : 1;
}

static int read_wish(size_t drop, size_t read_only, bool is_lift, struct ld_repair *out)
{
    if ((drop > 0) + (read_only > 0) + is_lift != 1)
        return lc_misuse("repair wants one of --drop SEQ, --read-only SEQ and --lift");
    *out = (struct ld_repair){.action = is_lift    ? LD_REPAIR_LIFT
                                        : drop > 0 ? LD_REPAIR_DROP
                                                   : LD_REPAIR_READ_ONLY,
                              .seq = drop > 0 ? drop : read_only};
    return 0;
}

static int run_repair(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *data = NULL;
    size_t drop = 0, read_only = 0;
    bool is_lift = false;
    struct ld_repair wanted;
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"drop", LC_OPT_COUNT, &drop, "SEQ", "replace the line by a note of what stood there"},
        {"read-only", LC_OPT_COUNT, &read_only, "SEQ", "serve the tenant as it was before the line, without changes"},
        {"lift", LC_OPT_FLAG, &is_lift, NULL, "end read-only"},
        {"data", LC_OPT_TEXT, &data, "DIR", "work in the data folder of a stopped server instead of asking one"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof *opts, argc, argv, &w, 0, 1);
    if (rc != LC_GO || (rc = read_wish(drop, read_only, is_lift, &wanted)) != 0)
        return rc;
    const char *name = w.n > 0 ? w.word[0] : lc_tenant_name(s);
    return data != NULL ? repair_files(data, name, &wanted) : lc_ask_repair(s, name, &wanted);
}

const struct lc_command lc_cmd_repair = {
    .name = "repair",
    .synopsis = "repair [NAME] --drop SEQ | --read-only SEQ | --lift [--data DIR]",
    .about = "bring back a tenant whose log has a faulty line",
    .text =
        "A tenant cannot be opened when a line of its log makes no sense to the server. Requests answer 500 then and "
        "name\n"
        "the line, as `verify --data` does; other tenants go on. --read-only serves the tenant as it was before that "
        "line\n"
        "and takes no changes. --drop puts a `redacted` line in its place, for good; a later line that rests on it may "
        "be\n"
        "refused next. SEQ is the number of the line that was named: no other is taken. Export the log, or copy the\n"
        "folder, before. Where several servers share a log, --drop is asked of any of them and holds for all;\n"
        "--read-only and --lift are the matter of that server alone.\n\n"
        "  laplacectl repair shop --read-only 4711\n"
        "  laplacectl repair shop --drop 4711 --data /var/lib/laplaced\n",
    .run = run_repair,
};
