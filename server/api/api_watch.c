/* GET /tenants/{t}/events as a stream of server-sent events, for whoever wants to see a log grow:
 *
 *     id: 17
 *     data: {"seq":17,...}          the line, as the log has it; a CR, which would end it here, is a space
 *
 *     event: omitted                in place of a line that is longer than LINE_BYTES: its number, type and length
 *     event: end                    the last one: why. Who asks again begins behind the last id
 *     :                             a comment, where nothing came for KEPT_US
 *
 * All streams are served by one job of the pool, which the loop's turn gives when there are any. It holds no tenant
 * between two looks, so a stream keeps none from being closed or deleted. A stream that has not been taken by its
 * client gets nothing more until it is: memory is that of one piece, and nobody waits for a client that stalls, whom
 * the timer cuts like that of any answer. The key that a client has shown is looked at again now and then, for it may
 * be revoked. That a client has left is seen only when it is written to: where a stream was refused because there are
 * too many, all others get comments KEPT_FULL_US apart for FULL_US, so that who has left makes room.
 *
 * Who may touch what: the list's lock guards its head and the members `has_begun`, `stream` and `is_over`. All else of
 * a watch is the job's, which alone takes watches out, and none before it has begun: until then it is its request's,
 * too. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/text.h"
#include "spec/event.h"

#define MOST_STREAMS 64u
#define MOST_OF_TENANT 16u
#define PIECE_LINES 1000u
#define PIECE_BYTES ((size_t)512 << 10)
#define LINE_BYTES ((size_t)1 << 20)
#define KEPT_US 15000000    /* of silence, before a comment */
#define KEPT_FULL_US 500000 /* likewise, for FULL_US after one was refused */
#define FULL_US 2000000
#define CHECKED_US 5000000 /* between two looks at the key */
#define HEADER_BYTES 600

struct ld_watch {
    struct ld_watch *next;
    char name[LD_PATH_TENANT_BYTES], authorization[HEADER_BYTES];
    bool has_authorization;
    bool has_begun;
    struct ld_stream *stream; /* NULL: it has not begun, or could not */
    bool is_over;             /* it is to end: its tenant was removed, which may be before it has begun */
    uint64_t seq;             /* the last event that was sent or passed over */
    unsigned types;           /* as bits; 0: all */
    int64_t written_us, checked_us;
};

/* --- the beginning ----------------------------------------------------------------------------------------- */

static bool has_type(const char *accept)
{
    static const char type[] = "text/event-stream";
    for (const char *at = accept; *at != '\0'; at++)
        if (strncasecmp(at, type, sizeof type - 1) == 0)
            return true;
    return false;
}

bool ld_watch_is_wanted(const struct ld_call *c)
{
    const char *accept = ld_request_header(c->request, "Accept");
    return accept != NULL && has_type(accept);
}

/* Last-Event-ID is what a client that has lost its stream sends by itself. Without it and without `after`: from now on.
 */
static bool find_place(const struct ld_call *c, struct ld_watch *w, struct ld_problem *p)
{
    const char *last = ld_request_header(c->request, "Last-Event-ID");
    const size_t n = last != NULL ? strspn(last, "0123456789") : 0;
    if (ld_request_query(c->request, "before") != NULL || ld_request_query(c->request, "limit") != NULL)
        ld_problem_set(p, 400, "query parameters before and limit: a stream of events has no end, and takes neither");
    else if (last != NULL && (n == 0 || n > 18 || last[n] != '\0'))
        ld_problem_set(p, 400, "header Last-Event-ID: expected the number of an event");
    else if (ld_call_words(c, "type", &kb_event_words, &w->types, p) != 0 ||
             ld_call_number(c, "after", &w->seq, p) != 0)
        return false;
    if (last != NULL)
        w->seq = strtoull(last, NULL, 10);
    else if (ld_request_query(c->request, "after") == NULL)
        w->seq = ld_tenant_tip(c->tenant);
    return p->status == 0;
}

/* False with 503: there are too many. */
static bool enter(struct ld_watches *all, struct ld_watch *w, struct ld_problem *p)
{
    size_t n = 0, n_own = 0;
    pthread_mutex_lock(&all->lock);
    for (const struct ld_watch *other = all->first; other != NULL; other = other->next) {
        n++;
        n_own += strcmp(other->name, w->name) == 0;
    }
    const bool is_full = n >= MOST_STREAMS || n_own >= MOST_OF_TENANT;
    if (!is_full) {
        w->next = all->first;
        all->first = w;
    } else {
        atomic_store(&all->refused_us, ld_monotonic_us());
    }
    pthread_mutex_unlock(&all->lock);
    if (is_full) {
        ld_problem_set(p, 503, "%u streams of events are open: this server has no room for more",
                       n >= MOST_STREAMS ? MOST_STREAMS : MOST_OF_TENANT);
        ld_problem_limit(p, "streams", n >= MOST_STREAMS ? MOST_STREAMS : MOST_OF_TENANT);
    }
    return !is_full;
}

