/* The options' table, and what is printed from it: --help and --check-config. Adding an option is adding a field in
 * option_table.h and a row here; parsing, the environment and the file follow by themselves. */
#include "app/option_table.h"

#include <ctype.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"

#define FIELD(f) offsetof(struct ld_options, f), sizeof((struct ld_options *)0)->f

/* clang-format off */
/* Columns: name, argument in --help, kind, field and its size, smallest and largest value (of a text: length),
 * default, help, whether SIGHUP puts a change in force (then ld_app_put_in_force has a line for it). Caps on bodies
 * bound what one request can cost; caps per tenant bound what one tenant can cost the others. */
const struct ld_option_row ld_option_table[] = {
    {"config", "FILE", LD_OPTION_TEXT, FIELD(config), 0, 0, "", "read options from FILE: lines of NAME = VALUE, # comments", LD_AT_START},
    {"data", "DIR", LD_OPTION_TEXT, FIELD(data), 1, 0, "./data", "folder of the tenants' files; made when missing", LD_AT_START},
    {"default-tenant", "NAME|none", LD_OPTION_TENANT, FIELD(default_tenant), 1, 0, "default",
     "tenant of requests that name none, made with a new folder; none: such requests are refused", LD_AT_START},
    {"log", "URL", LD_OPTION_TEXT, FIELD(log), 0, 0, "",
     "the log that several servers share, postgresql://HOST/DB; without it each tenant's file is its log", LD_AT_START},
    {"node", "NAME", LD_OPTION_TEXT, FIELD(node), 0, 0, "", "this server's name in the shared log, another for each; the host's without it", LD_AT_START},
    {"log-sync", "required|trusted", LD_OPTION_WORD, FIELD(log_sync), 0, 0, "required",
     "required: nothing is acknowledged that no standby has on its disk; trusted: the storage below PostgreSQL is replicated", LD_AT_START},
    {"log-wait", "MS", LD_OPTION_COUNT, FIELD(log_wait_ms), 100, 600000, "5000",
     "how long a change waits for the shared log before the answer is 503", LD_AT_START},
    {"log-poll", "MS", LD_OPTION_COUNT, FIELD(log_poll_ms), 1, 60000, "50", "how often the shared log is asked what other servers have written", LD_AT_START},
    {"max-lag", "MS", LD_OPTION_COUNT, FIELD(max_lag_ms), 10, 86400000, "2000",
     "how far this server may be behind the shared log, or cut off from it, before it says that it is not ready", LD_AT_START},
    {"listen", "HOST:PORT", LD_OPTION_ADDRESS, FIELD(listen), 0, 0, "127.0.0.1:8080",
     "numeric address, [::1]:8080 for IPv6; port 0 takes any free one", LD_AT_START},
    {"admin-key-file", "FILE", LD_OPTION_TEXT, FIELD(admin_key_file), 0, 0, "",
     "file of admin keys, one a line, read again on SIGHUP; off loopback the server needs a key, from here or made by the API", LD_LIVE},
    {"cors-origin", "LIST", LD_OPTION_TEXT, FIELD(cors_origin), 0, 0, "",
     "origins whose pages may evaluate flags, with commas between them, or *; without it none may", LD_AT_START},
    {"console", "auto|on|off", LD_OPTION_WORD, FIELD(console), 0, 0, "auto",
     "the console at /console/, a page for people; auto: on loopback, or where connections are TLS", LD_AT_START},
    {"tls-cert", "FILE", LD_OPTION_TEXT, FIELD(tls_cert), 0, 0, "",
     "certificate and its chain (PEM); with it every connection is TLS; SIGHUP reads the file again", LD_AT_START},
    {"tls-key", "FILE", LD_OPTION_TEXT, FIELD(tls_key), 0, 0, "", "private key of the certificate (PEM); SIGHUP reads it again", LD_AT_START},
    {"threads", "N", LD_OPTION_COUNT, FIELD(threads), 0, 256, "0", "threads that serve HTTP; 0: one per core", LD_AT_START},
    {"max-body", "BYTES", LD_OPTION_SIZE, FIELD(max_body), 1024, 1u << 30, "1M", "largest body of ordinary requests", LD_LIVE},
    {"max-observe-body", "BYTES", LD_OPTION_SIZE, FIELD(max_observe_body), 1024, 1u << 30, "16M",
     "largest NDJSON body of /observe", LD_LIVE},
    {"max-bulk-body", "BYTES", LD_OPTION_SIZE, FIELD(max_bulk_body), 1024, 4ull << 30, "256M", "largest body of graphs and arms", LD_LIVE},
    {"max-body-memory", "BYTES", LD_OPTION_SIZE, FIELD(max_body_memory), 1024, 1ull << 50, "1G",
     "memory for the bodies of all requests, counting what each has over 64 kB; beyond it the answer is 503", LD_LIVE},
    {"max-import-body", "BYTES", LD_OPTION_SIZE, FIELD(max_import_body), 1024, 1ull << 50, "16G",
     "largest log or file that a tenant is made from; it is kept on the disk", LD_LIVE},
    {"max-header", "BYTES", LD_OPTION_SIZE, FIELD(max_header), 1024, 1u << 20, "16k", "largest request line with headers", LD_AT_START},
    {"timeout", "SECONDS", LD_OPTION_COUNT, FIELD(timeout_s), 1, 3600, "30", "close a connection that has had no request for so long", LD_LIVE},
    {"header-timeout", "SECONDS", LD_OPTION_COUNT, FIELD(header_timeout_s), 1, 3600, "10",
     "time for the headers of a request, from the connection or the request line", LD_LIVE},
    {"body-timeout", "SECONDS", LD_OPTION_COUNT, FIELD(body_timeout_s), 1, 3600, "30",
     "time in which a body or an answer must move at --min-rate; counted anew each time that it does", LD_LIVE},
    {"min-rate", "BYTES", LD_OPTION_SIZE, FIELD(min_rate), 0, 1u << 30, "1k", "bytes a second at which bodies and answers must move", LD_LIVE},
    {"max-connections", "N", LD_OPTION_COUNT, FIELD(max_connections), 4, 1000000, "4096",
     "open connections; beyond it, connections without a request are closed", LD_AT_START},
    {"max-connections-per-address", "N", LD_OPTION_COUNT, FIELD(max_connections_per_address), 0, 1000000, "0",
     "open connections of one IPv4 address or IPv6 /64; loopback does not count; 0: no limit", LD_AT_START},
    {"max-candidates", "N", LD_OPTION_COUNT, FIELD(max_candidates), 1, 1024, "1024",
     "candidates that a request may name", LD_LIVE},
    {"max-arms", "N", LD_OPTION_COUNT, FIELD(max_arms), 1, 1u << 30, "100000",
     "active arms of the catalogue, for a request that names no candidates", LD_LIVE},
    {"max-dim", "N", LD_OPTION_COUNT, FIELD(max_dim), 0, 4096, "4096",
     "largest context_dim and arm_dim of a configuration", LD_LIVE},
    {"max-magnitude", "X", LD_OPTION_REAL, FIELD(max_magnitude), 0, 30, "1e12",
     "largest size of a reward, a coordinate, or the weight of an edge", LD_LIVE},
    {"max-queue", "N", LD_OPTION_COUNT, FIELD(max_queue), 1, 1u << 20, "4096",
     "changes that may wait for one tenant; beyond it the answer is 503", LD_LIVE},
    {"max-queue-bytes", "BYTES", LD_OPTION_SIZE, FIELD(max_queue_bytes), 1024, 1ull << 40, "256M",
     "bytes of the bodies of these changes; beyond it the answer is 503", LD_LIVE},
    {"max-opening", "N", LD_OPTION_COUNT, FIELD(max_opening), 1, 1u << 20, "256",
     "requests that may wait until one tenant is open; beyond it the answer is 503", LD_LIVE},
    {"max-work", "N", LD_OPTION_COUNT, FIELD(max_work), 1, 1u << 20, "256",
     "requests that may wait for a thread to do long work; beyond it the answer is 503", LD_LIVE},
    {"max-transfers", "N", LD_OPTION_COUNT, FIELD(max_transfers), 1, 1u << 20, "32",
     "copies and imports that may wait for a thread; beyond it the answer is 503", LD_LIVE},
    {"max-pending", "N", LD_OPTION_COUNT, FIELD(max_pending), 1, 1u << 30, "1000000",
     "open decisions of one tenant; beyond it the answer is 503", LD_LIVE},
    {"snapshot-events", "N", LD_OPTION_COUNT, FIELD(snapshot_events), 1, 1ull << 40, "10000", "rows of the log between two snapshots, which make a restart quick", LD_LIVE},
    {"inline-work", "N", LD_OPTION_COUNT, FIELD(inline_work), 0, 1ull << 50, "20000000",
     "multiply-adds that a change of a model may take at once; longer work is done in the background", LD_LIVE},
    {"finish-builds", NULL, LD_OPTION_FLAG, FIELD(is_finishing_builds), 0, 1, "false",
     "finish background builds before the next change: decisions then depend on requests and seed alone", LD_AT_START},
    {"memory-cap", "BYTES", LD_OPTION_SIZE, FIELD(memory_cap), 0, 1ull << 50, "0",
     "memory of all tenants; beyond it idle tenants are closed until their next request; 0: no limit", LD_LIVE},
    {"tenant-quota", "BYTES", LD_OPTION_SIZE, FIELD(tenant_quota), 0, 1ull << 50, "0",
     "memory of one tenant's model; a change that needs more is refused with 507; 0: no limit", LD_LIVE},
    {"tenant-rate", "TOKENS", LD_OPTION_COUNT, FIELD(tenant_rate), 0, 1000000000, "0",
     "work of each tenant in a second; a small request costs one token; beyond it the answer is 429; 0: no limit", LD_LIVE},
    {"tenant-burst", "TOKENS", LD_OPTION_COUNT, FIELD(tenant_burst), 0, 1000000000000, "0",
     "tokens that a tenant can save up; 0: as many as come in ten seconds", LD_LIVE},
    {"open-all", NULL, LD_OPTION_FLAG, FIELD(is_opening_all), 0, 1, "false",
     "open every tenant at start, and refuse to start when one cannot be opened", LD_AT_START},
    {"verify", NULL, LD_OPTION_FLAG, FIELD(is_verifying), 0, 1, "false",
     "compare snapshots with a fresh fold of the log; opens every tenant at start", LD_AT_START},
    {"log-level", "LEVEL", LD_OPTION_LEVEL, FIELD(log_level), 0, 0, "info", "debug, info, warn or error", LD_LIVE},
    {"log-format", "text|json", LD_OPTION_WORD, FIELD(log_format), 0, 0, "text", "form of the log's lines: text (logfmt) or JSON", LD_AT_START},
    {"log-requests", "all|slow|errors|none", LD_OPTION_WORD, FIELD(log_requests), 0, 0, "slow",
     "which requests have a line in the log: all; those answered 5xx and slow ones; those answered 5xx; none", LD_LIVE},
    {"slow-request", "MS", LD_OPTION_COUNT, FIELD(slow_request_ms), 1, 86400000, "1000", "a request that takes so many milliseconds is slow", LD_LIVE},
    {"metrics-tenants", "N", LD_OPTION_COUNT, FIELD(metrics_tenants), 0, 1000000, "1000",
     "tenants with series of their own in /metrics: of those in memory, the first ones by name", LD_LIVE},
    {"drain-timeout", "SECONDS", LD_OPTION_COUNT, FIELD(drain_timeout_s), 0, 3600, "30",
     "how long a stopping server waits for requests in flight", LD_LIVE},
    {"stuck-after", "SECONDS", LD_OPTION_COUNT, FIELD(stuck_after_s), 1, 3600, "60",
     "how long the loop, or the commit of a waiting change, may stand still before probes and watchdog say so", LD_LIVE},
};
/* clang-format on */
const size_t ld_n_options = sizeof ld_option_table / sizeof *ld_option_table;
_Static_assert(sizeof ld_option_table / sizeof *ld_option_table <= LD_MAX_OPTIONS, "a source for every option");

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
    fprintf(out, "laplaced " LD_VERSION ": decides over HTTP what to show to which user, and learns from rewards\n\n"
                 "usage: laplaced [OPTIONS]\n\n");
    for (size_t i = 0; i < ld_n_options; i++) {
        char left[64], env[64];
        snprintf(left, sizeof left, "--%s %s", ld_option_table[i].name,
                 ld_option_table[i].value != NULL ? ld_option_table[i].value : "");
        ld_option_env_name(&ld_option_table[i], env);
        fprintf(out, "  %-26s %s\n  %-26s (%s; default %s%s)\n", left, ld_option_table[i].help, "", env,
                ld_option_table[i].preset[0] != '\0' ? ld_option_table[i].preset : "none",
                ld_option_table[i].when == LD_LIVE ? "; live" : "");
    }
    fprintf(out, "  %-26s print the options in force and where each comes from\n", "--check-config");
    fprintf(out, "  %-26s print the version\n", "--version");
    fprintf(out, "  %-26s print this\n\n", "--help");
    fprintf(out, "If an option is given more than once, a flag counts before the environment variable, and that before "
                 "the file.\n"
                 "SIGTERM and SIGINT: the server answers the requests in flight and stops. SIGHUP: it reads the "
                 "configuration, the key file and\n"
                 "the certificate again. Options marked live are then in force at once; the others need a restart.\n");
}

