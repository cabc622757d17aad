/* Options. Each row of the table says how an option is spelled, what values it takes, its default and its help; the
 * flag is --NAME, the environment variable LAPLACED_NAME in capitals with underscores, the line of the configuration
 * file "NAME = VALUE".
 *
 * Sources are applied from the weakest to the strongest, so that the last one wins: default, file, environment, flag.
 * The file itself is named by --config or LAPLACED_CONFIG. An empty variable counts as unset, so that a container can
 * take back what its image sets. Unknown names are errors in the file and among the flags; in the environment they are
 * left alone, since other programs share the prefix.
 *
 * The three sources share one parser of values (set), so a value means the same wherever it stands. Every failure is
 * one sentence that names its source: the flag, the variable, or file and line.
 *
 * Adding an option is adding a field in options.h and a row here; --help, --check-config, the environment and the
 * file follow by themselves. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listen.h"
#include "log.h"
#include "version.h"

/* What a value looks like: a text, a numeric HOST:PORT, a whole number, one with an optional unit, a boolean, a
 * level's name. All but the first two end up in a number. */
enum kind { TEXT, ADDRESS, COUNT, SIZE, FLAG, LEVEL };

/* One option. `preset` is parsed like any other value, so a default cannot be out of its own range unnoticed. */
struct row {
    const char *name, *value; /* value: what --help calls the argument */
    enum kind kind;
    size_t at, bytes; /* of the field in struct ld_options; bytes of a text */
    uint64_t min, max;
    const char *preset, *help;
};

#define FIELD(f) offsetof(struct ld_options, f), sizeof((struct ld_options *)0)->f

/* clang-format off */
/* Columns: name, argument in --help, kind, field and its size, smallest and largest value (of a text: length),
 * default, help. Caps on bodies bound what one request can cost; caps per tenant bound what one tenant can cost the
 * others. */
static const struct row table[] = {
    {"config", "FILE", TEXT, FIELD(config), 0, 0, "", "read options from FILE: lines of NAME = VALUE, # comments"},
    {"data", "DIR", TEXT, FIELD(data), 1, 0, "./data", "folder of the tenants' files; made when missing"},
    {"listen", "HOST:PORT", ADDRESS, FIELD(listen), 0, 0, "127.0.0.1:8080",
     "numeric address, [::1]:8080 for IPv6; port 0 takes any free one"},
    {"admin-key-file", "FILE", TEXT, FIELD(admin_key_file), 0, 0, "",
     "keys that clients must show, one a line; needed off loopback"},
    {"threads", "N", COUNT, FIELD(threads), 0, 256, "0", "threads that serve HTTP; 0: one per core"},
    {"max-body", "BYTES", SIZE, FIELD(max_body), 1024, 1u << 30, "1M", "largest body of ordinary requests"},
    {"max-observe-body", "BYTES", SIZE, FIELD(max_observe_body), 1024, 1u << 30, "16M",
     "largest NDJSON body of /observe"},
    {"max-bulk-body", "BYTES", SIZE, FIELD(max_bulk_body), 1024, 4ull << 30, "256M", "largest body of graphs and arms"},
    {"timeout", "SECONDS", COUNT, FIELD(timeout_s), 1, 3600, "30", "end connections idle for so long"},
    {"max-connections", "N", COUNT, FIELD(max_connections), 4, 1000000, "1024", "open connections at a time"},
    {"max-queue", "N", COUNT, FIELD(max_queue), 1, 1u << 20, "4096",
     "changes waiting per tenant before it answers 503"},
    {"max-pending", "N", COUNT, FIELD(max_pending), 1, 1u << 30, "1000000",
     "open decisions per tenant before it answers 503"},
    {"snapshot-events", "N", COUNT, FIELD(snapshot_events), 1, 1ull << 40, "10000", "log rows between snapshots"},
    {"verify", NULL, FLAG, FIELD(is_verifying), 0, 1, "false",
     "at start, compare snapshots with a fresh fold of the log"},
    {"log-level", "LEVEL", LEVEL, FIELD(log_level), 0, 0, "info", "debug, info, warn or error"},
    {"drain-timeout", "SECONDS", COUNT, FIELD(drain_timeout_s), 0, 3600, "30",
     "how long a stopping server waits for requests in flight"},
};
/* clang-format on */

