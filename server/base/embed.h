/* Files built into the program as NUL-terminated text (tools/embed.sh): migrations, the API contract, and the page of
 * errors. */
#ifndef LD_EMBED_H
#define LD_EMBED_H

/* Named after the file, with dots and dashes as underscores; read-only, for the life of the process. */
extern const char ld_embed_0001_tenant_sql[];
extern const char ld_embed_0002_summary_sql[];
extern const char ld_embed_0003_pieces_sql[];
extern const char ld_embed_0004_books_sql[];
extern const char ld_embed_0005_reward_ids_sql[];
extern const char ld_embed_0006_types_sql[];
extern const char ld_embed_0007_metrics_sql[];
extern const char ld_embed_registry_0001_sql[];
extern const char ld_embed_registry_0002_sql[];
extern const char ld_embed_registry_0003_sql[];
extern const char ld_embed_openapi_yaml[];
extern const char ld_embed_ERRORS_md[];

#endif