bool ld_option_is_text(const struct ld_option_row *row)
{
    return row->kind == LD_OPTION_TEXT || row->kind == LD_OPTION_ADDRESS || row->kind == LD_OPTION_TENANT;
}

/* The value in force, spelled so that the parser reads it back. Sizes are printed in bytes, without a unit. */
void ld_option_text(const struct ld_options *o, size_t i, char out[LD_OPTION_TEXT_BYTES])
{
    const struct ld_option_row *row = &ld_option_table[i];
    const char *field = (const char *)o + row->at, *text = field;
    uint64_t value = 0;
    char word[32];
    if (!ld_option_is_text(row) && row->kind != LD_OPTION_FLAG)
        memcpy(&value, field, sizeof value);
    if (row->kind == LD_OPTION_FLAG)
        text = *(const bool *)field ? "true" : "false";
    if (row->kind == LD_OPTION_LEVEL)
        text = ld_log_level_name((int)value);
    if (row->kind == LD_OPTION_WORD)
        text = ld_option_word(row, (size_t)value, word) ? word : "";
    if (row->kind == LD_OPTION_REAL)
        snprintf(out, LD_OPTION_TEXT_BYTES, "%.15g", *(const double *)(const void *)field);
    else if (row->kind == LD_OPTION_COUNT || row->kind == LD_OPTION_SIZE)
        snprintf(out, LD_OPTION_TEXT_BYTES, "%llu", (unsigned long long)value);
    else
        snprintf(out, LD_OPTION_TEXT_BYTES, "%s", text);
}

