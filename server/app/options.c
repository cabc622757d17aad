/* Options. Each row of the table (option_table.c) says how an option is spelled, what values it takes, its default and
 * its help; the flag is --NAME, the environment variable LAPLACED_NAME in capitals with underscores, the line of the
 * configuration file "NAME = VALUE".
 *
 * Sources are applied from the weakest to the strongest, so that the last one wins: default, file, environment, flag.
 * The file itself is named by --config or LAPLACED_CONFIG. An empty variable counts as unset, so that a container can
 * take back what its image sets. Unknown names are errors in the file and among the flags; in the environment they are
 * left alone, since other programs share the prefix.
 *
 * The three sources share one parser of values (set), so a value means the same wherever it stands. Every failure is
 * one sentence that names its source: the flag, the variable, or file and line.
 *
 * Adding an option is adding a field in options.h and a row in option_table.c. */
#include "app/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "http/listen.h"
#include "base/log.h"
#include "base/number.h"
#include "base/names.h"
#include "shared/pg_log.h"

/* --- values ----------------------------------------------------------------------------------------- */

/* Decimal digits with an optional k, M or G (powers of 1024) when is_size. -1 when malformed or too large. No sign
 * and no blank passes, which strtoull alone would take. kMG are for sizes only: "1k threads" is a slip. */
static int parse_number(const char *text, bool is_size, uint64_t *out)
{
    static const char units[] = "kMG";
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0]))
        return -1;
    /* The digit is checked above, since strtoull would take a sign and turn "-1" into the largest number. */
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end != '\0' && is_size ? strchr(units, *end) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    /* Whatever follows the number, or its unit, makes it malformed; the shift must not lose a bit. */
    if (errno != 0 || end[unit != NULL] != '\0' || n > UINT64_MAX >> shift)
        return -1;
    *out = (uint64_t)n << shift;
    return 0;
}

/* Words that people write in environments and files. False and true words stand in turn, so the parity of the index
 * is the value. Case counts. */
static int parse_flag(const char *text, uint64_t *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i & 1;
            return 0;
        }
    return -1;
}

/* Copies the text into its field of row->bytes bytes; nothing is cut silently. min and bytes - 1 are the bounds on
 * the length. An address is checked here for its form; whether it may be listened on without keys is
 * ld_options_check's. */
static int set_text(char *field, const struct ld_option_row *row, const char *text, struct ld_message *why)
{
    struct ld_endpoint e;
    size_t n = strlen(text);
    if (n < row->min || n >= row->bytes)
        return ld_fail(why, "expected a text of %zu to %zu bytes", (size_t)row->min, row->bytes - 1);
    if (row->kind == LD_OPTION_ADDRESS && ld_endpoint_parse(text, &e) != 0)
        return ld_fail(why, "expected a numeric HOST:PORT such as 127.0.0.1:8080 or [::1]:8080");
    if (row->kind == LD_OPTION_TENANT && !ld_tenant_name_is_valid(text))
        return ld_fail(why, "expected none, or 1 to 64 letters, digits, dots, underscores and dashes, the first a "
                            "letter or digit");
    memcpy(field, text, n + 1);
    return 0;
}

static int parse_word(const struct ld_option_row *row, const char *text, uint64_t *out)
{
    char word[32];
    for (*out = 0; ld_option_word(row, (size_t)*out, word); ++*out)
        if (strcmp(word, text) == 0)
            return 0;
    return -1;
}

/* As JSON spells numbers. *out gets the bits of the double. */
static int parse_real(const struct ld_option_row *row, const char *text, uint64_t *out)
{
    double x;
    if (!ld_number_read(text, text + strlen(text), &x) ||
        !(x >= pow(10, (double)row->min) && x <= pow(10, (double)row->max))) /* false for NaN */
        return -1;
    memcpy(out, &x, sizeof x);
    return 0;
}

/* Every kind but texts, as a number that fits the field. why gets 256 bytes at most, about the value alone: who calls
 * knows where it came from. */
