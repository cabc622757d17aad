/* The member `personalizer` of a configuration: what clients of that service have set and read again. */
#ifndef LD_JSON_PERSONALIZER_SETTINGS_H
#define LD_JSON_PERSONALIZER_SETTINGS_H

#include "json/json_util.h"

/* null: nothing. */
void ld_in_personalizer(struct ld_in *in, const struct ld_value *v, struct ld_personalizer_settings *out);
void ld_text_personalizer(struct ld_text *t, const struct ld_personalizer_settings *s);

#endif