static struct ld_watch *watch_new(const struct ld_call *c)
{
    const char *header = ld_request_header(c->request, "Authorization");
    struct ld_watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    snprintf(w->name, sizeof w->name, "%s", c->name);
    w->has_authorization = header != NULL;
    snprintf(w->authorization, sizeof w->authorization, "%s", header != NULL ? header : "");
    w->written_us = w->checked_us = ld_monotonic_us();
    return w;
}

/* The request may be gone as soon as the stream has begun, and the watch too once the list's lock is free. */
static void begin(struct ld_server *s, struct ld_watch *w, struct ld_request *r)
{
    static const char hello[] = "retry: 2000\n\n";
    struct ld_stream *stream = ld_reply_stream(r, "text/event-stream", NULL, NULL);
    if (stream != NULL)
        ld_stream_write(stream, hello, sizeof hello - 1);
    pthread_mutex_lock(&s->watches.lock);
    w->stream = stream;
    w->has_begun = true;
    pthread_mutex_unlock(&s->watches.lock);
    ld_watches_tick(s);
}

bool ld_watch_begin(struct ld_call *c, struct ld_reply *out)
{
    struct ld_watch *w = watch_new(c);
    struct ld_server *s = c->server;
    if (w == NULL)
        ld_problem_set(out->problem, 503, "out of memory");
    else if (find_place(c, w, out->problem) && ld_charge(c, ld_price_lines(0), out->problem) &&
             enter(&s->watches, w, out->problem)) {
        begin(s, w, c->request);
        return false;
    }
    free(w);
    return true;
}

/* --- what is sent ------------------------------------------------------------------------------------------- */

struct piece {
    struct ld_text text;
    uint64_t seq;
    size_t n;
};

static void put_omitted(struct ld_text *t, const struct ld_row *row)
{
    ld_text_lit(t, "\nevent: omitted\ndata: {");
    ld_text_lit(t, "\"seq\":");
    ld_text_count(t, row->seq);
    ld_text_put_string(t, "type", kb_word(&kb_event_words, row->type));
    ld_text_put_count(t, "bytes", row->n_text);
    ld_text_lit(t, "}\n\n");
}

/* A CR stands in lines that were imported, and outside of their strings alone: there it is blank. */
static void put_line(struct ld_text *t, const struct ld_row *row)
{
    const size_t at = t->n;
    ld_text_raw(t, row->text, row->n_text);
    for (size_t i = at; !t->is_failed && i < t->n; i++)
        if (t->data[i] == '\r')
            t->data[i] = ' ';
}

static int add_line(void *arg, const struct ld_row *row)
{
    struct piece *p = arg;
    if (p->n > 0 && p->text.n + row->n_text > PIECE_BYTES && row->n_text <= LINE_BYTES)
        return 1;
    ld_text_lit(&p->text, "id: ");
    ld_text_count(&p->text, row->seq);
    if (row->n_text > LINE_BYTES) {
        put_omitted(&p->text, row);
    } else {
        ld_text_lit(&p->text, "\ndata: ");
        put_line(&p->text, row);
        ld_text_lit(&p->text, "\n\n");
    }
    if (p->text.is_failed)
        return 1;
    p->seq = row->seq;
    p->n++;
    return 0;
}

static void write_piece(struct ld_watch *w, const char *text, size_t n, int64_t now_us)
{
    ld_stream_write(w->stream, text, n);
    w->written_us = now_us;
}

/* Of lines alone: the request was paid for as it began. */
static double price_of(uint64_t n)
{
    return ld_price_lines(n) - ld_price_lines(0);
}

/* What is new up to the end that the log had when this began. A file that cannot be read is tried again. Lines that are
 * sent are paid for, those of other types are not; nothing is read that could not be paid. */
static void send_new(struct ld_watch *w, struct ld_tenant *t, int64_t now_us)
{
    struct piece p = {.seq = w->seq};
    const uint64_t tip = ld_tenant_tip(t), n = tip > w->seq ? tip - w->seq : 0;
    const struct ld_page page = {.after = w->seq, .before = tip + 1, .types = w->types, .limit = PIECE_LINES};
    const double most = price_of(n < PIECE_LINES ? n : PIECE_LINES);
    struct ld_bucket *bucket = ld_tenant_bucket(t);
    if (n == 0 || ld_bucket_look(bucket, most, ld_monotonic_ns()) != 0)
        return;
    ld_text_init(&p.text);
    const int rc = ld_store_page(ld_tenant_store(t), &page, add_line, &p);
    if (rc == LD_STORE_OK && p.n < PIECE_LINES)
        p.seq = tip; /* of other types, or gone with a compaction */
    if (rc >= 0 && !p.text.is_failed && ld_bucket_take(bucket, price_of(p.n), ld_monotonic_ns()) == 0) {
        if (p.text.n > 0)
            write_piece(w, p.text.data, p.text.n, now_us);
        w->seq = p.seq;
    }
    ld_text_close(&p.text);
}