/* By what is printed: behind a text its field may hold anything. */
bool ld_option_is_same(const struct ld_options *a, const struct ld_options *b, size_t i)
{
    char one[LD_OPTION_TEXT_BYTES], other[LD_OPTION_TEXT_BYTES];
    ld_option_text(a, i, one);
    ld_option_text(b, i, other);
    return strcmp(one, other) == 0;
}

/* Value and source of row i. */
void ld_option_copy(struct ld_options *to, const struct ld_options *from, size_t i)
{
    const struct ld_option_row *row = &ld_option_table[i];
    memcpy((char *)to + row->at, (const char *)from + row->at, row->bytes);
    to->source[i] = from->source[i];
}

/* --config itself is left out: the output can stand in its place. Keys are not among the options, so the output may
 * be shown to others. */
void ld_options_print(const struct ld_options *o, FILE *out)
{
    static const char *const sources[] = {"default", "file", "environment", "flag"};
    for (size_t i = LD_CONFIG_ROW + 1; i < ld_n_options; i++) {
        char text[LD_OPTION_TEXT_BYTES];
        ld_option_text(o, i, text);
        fprintf(out, "# %s%s\n%s = %s\n", sources[o->source[i]], ld_option_table[i].when == LD_LIVE ? ", live" : "",
                ld_option_table[i].name, text);
    }
}