static int parse_value(const struct ld_option_row *row, const char *text, uint64_t *out, struct ld_message *why)
{
    int level;
    switch (row->kind) {
    case LD_OPTION_FLAG:
        if (parse_flag(text, out) == 0)
            return 0;
        return ld_fail(why, "expected true or false");
    case LD_OPTION_LEVEL:
        if ((level = ld_log_level_from_name(text)) >= 0) {
            *out = (uint64_t)level;
            return 0;
        }
        return ld_fail(why, "expected %s", row->help);
    case LD_OPTION_WORD:
        if (parse_word(row, text, out) == 0)
            return 0;
        return ld_fail(why, "expected one of %s", row->value);
    case LD_OPTION_REAL:
        if (parse_real(row, text, out) == 0)
            return 0;
        return ld_fail(why, "expected a number from 1e%llu to 1e%llu", (unsigned long long)row->min,
                       (unsigned long long)row->max);
    default:
        if (parse_number(text, row->kind == LD_OPTION_SIZE, out) == 0 && *out >= row->min && *out <= row->max)
            return 0;
        return ld_fail(why, "expected a whole number from %llu to %llu", (unsigned long long)row->min,
                       (unsigned long long)row->max);
    }
}

/* Sets the field of row i. -1 with why about the value alone. All kinds but LD_OPTION_FLAG and the texts have fields of
 * eight bytes, a uint64_t or the double of LD_OPTION_REAL, which memcpy relies on. */
static int set(struct ld_options *o, size_t i, const char *text, enum ld_option_source source, struct ld_message *why)
{
    const struct ld_option_row *row = &ld_option_table[i];
    char *field = (char *)o + row->at;
    uint64_t value = 0;
    if (ld_option_is_text(row)) {
        if (set_text(field, row, text, why) != 0)
            return -1;
    } else {
        if (parse_value(row, text, &value, why) != 0)
            return -1;
        if (row->kind == LD_OPTION_FLAG)
            *(bool *)field = value != 0;
        else
            memcpy(field, &value, sizeof value);
    }
    o->source[i] = source;
    return 0;
}

/* Row of a name of n bytes, or ld_n_options. Exact spelling; no abbreviations, so that a new option cannot change what
 * an old script means. */
static size_t find_row(const char *name, size_t n)
{
    size_t i = 0;
    while (i < ld_n_options && (strlen(ld_option_table[i].name) != n || memcmp(ld_option_table[i].name, name, n) != 0))
        i++;
    return i;
}

/* --- sources ---------------------------------------------------------------------------------------- */

/* Row i from its variable. -1 with why. The value is shown in the message, cut: none of our options is a secret, keys
 * stand in a file of their own. */
static int read_environment(struct ld_options *o, size_t i, char *(*env_of)(const char *), struct ld_message *why)
{
    struct ld_message reason;
    char name[64];
    ld_option_env_name(&ld_option_table[i], name);
    const char *value = env_of(name);
    if (value == NULL || *value == '\0' || set(o, i, value, LD_FROM_ENVIRONMENT, &reason) == 0)
        return 0;
    return ld_fail(why, "environment variable %s: %s, got \"%.80s\"", name, reason.text, value);
}

/* Cuts blanks off both ends, in place. Returns the first byte that is left. */
static char *trim(char *s)
{
    s += strspn(s, " \t\r\n");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL)
        s[--n] = '\0';
    return s;
}

/* One line of the file; -1 with why about the line. A # begins a comment only at the start of a line, since paths may
 * hold one. `config` in a file would be read too late to mean anything, and counts as unknown. */
static int read_line(struct ld_options *o, char *line, struct ld_message *why)
{
    char *text = trim(line), *equals = strchr(text, '=');
    if (*text == '\0' || *text == '#')
        return 0;
    if (equals == NULL)
        return ld_fail(why, "expected NAME = VALUE");
    *equals = '\0';
    /* The value may hold further equals signs: only the first one separates. */
    char *name = trim(text), *value = trim(equals + 1);
    size_t i = find_row(name, strlen(name));
    if (i == ld_n_options || i == LD_CONFIG_ROW)
        return ld_fail(why, "unknown option \"%.80s\"", name);
    struct ld_message reason;
    if (set(o, i, value, LD_FROM_FILE, &reason) == 0)
        return 0;
    return ld_fail(why, "%s: %.160s, got \"%.40s\"", ld_option_table[i].name, reason.text, value);
}

