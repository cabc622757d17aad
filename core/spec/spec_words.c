/* Words of the enumerations of spec.h, event.h and routing.h. */
#include "base/words.h"
#include "spec/event.h"
#include "spec/routing.h"
#include "spec/spec.h"

KB_WORDS(kb_user_kernel_words, KB_USER_KERNEL_MAP);
KB_WORDS(kb_vec_kernel_words, KB_VEC_KERNEL_MAP);
KB_WORDS(kb_repr_words, KB_REPR_MAP);
KB_WORDS(kb_conf_words, KB_CONF_MAP);
KB_WORDS(kb_sketch_form_words, KB_SKETCH_FORM_MAP);
KB_WORDS(kb_score_words, KB_SCORE_MAP);
KB_WORDS(kb_rule_words, KB_RULE_MAP);
KB_WORDS(kb_aggregation_words, KB_AGGREGATION_MAP);
KB_WORDS(kb_forgetting_words, KB_FORGETTING_MAP);
KB_WORDS(kb_pending_words, KB_PENDING_MAP);
KB_WORDS(kb_route_words, KB_ROUTE_MAP);
KB_WORDS(kb_event_words, KB_EVENT_MAP);
KB_WORDS(kb_part_words, KB_PART_MAP);