enum { N_ROWS = sizeof table / sizeof *table, CONFIG_ROW = 0 };
_Static_assert(N_ROWS <= LD_MAX_OPTIONS, "sources have a slot for every option");

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
static int set_text(char *field, const struct row *row, const char *text, char *why)
{
    struct ld_endpoint e;
    size_t n = strlen(text);
    if (n < row->min || n >= row->bytes) {
        snprintf(why, 256, "expected a text of %zu to %zu bytes", (size_t)row->min, row->bytes - 1);
        return -1;
    }
    if (row->kind == ADDRESS && ld_endpoint_parse(text, &e) != 0) {
        snprintf(why, 256, "expected a numeric HOST:PORT such as 127.0.0.1:8080 or [::1]:8080");
        return -1;
    }
    memcpy(field, text, n + 1);
    return 0;
}

/* Every kind but texts, as a number that fits the field. why gets 256 bytes at most, about the value alone: who calls
 * knows where it came from. */
static int parse_value(const struct row *row, const char *text, uint64_t *out, char *why)
{
    int level;
    switch (row->kind) {
    case FLAG:
        if (parse_flag(text, out) == 0)
            return 0;
        snprintf(why, 256, "expected true or false");
        return -1;
    case LEVEL:
        if ((level = ld_log_level_from_name(text)) >= 0) {
            *out = (uint64_t)level;
            return 0;
        }
        snprintf(why, 256, "expected %s", row->help);
        return -1;
    default:
        if (parse_number(text, row->kind == SIZE, out) == 0 && *out >= row->min && *out <= row->max)
            return 0;
        snprintf(why, 256, "expected a whole number from %llu to %llu", (unsigned long long)row->min,
                 (unsigned long long)row->max);
        return -1;
    }
}

/* Sets the field of row i. -1 with why about the value alone. All kinds but FLAG and the texts have fields of type
 * uint64_t, which memcpy relies on. */
static int set(struct ld_options *o, size_t i, const char *text, enum ld_option_source source, char *why)
{
    const struct row *row = &table[i];
    char *field = (char *)o + row->at;
    uint64_t value;
    if (row->kind == TEXT || row->kind == ADDRESS) {
        if (set_text(field, row, text, why) != 0)
            return -1;
    } else {
        if (parse_value(row, text, &value, why) != 0)
            return -1;
        if (row->kind == FLAG)
            *(bool *)field = value != 0;
        else
            memcpy(field, &value, sizeof value);
    }
    o->source[i] = source;
    return 0;
}

/* Row of a name of n bytes, or N_ROWS. Exact spelling; no abbreviations, so that a new option cannot change what an
 * old script means. */
static size_t find_row(const char *name, size_t n)
{
    size_t i = 0;
    while (i < N_ROWS && (strlen(table[i].name) != n || memcmp(table[i].name, name, n) != 0))
        i++;
    return i;
}

/* --- sources ---------------------------------------------------------------------------------------- */

