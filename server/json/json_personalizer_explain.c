/* `inferenceExplanation` of Rank: which features moved the score of the action that stands first.
 *
 * The question is a body of /posterior, as Rank itself becomes one of /select, so that what a feature changes is
 * computed in one place (tenant/tenant_ask.c). Features that change nothing are left out. */
#include <stdlib.h>
#include <string.h>

#include "json/json_flag_value.h"
#include "json/json_personalizer.h"
#include "json/json_util.h"

#define MOST_NAMED 50u /* features of one explanation; /posterior names no more */

static void put_arm(struct ld_text *t, const struct ld_doc *doc, const struct ld_rank *rank)
{
    const struct ld_value *action = ld_item_of(ld_member_of(&doc->root, "actions"), rank->explained);
    ld_text_key(t, "arms");
    ld_text_lit(t, "[{");
    ld_text_put_string(t, "id", rank->action[rank->explained].id);
    ld_text_key(t, "features");
    ld_put_rank_features(t, ld_member_of(action, "features"));
    ld_text_lit(t, "}]");
}

char *ld_encode_rank_question(const struct ld_doc *doc, struct ld_rank *rank, const char *answer, size_t n_answer,
                              size_t *n)
{
    const char *const users[] = {rank->user};
    struct ld_problem p;
    struct ld_doc *told = NULL;
    struct ld_text t;
    ld_problem_init(&p);
    if (answer == NULL || ld_doc_parse(&told, answer, n_answer, false, &p) != 0)
        return NULL;
    rank->explained = ld_rank_first(rank, ld_member_of(&told->root, "ranking"));
    ld_doc_free(told);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_key(&t, "users");
    ld_text_strings(&t, users, 1);
    put_arm(&t, doc, rank);
    ld_text_key(&t, "context");
    ld_put_rank_features(&t, ld_member_of(&doc->root, "contextFeatures"));
    ld_text_put_count(&t, "features", MOST_NAMED);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

int ld_decode_rank_explanation(struct ld_rank *rank, const char *answer, size_t n_answer, struct ld_problem *p)
{
    return answer == NULL ? -1 : ld_doc_parse(&rank->explanation, answer, n_answer, false, p);
}

void ld_put_rank_explanation(struct ld_text *t, const struct ld_rank *rank)
{
    const struct ld_value *told = ld_member_of(&rank->explanation->root, "features"),
                          *changes = ld_member_of(told, "changes");
    ld_text_key(t, "inferenceExplanation");
    ld_text_lit(t, "[{");
    ld_text_put_string(t, "id", ld_string_of(ld_member_of(told, "arm")));
    ld_text_key(t, "features");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < ld_n_items(changes); i++) {
        const struct ld_value *change = ld_item_of(changes, i);
        const double score = ld_number_of(ld_member_of(change, "change"));
        if (score == 0)
            break; /* the largest stand first */
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "name", ld_string_of(ld_member_of(change, "feature")));
        ld_text_put_number(t, "score", score);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]}]");
}
