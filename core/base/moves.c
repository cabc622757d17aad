/* The list of arrays that are about to move (moves.h).
 *
 * A pointer is read and written through memcpy: the arrays have many types, and C lets no `void **` stand for all of
 * them. Every object pointer has the same size here (POSIX asks for it).
 *
 * Why a list: an event may need room in a dozen arrays of seven containers. Either all of them move or none, and the
 * containers need not know when; each adds what it would like to have. Containers that nobody reads yet (loading,
 * building) use the same code with a list of their own and swap at once.
 *
 * A swap leaves the old block in the list, so drop frees the right one in either case. */
#include "base/moves.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

void kb_moves_init(struct kb_moves *m)
{
    *m = (struct kb_moves){0};
}

static void *pointer_at(const void *at)
{
    void *p;
    memcpy(&p, at, sizeof p);
    return p;
}

static enum kb_err push(struct kb_moves *m, struct kb_move move)
{
    if (kb_grow((void **)&m->move, &m->cap, m->n + 1, 16, sizeof *m->move) != 0)
        return KB_ENOMEM;
    m->move[m->n++] = move;
    return KB_OK;
}

enum kb_err kb_moves_take(struct kb_moves *m, void *at, void *block, size_t *size_at, size_t value)
{
    const struct kb_move move = {.at = at, .block = block, .size = size_at, .value = value};
    const enum kb_err rc = block != NULL ? push(m, move) : KB_ENOMEM;
    if (rc != KB_OK)
        kb_free(block);
    return rc;
}

enum kb_err kb_moves_number(struct kb_moves *m, size_t *at, size_t value)
{
    return push(m, (struct kb_move){.size = at, .value = value});
}

/* An array without items keeps one, so the pointer is never NULL. */
enum kb_err kb_moves_add(struct kb_moves *m, void *at, size_t n_used, size_t cap, size_t size, size_t *size_at)
{
    const void *old = pointer_at(at);
    void *fresh = kb_regrow(NULL, cap > 0 ? cap : 1, size);
    if (fresh != NULL && old != NULL && n_used > 0)
        memcpy(fresh, old, n_used * size);
    return kb_moves_take(m, at, fresh, size_at, cap);
}

void kb_moves_swap(struct kb_moves *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct kb_move *move = &m->move[i];
        if (move->at != NULL) {
            void *old = pointer_at(move->at);
            memcpy(move->at, &move->block, sizeof move->block);
            move->block = old;
        }
        if (move->size != NULL)
            *move->size = move->value;
    }
}

void kb_moves_drop(struct kb_moves *m)
{
    for (size_t i = 0; i < m->n; i++)
        kb_free(m->move[i].block);
    kb_free(m->move);
    kb_moves_init(m);
}

enum kb_err kb_moves_finish(struct kb_moves *m, enum kb_err rc)
{
    if (rc == KB_OK)
        kb_moves_swap(m);
    kb_moves_drop(m);
    return rc;
}
