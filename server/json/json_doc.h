/* A document: a parsed text, and the memory of what was decoded from it. */
#ifndef LD_JSON_DOC_H
#define LD_JSON_DOC_H

#include <stdbool.h>
#include <stddef.h>

struct ld_doc;
struct ld_name_map;
struct ld_problem;

/* Parses JSON (depth <= LD_MAX_DEPTH). ndjson: every non-blank line becomes one item of an array, pointers are
 * "/<line - 1>...". 0 or -1. */
int ld_doc_parse(struct ld_doc **out, const char *text, size_t n, bool is_ndjson, struct ld_problem *p);
/* Rewards, coordinates and weights of the body may be so large, in size; without this as large as the schemas say. */
void ld_doc_bound(struct ld_doc *doc, double magnitude);
struct ld_doc *ld_doc_new(void);                               /* NULL on no memory */
void *ld_doc_alloc(struct ld_doc *doc, size_t n, size_t size); /* zeroed, lives as long as doc; NULL on no memory */
/* Where a vector may stand, an object of named features may, and is mapped by a copy of this; of dimension 0 it is
 * none, whatever was there before. Vectors of objects take at most so many bytes a decoding; 0: any. */
void ld_doc_map_names(struct ld_doc *doc, const struct ld_name_map *map, size_t most_bytes);
bool ld_doc_maps_names(const struct ld_doc *doc);
bool ld_doc_names_user(const struct ld_doc *doc);     /* the mapping says where contexts name him */
size_t ld_doc_mapped_bytes(const struct ld_doc *doc); /* of such vectors; NULL has none */
/* Nothing decoded from it may be looked at afterwards; NULL is fine. */
void ld_doc_free(struct ld_doc *doc);

#endif
