/* Parser of command lines, and --help from the same tables.
 *
 * An option is --name VALUE or --name=VALUE; options and words may be mixed. Precedence of what a session knows:
 * option, then environment (LAPLACED_URL, LAPLACED_KEY, LAPLACED_TENANT, LAPLACED_CACERT), then the default.
 *
 * A command declares its options as a local table whose rows point at its variables; the defaults are what
 * those variables hold before. Nothing is copied: texts point into argv, which lives as long as the program.
 *
 * Every fault of a command line is printed here, with the command's synopsis, and ends with status 2. Values
 * are checked for their type only; ranges and combinations are the command's own business. */
#include "common/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

#define DEFAULT_SERVER "http://127.0.0.1:8080"
#define N_SESSION_OPTS 7u

/* An empty variable counts as not set, as with most tools. */
static const char *from_env(const char *name, const char *fallback)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : fallback;
}

/* Without a key no Authorization header is sent; without a tenant the server takes that of the key, or its own. */
void lc_args_session_init(struct lc_session *s)
{
    *s = (struct lc_session){.timeout_s = 60.0};
    s->server = from_env("LAPLACED_URL", DEFAULT_SERVER);
    s->key = from_env("LAPLACED_KEY", NULL);
    s->tenant = from_env("LAPLACED_TENANT", NULL);
    s->cacert = from_env("LAPLACED_CACERT", NULL);
}

/* Bound to s (NULL: for printing), so made anew for each call. out: N_SESSION_OPTS rows. */
static void session_opts(struct lc_session *s, struct lc_opt *out)
{
    static struct lc_session none;
    struct lc_session *at = s != NULL ? s : &none;
    const struct lc_opt table[N_SESSION_OPTS] = {
        {"server", LC_OPT_TEXT, &at->server, "URL", "the server (LAPLACED_URL; default " DEFAULT_SERVER ")"},
        {"key", LC_OPT_TEXT, &at->key, "KEY", "bearer key (LAPLACED_KEY)"},
        {"tenant", LC_OPT_TEXT, &at->tenant, "NAME", "the tenant (LAPLACED_TENANT; else as below)"},
        {"cacert", LC_OPT_TEXT, &at->cacert, "FILE",
         "certificates (PEM) to trust for https, instead of the system's (LAPLACED_CACERT)"},
        {"timeout", LC_OPT_REAL, &at->timeout_s, "SECONDS", "of one request (default 60)"},
        {"json", LC_OPT_FLAG, &at->is_json, NULL, "output for machines: one JSON value"},
        {"help", LC_OPT_FLAG, &at->wants_help, NULL, "this text"},
    };
    memcpy(out, table, sizeof table);
}

/* --- printing --------------------------------------------------------------------------------------- */

static void print_opts(const struct lc_opt *opts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", opts[i].name, opts[i].arg != NULL ? " " : "",
                 opts[i].arg != NULL ? opts[i].arg : "");
        printf("  %-24s %s\n", left, opts[i].about);
    }
}

void lc_args_print_session(void)
{
    struct lc_opt opts[N_SESSION_OPTS];
    session_opts(NULL, opts);
    puts("options of every command:");
    print_opts(opts, N_SESSION_OPTS);
    puts("Without --tenant, decisions and rewards go to the tenant of the key, or to the server's own "
         "--default-tenant.\n"
         "Commands that show or change one tenant take `default`: the server does not tell what its own is called.");
}

static void print_help(const struct lc_command *cmd, const struct lc_opt *opts, size_t n_opts)
{
    printf("laplacectl %s: %s\n\nusage: laplacectl %s\n\n", cmd->name, cmd->about, cmd->synopsis);
    if (n_opts > 0) {
        puts("options:");
        print_opts(opts, n_opts);
        puts("");
    }
    lc_args_print_session();
    if (cmd->text != NULL)
        printf("\n%s", cmd->text);
}

/* `which` is the argument in question, or "". cmd is NULL in front of the command's name. */
static int usage_error(const struct lc_command *cmd, const char *what, const char *which)
{
    const int status = lc_misuse("%s%s", what, which);
    if (cmd != NULL)
        fprintf(stderr, "usage: laplacectl %s\n(laplacectl %s --help tells more)\n", cmd->synopsis, cmd->name);
    return status;
}

int lc_usage(const struct lc_command *cmd)
{
    fprintf(stderr, "usage: laplacectl %s\n", cmd->synopsis);
    return 2;
}

/* --- values ----------------------------------------------------------------------------------------- */

/* strtoull takes "-1" for a large number, hence the look for a minus sign. */
static bool set_count(size_t *out, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || strchr(text, '-') != NULL)
        return false;
    *out = (size_t)v;
    return true;
}

/* Every real option is a rate, a time or a scale: negative values have no meaning anywhere. NaN and infinity are
 * refused, whatever spelling strtod knows for them. */
static bool set_real(double *out, const char *text)
{
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v) || v < 0.0)
        return false;
    *out = v;
    return true;
}