/* "max-body" -> "LAPLACED_MAX_BODY". Names are far below the buffer's 64 bytes. */
static void env_name(const struct row *row, char out[64])
{
    snprintf(out, 64, "LAPLACED_%s", row->name);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

/* Row i from its variable. -1 with why. The value is shown in the message, cut: none of our options is a secret, keys
 * stand in a file of their own. */
static int read_environment(struct ld_options *o, size_t i, char *(*env_of)(const char *), char *why)
{
    char name[64], reason[256];
    env_name(&table[i], name);
    const char *value = env_of(name);
    if (value == NULL || *value == '\0' || set(o, i, value, LD_FROM_ENVIRONMENT, reason) == 0)
        return 0;
    snprintf(why, LD_WHY_BYTES, "environment variable %s: %s, got \"%.80s\"", name, reason, value);
    return -1;
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
static int read_line(struct ld_options *o, char *line, char *why)
{
    char *text = trim(line), *equals = strchr(text, '=');
    if (*text == '\0' || *text == '#')
        return 0;
    if (equals == NULL) {
        snprintf(why, 256, "expected NAME = VALUE");
        return -1;
    }
    *equals = '\0';
    /* The value may hold further equals signs: only the first one separates. */
    char *name = trim(text), *value = trim(equals + 1);
    size_t i = find_row(name, strlen(name));
    if (i == N_ROWS || i == CONFIG_ROW) {
        snprintf(why, 256, "unknown option \"%.80s\"", name);
        return -1;
    }
    char reason[256];
    if (set(o, i, value, LD_FROM_FILE, reason) == 0)
        return 0;
    snprintf(why, 256, "%s: %.160s, got \"%.40s\"", table[i].name, reason, value);
    return -1;
}

/* All lines of the configuration file, if one is named; stops at the first fault. A file that is named and not there
 * is an error: starting with defaults instead would serve another folder. */
static int read_file(struct ld_options *o, char *why)
{
    if (o->config[0] == '\0')
        return 0;
    FILE *f = fopen(o->config, "r");
    if (f == NULL) {
        snprintf(why, LD_WHY_BYTES, "%s: %s", o->config, strerror(errno));
        return -1;
    }
    char line[1024], reason[256];
    int rc = 0;
    for (int number = 1; rc == 0 && fgets(line, sizeof line, f) != NULL; number++)
        if ((rc = read_line(o, line, reason)) != 0)
            snprintf(why, LD_WHY_BYTES, "%s:%d: %s", o->config, number, reason);
    if (rc == 0 && ferror(f)) {
        snprintf(why, LD_WHY_BYTES, "%s: cannot be read", o->config);
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

/* The option at argv[*i], as --NAME VALUE, --NAME=VALUE or --FLAG; moves *i over what it used. Only row `only` is set
 * unless that is N_ROWS, so that --config can be looked for first. A value that begins with dashes is taken as one
 * when it follows its flag. FLAG kinds take a value by = only. */
static int read_flag(struct ld_options *o, int argc, char *const *argv, int *i, size_t only, char *why)
{
    const char *arg = argv[*i];
    if (is_action(arg, &o->action))
        return 0;
    size_t n = strcspn(arg, "=");
    /* The name ends at the first = or with the argument. */
    size_t row = strncmp(arg, "--", 2) == 0 ? find_row(arg + 2, n - 2) : N_ROWS;
    if (row == N_ROWS) {
        snprintf(why, LD_WHY_BYTES, "unknown option \"%.80s\" (--help lists them)", arg);
        return -1;
    }
    const char *value = "true";
    if (arg[n] == '=')
        value = arg + n + 1;
    else if (table[row].kind != FLAG)
        value = *i + 1 < argc ? argv[++*i] : NULL;
    char reason[256] = "a value must follow";
    /* Not looked for in this pass; its value was stepped over all the same. */
    if (value != NULL && (only != N_ROWS && only != row))
        return 0;
    if (value != NULL && set(o, row, value, LD_FROM_FLAG, reason) == 0)
        return 0;
    snprintf(why, LD_WHY_BYTES, "--%s: %s%s%.80s%s", table[row].name, reason, value != NULL ? ", got \"" : "",
             value != NULL ? value : "", value != NULL ? "\"" : "");
    return -1;
}

/* All flags in order; a flag given twice counts as given last. There are no positional arguments: a stray word is an
 * unknown option. */
static int read_flags(struct ld_options *o, int argc, char *const *argv, size_t only, char *why)
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
int ld_options_parse(struct ld_options *o, int argc, char *const *argv, char *(*env_of)(const char *name), char *why)
{
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < N_ROWS; i++)
        if (set(o, i, table[i].preset, LD_FROM_DEFAULT, why) != 0)
            return -1; /* a fault of the table: the tests parse all defaults */
    if (read_environment(o, CONFIG_ROW, env_of, why) != 0 || read_flags(o, argc, argv, CONFIG_ROW, why) != 0)
        return -1;
    if (o->action == LD_DO_HELP || o->action == LD_DO_VERSION)
        return 0;
    if (read_file(o, why) != 0)
        return -1;
    for (size_t i = CONFIG_ROW + 1; i < N_ROWS; i++)
        if (read_environment(o, i, env_of, why) != 0)
            return -1;
    if (read_flags(o, argc, argv, N_ROWS, why) != 0)
        return -1;
    /* Cores that are online, not those a container may use: set --threads where that differs. */
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (o->threads == 0)
        o->threads = n_cores > 0 ? (uint64_t)n_cores : 1;
    return 0;
}

/* Apart from parsing, so that --help and --version work with any configuration. This is the one rule that keeps a
 * server without keys from being open to a network; there is no flag to lift it. */
int ld_options_check(const struct ld_options *o, char *why)
{
    struct ld_endpoint e;
    if (ld_endpoint_parse(o->listen, &e) != 0) {
        snprintf(why, LD_WHY_BYTES, "--listen: \"%s\" is not an address", o->listen);
        return -1;
    }
    if (!ld_endpoint_is_loopback(&e) && o->admin_key_file[0] == '\0') {
        snprintf(why, LD_WHY_BYTES,
                 "refusing to listen on %s without keys: others can reach that address; "
                 "give --admin-key-file FILE, or listen on 127.0.0.1",
                 o->listen);
        return -1;
    }
    return 0;
}

/* --- printing --------------------------------------------------------------------------------------- */

/* From the table alone: an option cannot be forgotten here. Each option on a line of its own, its variable and
 * default below. */
void ld_options_help(FILE *out)
{
    fprintf(out, "laplaced " LD_VERSION ": bandit decisions over a graph of users, by HTTP\n\n"
                 "usage: laplaced [OPTIONS]\n\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        char left[64], env[64];
        snprintf(left, sizeof left, "--%s %s", table[i].name, table[i].value != NULL ? table[i].value : "");
        env_name(&table[i], env);
        fprintf(out, "  %-26s %s\n  %-26s (%s; default %s)\n", left, table[i].help, "", env,
                table[i].preset[0] != '\0' ? table[i].preset : "none");
    }
    fprintf(out, "  %-26s print the options in force and where each comes from\n", "--check-config");
    fprintf(out, "  %-26s print the version\n", "--version");
    fprintf(out, "  %-26s print this\n\n", "--help");
    fprintf(out, "A flag goes before its environment variable, that before a line of the configuration file.\n"
                 "SIGTERM and SIGINT finish the requests in flight and stop; SIGHUP reads the keys again.\n");
}

/* The value in force, spelled so that the parser reads it back. Sizes are printed in bytes, without a unit. */
static void print_value(const struct ld_options *o, const struct row *row, FILE *out)
{
    const char *field = (const char *)o + row->at;
    uint64_t value = 0;
    if (row->kind == COUNT || row->kind == SIZE || row->kind == LEVEL)
        memcpy(&value, field, sizeof value);
    if (row->kind == TEXT || row->kind == ADDRESS)
        fputs(field, out);
    else if (row->kind == FLAG)
        fputs(*(const bool *)field ? "true" : "false", out);
    else if (row->kind == LEVEL)
        fputs(ld_log_level_name((int)value), out);
    else
        fprintf(out, "%llu", (unsigned long long)value);
}

/* --config itself is left out: the output can stand in its place. Keys are not among the options, so the output may
 * be shown to others. */
void ld_options_print(const struct ld_options *o, FILE *out)
{
    static const char *const sources[] = {"default", "file", "environment", "flag"};
    for (size_t i = CONFIG_ROW + 1; i < N_ROWS; i++) {
        fprintf(out, "# %s\n%s = ", sources[o->source[i]], table[i].name);
        print_value(o, &table[i], out);
        fputc('\n', out);
    }
}