/* All lines of the configuration file, if one is named; stops at the first fault. A file that is named and not there
 * is an error: starting with defaults instead would serve another folder. */
static int read_file(struct ld_options *o, struct ld_message *why)
{
    if (o->config[0] == '\0')
        return 0;
    FILE *f = fopen(o->config, "r");
    if (f == NULL)
        return ld_fail(why, "%s: %s", o->config, strerror(errno));
    struct ld_message reason;
    char line[1024];
    int rc = 0;
    for (int number = 1; rc == 0 && fgets(line, sizeof line, f) != NULL; number++)
        if ((rc = read_line(o, line, &reason)) != 0)
            ld_fail(why, "%s:%d: %s", o->config, number, reason.text);
    if (rc == 0 && ferror(f)) {
        ld_fail(why, "%s: cannot be read", o->config);
        rc = -1;
    }
    fclose(f);
    return rc;
}

/* Flags that are an action and take no value. The last one given wins. */
static bool is_action(const char *arg, enum ld_options_action *out)
{
    static const struct {
        const char *flag;
        enum ld_options_action action;
    } actions[] = {
        {"--help", LD_DO_HELP}, {"-h", LD_DO_HELP}, {"--version", LD_DO_VERSION}, {"--check-config", LD_DO_CHECK}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(arg, actions[i].flag) == 0) {
            *out = actions[i].action;
            return true;
        }
    return false;
}

/* The option at argv[*i], as --NAME VALUE, --NAME=VALUE or --LD_OPTION_FLAG; moves *i over what it used. Only row
 * `only` is set unless that is ld_n_options, so that --config can be looked for first. A value that begins with dashes
 * is taken as one when it follows its flag. LD_OPTION_FLAG kinds take a value by = only. */
static int read_flag(struct ld_options *o, int argc, char *const *argv, int *i, size_t only, struct ld_message *why)
{
    const char *arg = argv[*i];
    if (is_action(arg, &o->action))
        return 0;
    size_t n = strcspn(arg, "=");
    /* The name ends at the first = or with the argument. */
    size_t row = strncmp(arg, "--", 2) == 0 ? find_row(arg + 2, n - 2) : ld_n_options;
    if (row == ld_n_options)
        return ld_fail(why, "unknown option \"%.80s\" (--help lists them)", arg);
    const char *value = "true";
    if (arg[n] == '=')
        value = arg + n + 1;
    else if (ld_option_table[row].kind != LD_OPTION_FLAG)
        value = *i + 1 < argc ? argv[++*i] : NULL;
    struct ld_message reason = {"a value must follow"};
    /* Not looked for in this pass; its value was stepped over all the same. */
    if (value != NULL && (only != ld_n_options && only != row))
        return 0;
    if (value != NULL && set(o, row, value, LD_FROM_FLAG, &reason) == 0)
        return 0;
    return ld_fail(why, "--%s: %s%s%.80s%s", ld_option_table[row].name, reason.text, value != NULL ? ", got \"" : "",
                   value != NULL ? value : "", value != NULL ? "\"" : "");
}

/* All flags in order; a flag given twice counts as given last. There are no positional arguments: a stray word is an
 * unknown option. */
static int read_flags(struct ld_options *o, int argc, char *const *argv, size_t only, struct ld_message *why)
{
    for (int i = 1; i < argc; i++)
        if (read_flag(o, argc, argv, &i, only, why) != 0)
            return -1;
    return 0;
}

/* Twice over the flags: once for --config and the actions, once, after file and environment, for the rest. An action
 * that only prints does not want the other sources to be right. The order of the calls is the order of precedence,
 * weakest first, so each simply overwrites. `threads` 0 is resolved here and not in the server, so that
 * --check-config shows what will run. */