/* Stores text as the option's type; false when it is not one. A list takes 64 values; more are "not a good value". */
static bool set_value(const struct lc_opt *o, const char *text)
{
    struct lc_list *list = o->value;
    switch (o->kind) {
    case LC_OPT_TEXT:
        *(const char **)o->value = text;
        return true;
    case LC_OPT_COUNT:
        return set_count(o->value, text);
    case LC_OPT_REAL:
        return set_real(o->value, text);
    case LC_OPT_LIST:
        if (list->n >= sizeof list->item / sizeof list->item[0])
            return false;
        list->item[list->n++] = text;
        return true;
    default:
        return false; /* a flag takes no value */
    }
}

static int bad_value(const struct lc_command *cmd, const struct lc_opt *o, const char *text)
{
    static const char *const expected[] = {[LC_OPT_TEXT] = "a text",
                                           [LC_OPT_COUNT] = "a whole number, 0 or more",
                                           [LC_OPT_REAL] = "a number, 0 or more",
                                           [LC_OPT_LIST] = "at most 64 of them",
                                           [LC_OPT_FLAG] = "no value"};
    char what[120];
    snprintf(what, sizeof what, "--%s: expected %s, not ", o->name, expected[o->kind]);
    return usage_error(cmd, what, text);
}

/* Names match in full: abbreviations would break when an option is added. `name` is not NUL-terminated at len when the
 * argument has the form --name=VALUE. */
static const struct lc_opt *find_opt(const struct lc_opt *opts, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(opts[i].name) == len && strncmp(opts[i].name, name, len) == 0)
            return &opts[i];
    return NULL;
}

/* --- parsing ---------------------------------------------------------------------------------------- */

/* One option at argv[*i] ("--name", "--name=value" or "--name value"); *i is moved past its value. LC_GO or the status
 * 2. The value of an option may begin with a dash ("--exclude --x"): whatever follows is its value. */
static int take_option(const struct lc_command *cmd, const struct lc_opt *opts, size_t n_opts,
                       const struct lc_opt *more, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    /* the first "=" splits: values may hold more of them ("--set a.b=c" as --set=a.b=c) */
    const char *value = strchr(name, '=');
    size_t len = value != NULL ? (size_t)(value - name) : strlen(name);
    const struct lc_opt *o = find_opt(opts, n_opts, name, len);
    if (o == NULL)
        o = find_opt(more, N_SESSION_OPTS, name, len);
    if (o == NULL)
        return usage_error(cmd, "unknown option ", argv[*i]);
    if (o->kind == LC_OPT_FLAG) {
        if (value != NULL)
            return usage_error(cmd, "this option takes no value: ", argv[*i]);
        *(bool *)o->value = true;
        return LC_GO;
    }
    if (value == NULL && *i + 1 >= argc)
        return usage_error(cmd, "a value is missing after ", argv[*i]);
    const char *text = value != NULL ? value + 1 : argv[++*i];
    return set_value(o, text) ? LC_GO : bad_value(cmd, o, text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* "-" is standard input and "--" ends the options, so both are no option; nor is what has a blank before any "=", such
 * as the command line of another program. */
static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-' && arg[2] != '\0' && !is_blank(arg[strcspn(arg, "= \t\n")]);
}

/* -h is the one short form, and "-5" must stay a word (a reward). */
static int take_word(const struct lc_command *cmd, struct lc_session *s, const char *arg, struct lc_words *words)
{
    if (strcmp(arg, "-h") == 0) {
        s->wants_help = true;
        return LC_GO;
    }
    if (words->n >= sizeof words->word / sizeof words->word[0])
        return usage_error(cmd, "too many arguments, beginning with ", arg);
    words->word[words->n++] = arg;
    return LC_GO;
}

/* One pass from left to right: the message of a fault names what was typed first. --help is obeyed before missing
 * arguments are complained about. */
int lc_args_parse(const struct lc_command *cmd, struct lc_session *s, const struct lc_opt *opts, size_t n_opts,
                  int argc, char **argv, struct lc_words *words, size_t min, size_t max)
{
    struct lc_opt more[N_SESSION_OPTS];
    bool is_over = false;
    session_opts(s, more);
    words->n = 0;
    for (int i = 0; i < argc; i++) {
        int rc;
        if (!is_over && strcmp(argv[i], "--") == 0) {
            is_over = true;
            continue;
        }
        if (!is_over && is_option(argv[i]))
            rc = take_option(cmd, opts, n_opts, more, argc, argv, &i);
        else
            rc = take_word(cmd, s, argv[i], words);
        if (rc != LC_GO)
            return rc;
    }
    if (s->wants_help) {
        print_help(cmd, opts, n_opts);
        return 0;
    }
    if (words->n < min)
        return usage_error(cmd, "an argument is missing", "");
    if (words->n > max)
        return usage_error(cmd, "one argument too many: ", words->word[max]);
    return LC_GO;
}

/* Only session options may stand before the command: what follows belongs to its own table. Returns how many arguments
 * were read. -h counts as one of them; what it asks for is done by main.c. */
int lc_args_session(struct lc_session *s, int argc, char **argv)
{
    struct lc_opt more[N_SESSION_OPTS];
    int i = 0;
    session_opts(s, more);
    for (; i < argc && (is_option(argv[i]) || strcmp(argv[i], "-h") == 0); i++) {
        if (strcmp(argv[i], "-h") == 0)
            s->wants_help = true;
        else if (take_option(NULL, NULL, 0, more, argc, argv, &i) != LC_GO)
            return -1;
    }
    return i;
}
