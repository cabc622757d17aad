/* The options and the table behind them: how each is spelled, what it takes, its default and its help; and what is
 * printed from it. options.h fills them. */
#ifndef LD_OPTION_TABLE_H
#define LD_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LD_MAX_OPTIONS 64
#define LD_NO_DEFAULT_TENANT "none"

enum ld_option_source { LD_FROM_DEFAULT, LD_FROM_FILE, LD_FROM_ENVIRONMENT, LD_FROM_FLAG };

/* The words of --console. */
enum ld_console { LD_CONSOLE_AUTO, LD_CONSOLE_ON, LD_CONSOLE_OFF };

/* The words of --log-sync. */
enum ld_log_sync { LD_SYNC_REQUIRED, LD_SYNC_TRUSTED };

enum ld_options_action { LD_DO_SERVE, LD_DO_HELP, LD_DO_VERSION, LD_DO_CHECK };

/* Values in force after parsing. Texts are copied and NUL-terminated; whole numbers are uint64_t, whatever they
 * count. */
struct ld_options {
    enum ld_options_action action;
    char config[512], data[512], listen[80], admin_key_file[512];
    char cors_origin[512];
    uint64_t console;                 /* word by its place: enum ld_console */
    char default_tenant[80];          /* or LD_NO_DEFAULT_TENANT */
    char tls_cert[512], tls_key[512]; /* both or none */
    char log[512], node[80];          /* log "": none is shared; node: the host's name after parsing */
    uint64_t log_sync;                /* word by its place: enum ld_log_sync */
    uint64_t log_wait_ms, log_poll_ms, max_lag_ms;
    uint64_t threads; /* in force: never 0 after parsing */
    uint64_t max_body, max_observe_body, max_bulk_body, max_import_body;
    uint64_t timeout_s, header_timeout_s, body_timeout_s, min_rate;
    uint64_t max_header, max_connections, max_connections_per_address;
    uint64_t max_queue, max_pending, snapshot_events, inline_work;
    uint64_t log_level;                                 /* enum ld_log_level */
    uint64_t log_format, log_requests, slow_request_ms; /* words by their place: enum ld_log_requests */
    uint64_t metrics_tenants;
    uint64_t drain_timeout_s, stuck_after_s;
    uint64_t memory_cap, tenant_quota; /* 0: none */
    uint64_t tenant_rate, tenant_burst;
    uint64_t max_candidates, max_arms, max_dim;
    double max_magnitude;
    uint64_t max_queue_bytes, max_opening, max_work, max_transfers, max_body_memory;
    int listen_fd; /* the socket that a service manager has made, whose address `listen` then is; 0: there is none */
    bool is_verifying, is_opening_all, is_finishing_builds;
    enum ld_option_source source[LD_MAX_OPTIONS]; /* by row of the table */
};

/* What a value looks like: a text, a numeric HOST:PORT, a name, a whole number, one with an optional unit, any number,
 * a boolean, a level's name. All but the first three end up in a number. */
enum ld_option_kind {
    LD_OPTION_TEXT,
    LD_OPTION_ADDRESS,
    LD_OPTION_TENANT, /* a name that a tenant may have */
    LD_OPTION_COUNT,
    LD_OPTION_SIZE,
    LD_OPTION_REAL,
    LD_OPTION_FLAG,
    LD_OPTION_LEVEL,
    LD_OPTION_WORD /* one of those that stand in `value`, with bars between them; counted from 0 */
};

/* When a value that changed in the configuration file counts: after a restart, or at once, on SIGHUP (reload.c). */
enum ld_option_when { LD_AT_START, LD_LIVE };

/* One option. `preset` is parsed like any other value, so a default cannot be out of its own range unnoticed. */
struct ld_option_row {
    const char *name, *value; /* value: what --help calls the argument */
    enum ld_option_kind kind;
    size_t at, bytes;  /* of the field in struct ld_options; bytes of a text */
    uint64_t min, max; /* of a real: powers of ten */
    const char *preset, *help;
    enum ld_option_when when;
};

/* Row LD_CONFIG_ROW names the file that the others may come from. */
enum { LD_CONFIG_ROW = 0 };
extern const struct ld_option_row ld_option_table[];
extern const size_t ld_n_options; /* rows; at most LD_MAX_OPTIONS */

/* Word i of an LD_OPTION_WORD; false: there is none. */
bool ld_option_word(const struct ld_option_row *row, size_t i, char out[32]);

/* Whether its field holds a text. */
bool ld_option_is_text(const struct ld_option_row *row);

/* LAPLACED_NAME, capitals and underscores. */
void ld_option_env_name(const struct ld_option_row *row, char out[64]);

/* The value of row i in force. */
#define LD_OPTION_TEXT_BYTES 512
void ld_option_text(const struct ld_options *o, size_t i, char out[LD_OPTION_TEXT_BYTES]);

/* Whether both have the same value of row i; *to gets it from *from. */
bool ld_option_is_same(const struct ld_options *a, const struct ld_options *b, size_t i);
void ld_option_copy(struct ld_options *to, const struct ld_options *from, size_t i);

void ld_options_help(FILE *out);
/* The options in force with their sources, as a configuration file would have them. */
void ld_options_print(const struct ld_options *o, FILE *out);

#endif