int ld_options_parse(struct ld_options *o, int argc, char *const *argv, char *(*env_of)(const char *name),
                     struct ld_message *why)
{
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < ld_n_options; i++)
        if (set(o, i, ld_option_table[i].preset, LD_FROM_DEFAULT, why) != 0)
            return -1; /* a fault of the table: the tests parse all defaults */
    if (read_environment(o, LD_CONFIG_ROW, env_of, why) != 0 || read_flags(o, argc, argv, LD_CONFIG_ROW, why) != 0)
        return -1;
    if (o->action == LD_DO_HELP || o->action == LD_DO_VERSION)
        return 0;
    if (read_file(o, why) != 0)
        return -1;
    for (size_t i = LD_CONFIG_ROW + 1; i < ld_n_options; i++)
        if (read_environment(o, i, env_of, why) != 0)
            return -1;
    if (read_flags(o, argc, argv, ld_n_options, why) != 0)
        return -1;
    /* Cores that are online, not those a container may use: set --threads where that differs. */
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (o->threads == 0)
        o->threads = n_cores > 0 ? (uint64_t)n_cores : 1;
    if (o->log[0] != '\0' && o->node[0] == '\0' && gethostname(o->node, LD_NAME_MAX + 1) != 0)
        o->node[0] = '\0';
    o->node[sizeof o->node - 1] = '\0';
    return 0;
}

int ld_options_take_socket(struct ld_options *o, char *(*env_of)(const char *name), struct ld_message *why)
{
    struct ld_endpoint e;
    const int n = ld_endpoint_inherited(&e, &o->listen_fd, env_of, why);
    if (n == 1)
        ld_endpoint_format(&e, o->listen);
    return n < 0 ? -1 : 0;
}

/* The sentence of the rule, for whoever finds that it is broken. */
void ld_options_refuse_keyless(const struct ld_options *o, struct ld_message *why)
{
    ld_fail(why,
            "refusing to listen on %s without keys: others can reach that address; give --admin-key-file FILE, or "
            "listen on 127.0.0.1 (and make a key there: laplacectl key create)",
            o->listen);
}

/* Whether keys may stand in the folder: only the start can tell, which opens it. */
static bool may_have_keys(const struct ld_options *o)
{
    char path[sizeof o->data + 16];
    snprintf(path, sizeof path, "%s/registry.db", o->data);
    return o->admin_key_file[0] != '\0' || access(path, F_OK) == 0;
}

static int check_log(const struct ld_options *o, struct ld_message *why)
{
    if (o->log[0] == '\0')
        return 0;
    struct ld_message wrong;
    if (ld_pg_check_url(o->log, &wrong) != 0)
        return ld_fail(why, "--log: %.400s", wrong.text);
    if (!ld_tenant_name_is_valid(o->node))
        return ld_fail(why,
                       "--node: expected 1 to 64 letters, digits, dots, underscores and dashes, the first a letter "
                       "or digit");
    /* A commit may wait for the log, and then once more until it is known what became of it. */
    if (2 * o->log_wait_ms >= 1000 * o->stuck_after_s)
        return ld_fail(why,
                       "--log-wait: expected less than half of --stuck-after, or a database that is away looks like a "
                       "server that stands still");
    return 0;
}

static int check_tls_pair(const struct ld_options *o, struct ld_message *why)
{
    if ((o->tls_cert[0] == '\0') == (o->tls_key[0] == '\0'))
        return 0;
    return ld_fail(why, "--tls-cert and --tls-key go together: --tls-%s is missing",
                   o->tls_key[0] == '\0' ? "key" : "cert");
}

/* Apart from parsing, so that --help and --version work with any configuration. Refuses before anything is made where
 * there can be no keys (app.c has the rest of the rule). */
int ld_options_check(const struct ld_options *o, struct ld_message *why)
{
    struct ld_endpoint e;
    if (ld_endpoint_parse(o->listen, &e) != 0)
        return ld_fail(why, "--listen: \"%s\" is not an address", o->listen);
    if (ld_origins_check(o->cors_origin, why) != 0)
        return -1;
    const uint64_t largest = o->max_bulk_body > o->max_observe_body ? o->max_bulk_body : o->max_observe_body;
    if (o->max_body_memory < largest || o->max_body_memory < o->max_body)
        return ld_fail(why, "--max-body-memory: %llu bytes are less than one body may have",
                       (unsigned long long)o->max_body_memory);
    if (!ld_endpoint_is_loopback(&e) && !may_have_keys(o)) {
        ld_options_refuse_keyless(o, why);
        return -1;
    }
    return check_log(o, why) != 0 ? -1 : check_tls_pair(o, why);
}
