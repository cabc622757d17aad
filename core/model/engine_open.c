/* Open decisions that the model's deviations know: `pending` hallucinate.
 *
 *   decided, activated    each slot that is shown is opened
 *   rewarded, expired     what is learned of an open slot is learned as such; what is not is taken back
 *   a reset               the new posterior opens all that are open, in the order in which they were shown
 *   an admission          and so are they swept for the point that enters
 *
 * Which slots these are stands in them (is_open), since what the model learns may be switched in between. All of it
 * follows from the log, so a fold has the same bits. */
#include "model/engine_impl.h"

#include <stdlib.h>

#include "base/grow.h"
#include "posterior/open.h"

bool kb_engine_counts_open(const struct kb_engine *e)
{
    return e->posterior != NULL && kb_posterior_counts_open(e->posterior);
}

static struct kb_point point_of(const struct kb_pending_slot *slot, struct kb_user user)
{
    return (struct kb_point){.user = user, .arm = slot->arm, .x = slot->x, .level = slot->level};
}

static bool opens(const struct kb_engine *e, uint64_t seq)
{
    return kb_engine_counts_open(e) && !kb_engine_is_quiet(e, seq) && e->spec.learns;
}

/* ---- one --------------------------------------------------------------------------------------------- */

enum kb_err kb_engine_stage_open(struct kb_engine *e, const struct kb_pending_entry *entry, uint64_t seq)
{
    enum kb_err rc = KB_OK;

    if (!opens(e, seq))
        return KB_OK;
    KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
    for (size_t i = 0; i < entry->n_slots; i++) {
        const struct kb_point pt = point_of(&entry->slot[i], kb_engine_user_at(e, entry->user));

        KB_TRY(kb_posterior_stage_open(e->posterior, &pt, &e->scratch));
    }
out:
    return rc;
}

void kb_engine_open(struct kb_engine *e, struct kb_pending_entry *entry, uint64_t seq)
{
    if (!opens(e, seq) || entry->is_deferred)
        return;
    for (size_t i = 0; i < entry->n_slots; i++) {
        const struct kb_point pt = point_of(&entry->slot[i], kb_engine_user_at(e, entry->user));

        entry->slot[i].is_open = kb_posterior_open(e->posterior, &pt, &e->scratch);
    }
}

void kb_engine_take_back(struct kb_engine *e, const struct kb_pending_entry *entry, struct kb_pending_slot *slot)
{
    if (!slot->is_open)
        return;
    const struct kb_point pt = point_of(slot, kb_engine_user_at(e, entry->user));

    kb_posterior_take_back(e->posterior, &pt, &e->scratch);
    slot->is_open = false;
}

/* ---- all --------------------------------------------------------------------------------------------- */

/* Slots whose first reward the model waits for. */
static bool is_awaited(const struct kb_pending_entry *entry, const struct kb_pending_slot *slot)
{
    return !entry->is_deferred && !slot->has_reward && slot->taught == KB_UNTAUGHT;
}

static enum kb_err reserve_list(struct kb_engine *e)
{
    struct kb_open_list *list = &e->open;
    const size_t n = e->pending.n + e->staged->n_entries;
    size_t n_points = 0;

    for (size_t i = 0; i < e->pending.n; i++)
        n_points += e->pending.due[i].entry->n_slots;
    for (size_t i = e->staged->next_entry; i < e->staged->n_entries; i++)
        n_points += e->staged->entry[i]->n_slots;
    if (kb_grow((void **)&list->entry, &list->cap_entries, n, 64, sizeof(struct kb_pending_entry *)) != 0 ||
        kb_grow((void **)&list->point, &list->cap_points, n_points, 64, sizeof *list->point) != 0 ||
        kb_grow((void **)&list->is_open, &list->cap_flags, n_points, 64, sizeof *list->is_open) != 0)
        return KB_ENOMEM;
    return KB_OK;
}

/* is_known: those that the model in force knows, else those that it waits for. */
static void gather(struct kb_engine *e, const uint32_t *node_of, size_t n_nodes, bool is_known)
{
    struct kb_open_list *list = &e->open;
    const size_t n = e->pending.n;

    list->n = 0;
    for (size_t i = 0; i < n; i++)
        list->entry[i] = e->pending.due[i].entry;
    if (n > 0)
        qsort(list->entry, n, sizeof *list->entry, kb_pending_compare_shown);
    for (size_t i = 0; i < n; i++) {
        const struct kb_pending_entry *entry = list->entry[i];
        const struct kb_user user = {.index = entry->user,
                                     .node = entry->user < n_nodes ? node_of[entry->user] : KB_ID_NONE};

        for (size_t k = 0; k < entry->n_slots; k++)
            if (is_known ? entry->slot[k].is_open : is_awaited(entry, &entry->slot[k]))
                list->point[list->n++] = point_of(&entry->slot[k], user);
    }
}

enum kb_err kb_engine_open_all(struct kb_engine *e, struct kb_posterior *p, const uint32_t *node_of, size_t n_nodes,
                               struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;

    if (!kb_posterior_counts_open(p) || !kb_engine_coming_spec(e)->learns)
        return KB_OK;
    KB_TRY(reserve_list(e));
    gather(e, node_of, n_nodes, false);
    KB_TRY(kb_posterior_fit_scratch(p, s, 0));
    KB_TRY(kb_posterior_open_all(p, e->open.point, e->open.n, e->open.is_open, s));
out:
    return rc;
}

/* In the order in which the posterior was told of them, if any of them is open in it. */
void kb_engine_mark_open(struct kb_engine *e)
{
    const bool is_counted = kb_engine_counts_open(e) && kb_posterior_n_open(e->posterior) > 0;
    size_t n = 0;

    for (size_t i = 0; i < e->pending.n; i++) {
        struct kb_pending_entry *entry = is_counted ? e->open.entry[i] : e->pending.due[i].entry;

        for (size_t k = 0; k < entry->n_slots; k++)
            entry->slot[k].is_open = is_counted && is_awaited(entry, &entry->slot[k]) && e->open.is_open[n++];
    }
}

enum kb_err kb_engine_reserve_open(struct kb_engine *e)
{
    return kb_engine_counts_open(e) ? reserve_list(e) : KB_OK;
}

void kb_engine_sweep_open(struct kb_engine *e)
{
    if (!kb_engine_counts_open(e))
        return;
    gather(e, e->node_of, e->cap_nodes, true);
    kb_posterior_sweep_open(e->posterior, e->open.point, e->open.n, &e->scratch);
}
