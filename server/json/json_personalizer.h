/* Bodies of Azure Personalizer's REST interface, and its answers (docs/PERSONALIZER.md). */
#ifndef LD_JSON_PERSONALIZER_H
#define LD_JSON_PERSONALIZER_H

#include "base/problem.h"
#include "json/json_in.h"
#include "types/evaluation.h"

#define LD_MOST_ACTIONS 50u
#define LD_EVENT_BYTES 256u /* of an event's id */

/* A call of Rank, as far as its answer needs it; in the memory of the document that it was decoded from. */
struct ld_rank {
    const char *event; /* the caller's id, NULL: none */
    const char *user;  /* whom the context names, where the tenant's `features` say where; else LD_RANK_NOBODY */
    size_t n;
    struct ld_rank_action {
        const char *id;
        bool is_excluded;
    } action[LD_MOST_ACTIONS];
    size_t n_slots; /* 0: it is no multi-slot Rank */
    struct ld_rank_slot {
        const char *id, *baseline;
    } slot[LD_MOST_ACTIONS];
    size_t explained;           /* the action that it is of, */
    struct ld_doc *explanation; /* and what /posterior says of it; NULL: nothing */
};

/* A body of Rank as that of /select, malloc'd: decided under `decision`, unless it is NULL. Features are left out where
 * the tenant reads none. NULL with *p, whose pointers are those of Rank's body. */
int ld_decode_rank(struct ld_doc *doc, bool has_slots, struct ld_rank *out, struct ld_problem *p);
char *ld_encode_rank_select(const struct ld_doc *doc, const struct ld_rank *rank, const char *decision,
                            bool has_features, size_t *n);

/* What /select's answer says of that decision, in Rank's form. NULL with *p: an earlier request of this event was about
 * other actions or slots, or there is no memory. *is_explained: the explanation is told, since it is of the action that
 * stands first. */
char *ld_encode_ranking(const struct ld_rank *rank, const char *answer, size_t n_answer, size_t *n, bool *is_explained,
                        struct ld_problem *p);

/* A body of /posterior about the action that /select's answer has first, malloc'd; its place goes into the rank. NULL:
 * no memory. And its answer, which Rank's own is to tell: freed by whoever has the rank (json_personalizer_explain.c).
 */
#define LD_RANK_NOBODY "-" /* the user of a decision that names none */
char *ld_encode_rank_question(const struct ld_doc *doc, struct ld_rank *rank, const char *answer, size_t n_answer,
                              size_t *n);
int ld_decode_rank_explanation(struct ld_rank *rank, const char *answer, size_t n_answer, struct ld_problem *p);

/* Parts of multi-slot bodies (json_personalizer_slots.c): the slots, the same in /select's words, and as they were
 * filled. */
struct ld_in;
struct ld_text;
struct ld_value;
void ld_read_rank_slots(struct ld_in *in, const struct ld_value *list, struct ld_rank *out);
void ld_put_rank_slots(struct ld_text *t, const struct ld_value *list, const struct ld_rank *rank, bool has_features);
bool ld_slots_are_of(const struct ld_rank *rank, const struct ld_value *slots); /* of an answer of /select */
void ld_put_filled_slots(struct ld_text *t, const struct ld_rank *rank, const struct ld_value *slots);
/* And what they and explanations share with Rank's (json_personalizer.c). ld_rank_first: the place of the action that
 * stands first, of those that /select ranks. */
void ld_check_rank_features(struct ld_in *in, const struct ld_value *object, const char *key);
void ld_put_rank_features(struct ld_text *t, const struct ld_value *list);
size_t ld_rank_first(const struct ld_rank *rank, const struct ld_value *ranking);
void ld_put_rank_explanation(struct ld_text *t, const struct ld_rank *rank);

/* {"reward": [{"slotId", "value"}]}: up to 50, in the document's memory, of that decision. */
struct ld_reward;
int ld_decode_slot_rewards(struct ld_doc *doc, const char *decision, struct ld_reward **out, size_t *n,
                           struct ld_problem *p);

/* {"value"} in [-1, 1]. */
int ld_decode_rank_reward(struct ld_doc *doc, double *value, struct ld_problem *p);

/* What a tenant shows of itself (ld_encode_tenant), and a body of that service's about it. */
struct ld_told_tenant {
    const struct ld_doc *doc;
    int64_t edited_ms;     /* its last configuration; INT64_MIN: not known */
    bool has_retrain_days; /* as the interface of 2022 tells them always */
};
/* The service configuration of it; and one that is asked for as a patch of the tenant's, malloc'd: of what is another
 * one than is told. NULL with *p, or without memory; *code is the word for it, where that is not the usual one. */
char *ld_encode_service(const struct ld_told_tenant *now, size_t *n);
char *ld_decode_service(struct ld_doc *doc, const struct ld_told_tenant *now, size_t *n, const char **code,
                        struct ld_problem *p);

/* Its policy {"name", "arguments"}, likewise (json_personalizer_policy.c). doc NULL: what the algorithm has. */
char *ld_encode_policy(const struct ld_told_tenant *now, size_t *n);
char *ld_decode_policy(struct ld_doc *doc, const struct ld_told_tenant *now, size_t *n, const char **code,
                       struct ld_problem *p);
/* Flags of the policy that was put which change nothing here, with commas between them; "": none. */
#define LD_IGNORED_BYTES 512
void ld_policy_ignored(const struct ld_told_tenant *now, char out[LD_IGNORED_BYTES]);

/* An evaluation that is asked for as the body of a tenant's, malloc'd; id NULL: the tenant's server makes one
 * (json_personalizer_evaluation.c). NULL with *p. And one, or a list of them, as it is shown, from what the tenant's
 * server shows (json_personalizer_result.c). */
char *ld_decode_rank_evaluation(struct ld_doc *doc, const struct ld_told_tenant *now, const char *id, size_t *n,
                                const char **code, struct ld_problem *p);
char *ld_encode_rank_evaluation(const struct ld_doc *told, bool is_of_2022, size_t *n);

/* {"evaluationId", "policyName"}: the name, malloc'd; NULL with *p. And the policy of that name in an evaluation as a
 * tenant shows it, as a body of a policy; NULL: it has none that can be put in force, or there is no memory. */
char *ld_decode_rank_reference(struct ld_doc *doc, char id[LD_EVALUATION_ID_BYTES], struct ld_problem *p);
char *ld_encode_evaluated_policy(const struct ld_doc *told, const char *name, size_t *n);

/* {"error": ...}: a refusal, with the faults of the body as its details. Pointers into /select's body become those of
 * Rank's. */
char *ld_encode_rank_refusal(const struct ld_problem *p, const char *code, const char *instance, size_t *n);

#endif
