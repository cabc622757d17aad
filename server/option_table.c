/* The options' table, and what is printed from it: --help and --check-config. Adding an option is adding a field in
 * options.h and a row here; parsing, the environment and the file follow by themselves. */
#include "option_table.h"

#include <ctype.h>
#include <string.h>

#include "log.h"
#include "version.h"

#define FIELD(f) offsetof(struct ld_options, f), sizeof((struct ld_options *)0)->f

/* clang-format off */
/* Columns: name, argument in --help, kind, field and its size, smallest and largest value (of a text: length),
 * default, help. Caps on bodies bound what one request can cost; caps per tenant bound what one tenant can cost the
 * others. */
const struct ld_option_row ld_option_table[LD_N_OPTIONS] = {
    {"config", "FILE", LD_OPTION_TEXT, FIELD(config), 0, 0, "", "read options from FILE: lines of NAME = VALUE, # comments"},
    {"data", "DIR", LD_OPTION_TEXT, FIELD(data), 1, 0, "./data", "folder of the tenants' files; made when missing"},
    {"listen", "HOST:PORT", LD_OPTION_ADDRESS, FIELD(listen), 0, 0, "127.0.0.1:8080",
     "numeric address, [::1]:8080 for IPv6; port 0 takes any free one"},
    {"admin-key-file", "FILE", LD_OPTION_TEXT, FIELD(admin_key_file), 0, 0, "",
     "admin keys, one a line; off loopback a key is needed, there or made by the API"},
    {"threads", "N", LD_OPTION_COUNT, FIELD(threads), 0, 256, "0", "threads that serve HTTP; 0: one per core"},
    {"max-body", "BYTES", LD_OPTION_SIZE, FIELD(max_body), 1024, 1u << 30, "1M", "largest body of ordinary requests"},
    {"max-observe-body", "BYTES", LD_OPTION_SIZE, FIELD(max_observe_body), 1024, 1u << 30, "16M",
     "largest NDJSON body of /observe"},
    {"max-bulk-body", "BYTES", LD_OPTION_SIZE, FIELD(max_bulk_body), 1024, 4ull << 30, "256M", "largest body of graphs and arms"},
    {"max-import-body", "BYTES", LD_OPTION_SIZE, FIELD(max_import_body), 1024, 1ull << 50, "16G",
     "largest log or file that a tenant is made from; kept on the disk"},
    {"timeout", "SECONDS", LD_OPTION_COUNT, FIELD(timeout_s), 1, 3600, "30", "end connections idle for so long"},
    {"max-connections", "N", LD_OPTION_COUNT, FIELD(max_connections), 4, 1000000, "1024", "open connections at a time"},
    {"max-queue", "N", LD_OPTION_COUNT, FIELD(max_queue), 1, 1u << 20, "4096",
     "changes waiting per tenant before it answers 503"},
    {"max-pending", "N", LD_OPTION_COUNT, FIELD(max_pending), 1, 1u << 30, "1000000",
     "open decisions per tenant before it answers 503"},
    {"snapshot-events", "N", LD_OPTION_COUNT, FIELD(snapshot_events), 1, 1ull << 40, "10000", "log rows between snapshots"},
    {"inline-work", "N", LD_OPTION_COUNT, FIELD(inline_work), 0, 1ull << 50, "20000000",
     "multiply-adds that a change of a model may take at once; more is done in the background"},
    {"memory-cap", "BYTES", LD_OPTION_SIZE, FIELD(memory_cap), 0, 1ull << 50, "0",
     "memory of tenants beyond which idle ones are closed until their next request; 0: none"},
    {"tenant-quota", "BYTES", LD_OPTION_SIZE, FIELD(tenant_quota), 0, 1ull << 50, "0",
     "memory of one tenant's model; what would take more is refused with 507; 0: none"},
    {"tenant-rate", "TOKENS", LD_OPTION_COUNT, FIELD(tenant_rate), 0, 1000000000, "0",
     "work of each tenant in a second, one token being a small request; beyond it 429; 0: no limit"},
    {"tenant-burst", "TOKENS", LD_OPTION_COUNT, FIELD(tenant_burst), 0, 1000000000000, "0",
     "tokens that a tenant can save up; 0: what comes in ten seconds"},
    {"open-all", NULL, LD_OPTION_FLAG, FIELD(is_opening_all), 0, 1, "false",
     "open every tenant at start, and refuse to start when one cannot be opened"},
    {"verify", NULL, LD_OPTION_FLAG, FIELD(is_verifying), 0, 1, "false",
     "compare snapshots with a fresh fold of the log; opens every tenant at start"},
    {"log-level", "LD_OPTION_LEVEL", LD_OPTION_LEVEL, FIELD(log_level), 0, 0, "info", "debug, info, warn or error"},
    {"log-format", "text|json", LD_OPTION_WORD, FIELD(log_format), 0, 0, "text", "form of the log's lines: logfmt or JSON"},
    {"log-requests", "all|slow|errors|none", LD_OPTION_WORD, FIELD(log_requests), 0, 0, "slow",
     "requests with a line in the log: every one; those answered 5xx and slow ones; those answered 5xx; none"},
    {"slow-request", "MS", LD_OPTION_COUNT, FIELD(slow_request_ms), 1, 86400000, "1000", "milliseconds from which a request is slow"},
    {"metrics-tenants", "N", LD_OPTION_COUNT, FIELD(metrics_tenants), 0, 1000000, "1000",
     "tenants with series of their own in /metrics, of those in memory, in order of name"},
    {"drain-timeout", "SECONDS", LD_OPTION_COUNT, FIELD(drain_timeout_s), 0, 3600, "30",
     "how long a stopping server waits for requests in flight"},
};
/* clang-format on */

