/* Command lines: one table of options per command drives both the parser and --help. */
#ifndef LC_ARGS_H
#define LC_ARGS_H

#include <stdbool.h>
#include <stddef.h>

enum lc_opt_kind {
    LC_OPT_FLAG,  /* bool */
    LC_OPT_TEXT,  /* const char * */
    LC_OPT_COUNT, /* size_t, "20000" */
    LC_OPT_REAL,  /* double >= 0 */
    LC_OPT_LIST   /* struct lc_list: may be given several times */
};

/* Values of an option that may be repeated, in their order; borrowed from argv. */
struct lc_list {
    const char *item[64];
    size_t n;
};

struct lc_opt {
    const char *name; /* without the dashes */
    enum lc_opt_kind kind;
    /* where the value goes: of the type that `kind` names, holding its default before */
    void *value;
    const char *arg; /* what --help shows as its value; NULL for flags */
    const char *about;
};

/* What every command knows: where the server is, and how to print. */
struct lc_session {
    const char *server, *key, *tenant;
    const char *cacert; /* PEM file trusted for https; NULL: the system's */
    bool is_json;       /* --json: machine output */
    bool wants_help;
    double timeout_s; /* of one request */
};

/* One row per command: main.c finds it by its name and calls run with what follows the name. run returns the exit
 * status of the program. */
struct lc_command {
    const char *name, *synopsis, *about; /* about: one line of the list of commands */
    const char *text;                    /* the rest of its --help: formats and examples */
    int (*run)(const struct lc_command *self, struct lc_session *s, int argc, char **argv);
};

/* Parsed positional arguments. Borrowed from argv. */
struct lc_words {
    const char *word[64];
    size_t n;
};

enum { LC_GO = -1 }; /* lc_args_parse: carry on; other values are the exit status to leave with */

/* Reads options (those of the command, then the session's) and positional words; at least `min` and at most `max` of
 * these. "--" ends the options; "-" is a word. Returns LC_GO, 0 after --help was printed, or 2 after a usage error was
 * printed. */
int lc_args_parse(const struct lc_command *cmd, struct lc_session *s, const struct lc_opt *opts, size_t n_opts,
                  int argc, char **argv, struct lc_words *words, size_t min, size_t max);

/* Session options at the front of a command line; returns how many arguments were read, or -1 (printed). */
int lc_args_session(struct lc_session *s, int argc, char **argv);

int lc_usage(const struct lc_command *cmd); /* prints how it is used; the exit status 2 */

void lc_args_session_init(struct lc_session *s); /* defaults and environment */
void lc_args_print_session(void);                /* the section "options of every command" */

#endif
