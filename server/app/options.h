/* The server's options: flags, environment, configuration file, defaults, in that order of precedence. One table in
 * options.c drives parsing, --help and --check-config alike. */
#ifndef LD_OPTIONS_H
#define LD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LD_MAX_OPTIONS 64
#define LD_WHY_BYTES 1024
#define LD_NO_DEFAULT_TENANT "none"

enum ld_option_source { LD_FROM_DEFAULT, LD_FROM_FILE, LD_FROM_ENVIRONMENT, LD_FROM_FLAG };

enum ld_options_action { LD_DO_SERVE, LD_DO_HELP, LD_DO_VERSION, LD_DO_CHECK };

/* Values in force after parsing. Texts are copied and NUL-terminated; whole numbers are uint64_t, whatever they
 * count. */
struct ld_options {
    enum ld_options_action action;
    char config[512], data[512], listen[80], admin_key_file[512];
    char default_tenant[80];          /* or LD_NO_DEFAULT_TENANT */
    char tls_cert[512], tls_key[512]; /* both or none */
    uint64_t threads;                 /* in force: never 0 after parsing */
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
    bool is_verifying, is_opening_all;
    enum ld_option_source source[LD_MAX_OPTIONS]; /* by row of the table */
};

/* Reads all sources. env_of is getenv, or a test's. 0, or -1 with why (LD_WHY_BYTES) naming the source and option. */
int ld_options_parse(struct ld_options *o, int argc, char *const *argv, char *(*env_of)(const char *name), char *why);

/* The rules between options: an address that others can reach wants keys. 0 or -1 with why. */
int ld_options_check(const struct ld_options *o, char *why);
void ld_options_refuse_keyless(const struct ld_options *o, char *why); /* why that address is refused */

void ld_options_help(FILE *out);
/* The options in force with their sources, as a configuration file would have them. */
void ld_options_print(const struct ld_options *o, FILE *out);

#endif
