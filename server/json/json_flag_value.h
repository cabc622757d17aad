/* The value of an arm: JSON that callers are told and that nobody here reads, as text. Private to server/json/json_*.c.
 */
#ifndef LD_JSON_FLAG_VALUE_H
#define LD_JSON_FLAG_VALUE_H

#include "json/json_util.h"

/* The text of v, without blanks, in the document's memory. NULL after a fault, which has been told. */
const char *ld_in_flag_value(struct ld_in *in, const struct ld_value *v);

/* Any value, in that spelling. O(its size); as deep as the reader of texts lets it be. */
void ld_text_value(struct ld_text *t, const struct ld_value *v);

#endif
