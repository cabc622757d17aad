/* A document: a parsed text, and the memory of what was decoded from it. */
#ifndef LD_JSON_DOC_H
#define LD_JSON_DOC_H

#include <stddef.h>

struct ld_doc;

struct ld_doc *ld_doc_new(void);                               /* NULL on no memory */
void *ld_doc_alloc(struct ld_doc *doc, size_t n, size_t size); /* zeroed, lives as long as doc; NULL on no memory */
/* Nothing decoded from it may be looked at afterwards; NULL is fine. */
void ld_doc_free(struct ld_doc *doc);

#endif
