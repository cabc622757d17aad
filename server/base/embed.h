/* Files built into the program as NUL-terminated text (tools/embed.sh): migrations, the API contract, the page of
 * errors, and the console. */
#ifndef LD_EMBED_H
#define LD_EMBED_H

#include <stddef.h>

/* Named after the file, with dots and dashes as underscores; read-only, for the life of the process. */
extern const char ld_embed_0001_tenant_sql[];
extern const char ld_embed_0002_summary_sql[];
extern const char ld_embed_0003_pieces_sql[];
extern const char ld_embed_0004_books_sql[];
extern const char ld_embed_0005_reward_ids_sql[];
extern const char ld_embed_0006_types_sql[];
extern const char ld_embed_0007_metrics_sql[];
extern const char ld_embed_0008_evaluations_sql[];
extern const char ld_embed_0009_copies_sql[];
extern const char ld_embed_0010_generations_sql[];
extern const char ld_embed_registry_0001_sql[];
extern const char ld_embed_registry_0002_sql[];
extern const char ld_embed_registry_0003_sql[];
extern const char ld_embed_registry_0004_sql[];
extern const char ld_embed_shared_0001_sql[];
extern const char ld_embed_shared_0002_sql[];
extern const char ld_embed_shared_0003_sql[];
extern const char ld_embed_shared_0004_sql[];
extern const char ld_embed_shared_0005_sql[];
extern const char ld_embed_openapi_yaml[];
extern const char ld_embed_openapi_3_0_yaml[];
extern const char ld_embed_ERRORS_md[];

/* A file of a folder that is built in whole: its name, an entity tag of its bytes, and the bytes. */
struct ld_embed_file {
    const char *name, *tag, *text;
    size_t n;
};

/* server/console/, in the order of the names; the last has no name. */
extern const struct ld_embed_file ld_embed_console[];

#endif
