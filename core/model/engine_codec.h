/* Parts of a snapshot, and whether what it says can have been left by a fold. */
#ifndef KB_ENGINE_CODEC_H
#define KB_ENGINE_CODEC_H

#include "model/engine_state.h"

/* Parts of the snapshot body (engine_codec.c), which kb_snapshot_save puts together as kb_engine_save does. */
void kb_engine_put_head(const struct kb_engine *e, struct kb_writer *w);
void kb_engine_put_ids(const struct kb_ids *ids, struct kb_writer *w);
void kb_engine_put_tail(const struct kb_engine *e, struct kb_writer *w);

/* Whether a snapshot says what a fold can have left (engine_sound.c): all but the posterior, and the posterior. */
bool kb_engine_is_state_sound(const struct kb_engine *e);
bool kb_engine_is_posterior_sound(const struct kb_engine *e);

#endif