static void say_end(struct ld_watch *w, const char *why)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "event: end\ndata: {");
    ld_text_put_string(&t, "detail", why);
    ld_text_lit(&t, "}\n\n");
    if (!t.is_failed)
        ld_stream_write(w->stream, t.data, t.n);
    ld_text_close(&t);
}

/* NULL: it goes on. */
static const char *why_over(struct ld_server *s, struct ld_watch *w, bool is_over, int64_t now_us)
{
    if (atomic_load(&s->is_draining))
        return "the server is stopping";
    if (is_over)
        return "the tenant was deleted";
    if (now_us - w->checked_us < CHECKED_US)
        return NULL;
    w->checked_us = now_us;
    if (!ld_tenants_has(s->tenants, w->name)) /* it began while the tenant was removed */
        return "the tenant was deleted";
    return ld_access_holds(s, w->has_authorization ? w->authorization : NULL, w->name, LD_ROLE_READ)
               ? NULL
               : "the key does not count any more";
}

/* A tenant is held, and opened where it has been closed, for what it is known to have; otherwise it is left alone. */
static void look(struct ld_server *s, struct ld_watch *w, int64_t now_us)
{
    const bool is_full = now_us - atomic_load(&s->watches.refused_us) < FULL_US;
    if (ld_tenants_tip(s->tenants, w->name) > w->seq) {
        struct ld_tenant *t = ld_tenants_find(s->tenants, w->name);
        if (t != NULL)
            send_new(w, t, now_us);
        ld_tenant_release(t);
    }
    if (now_us - w->written_us >= (is_full ? KEPT_FULL_US : KEPT_US))
        write_piece(w, ":\n\n", 3, now_us);
}

/* Of one that has begun. False: it is over, and its stream is ended. */
static bool serve(struct ld_server *s, struct ld_watch *w, struct ld_stream *stream, bool is_over)
{
    const int64_t now_us = ld_monotonic_us();
    if (stream == NULL)
        return false;
    const char *why = why_over(s, w, is_over, now_us);
    const bool is_gone = ld_stream_is_gone(stream);
    if (!is_gone && why == NULL) {
        if (ld_stream_is_sent(stream))
            look(s, w, now_us);
        return true;
    }
    if (!is_gone)
        say_end(w, why);
    ld_stream_end(stream);
    return false;
}

/* --- the job --------------------------------------------------------------------------------------------------- */

static void take_out(struct ld_watches *all, struct ld_watch *w)
{
    pthread_mutex_lock(&all->lock);
    struct ld_watch **at = &all->first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&all->lock);
    memset(w->authorization, 0, sizeof w->authorization);
    free(w);
}

/* Watches that come meanwhile stand before the first, and are found by the next job. */
static void serve_all(void *arg)
{
    struct ld_server *s = arg;
    pthread_mutex_lock(&s->watches.lock);
    struct ld_watch *w = s->watches.first;
    pthread_mutex_unlock(&s->watches.lock);
    while (w != NULL) {
        struct ld_watch *next = w->next;
        pthread_mutex_lock(&s->watches.lock);
        struct ld_stream *stream = w->stream;
        const bool has_begun = w->has_begun, is_over = w->is_over;
        pthread_mutex_unlock(&s->watches.lock);
        if (has_begun && !serve(s, w, stream, is_over))
            take_out(&s->watches, w);
        w = next;
    }
    atomic_store(&s->watches.is_pumping, false);
}

void ld_watches_tick(struct ld_server *s)
{
    pthread_mutex_lock(&s->watches.lock);
    const bool has_any = s->watches.first != NULL;
    pthread_mutex_unlock(&s->watches.lock);
    if (!has_any || atomic_exchange(&s->watches.is_pumping, true))
        return;
    if (ld_sched_give(s->sched, LD_POOL, serve_all, s, SIZE_MAX) != 0)
        atomic_store(&s->watches.is_pumping, false);
}

void ld_watches_forget_tenant(struct ld_server *s, const char *name)
{
    pthread_mutex_lock(&s->watches.lock);
    for (struct ld_watch *w = s->watches.first; w != NULL; w = w->next)
        w->is_over |= strcmp(w->name, name) == 0;
    pthread_mutex_unlock(&s->watches.lock);
}

/* No job is at work any more. */
void ld_watches_close(struct ld_server *s)
{
    while (s->watches.first != NULL) {
        if (s->watches.first->stream != NULL)
            ld_stream_end(s->watches.first->stream);
        take_out(&s->watches, s->watches.first);
    }
}