/* "max-body" -> "LAPLACED_MAX_BODY". Names are far below the buffer's 64 bytes. */
void ld_option_env_name(const struct ld_option_row *row, char out[64])
{
    snprintf(out, 64, "LAPLACED_%s", row->name);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

/* Words are short. */
bool ld_option_word(const struct ld_option_row *row, size_t i, char out[32])
{
    const char *at = row->value;
    for (; i > 0 && at != NULL; i--) {
        at = strchr(at, '|');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at == NULL)
        return false;
    snprintf(out, 32, "%.*s", (int)strcspn(at, "|"), at);
    return true;
}

/* --- printing --------------------------------------------------------------------------------------- */

/* From the table alone: an option cannot be forgotten here. Each option on a line of its own, its variable and
 * default below. */
void ld_options_help(FILE *out)
{
    fprintf(out, "laplaced " LD_VERSION ": bandit decisions over a graph of users, by HTTP\n\n"
                 "usage: laplaced [OPTIONS]\n\n");
    for (size_t i = 0; i < LD_N_OPTIONS; i++) {
        char left[64], env[64];
        snprintf(left, sizeof left, "--%s %s", ld_option_table[i].name,
                 ld_option_table[i].value != NULL ? ld_option_table[i].value : "");
        ld_option_env_name(&ld_option_table[i], env);
        fprintf(out, "  %-26s %s\n  %-26s (%s; default %s)\n", left, ld_option_table[i].help, "", env,
                ld_option_table[i].preset[0] != '\0' ? ld_option_table[i].preset : "none");
    }
    fprintf(out, "  %-26s print the options in force and where each comes from\n", "--check-config");
    fprintf(out, "  %-26s print the version\n", "--version");
    fprintf(out, "  %-26s print this\n\n", "--help");
    fprintf(out, "A flag goes before its environment variable, that before a line of the configuration file.\n"
                 "SIGTERM and SIGINT finish the requests in flight and stop; SIGHUP reads the key file again.\n");
}

/* The value in force, spelled so that the parser reads it back. Sizes are printed in bytes, without a unit. */
static void print_value(const struct ld_options *o, const struct ld_option_row *row, FILE *out)
{
    const char *field = (const char *)o + row->at;
    uint64_t value = 0;
    char word[32];
    if (row->kind != LD_OPTION_TEXT && row->kind != LD_OPTION_ADDRESS && row->kind != LD_OPTION_FLAG)
        memcpy(&value, field, sizeof value);
    if (row->kind == LD_OPTION_TEXT || row->kind == LD_OPTION_ADDRESS)
        fputs(field, out);
    else if (row->kind == LD_OPTION_FLAG)
        fputs(*(const bool *)field ? "true" : "false", out);
    else if (row->kind == LD_OPTION_LEVEL)
        fputs(ld_log_level_name((int)value), out);
    else if (row->kind == LD_OPTION_WORD && ld_option_word(row, (size_t)value, word))
        fputs(word, out);
    else
        fprintf(out, "%llu", (unsigned long long)value);
}

/* --config itself is left out: the output can stand in its place. Keys are not among the options, so the output may
 * be shown to others. */
void ld_options_print(const struct ld_options *o, FILE *out)
{
    static const char *const sources[] = {"default", "file", "environment", "flag"};
    for (size_t i = LD_CONFIG_ROW + 1; i < LD_N_OPTIONS; i++) {
        fprintf(out, "# %s\n%s = ", sources[o->source[i]], ld_option_table[i].name);
        print_value(o, &ld_option_table[i], out);
        fputc('\n', out);
    }
}
