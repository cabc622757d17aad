/* Connections: how many there may be, and how long each may take for what it is at.
 *
 * Each connection has a record with one word: what it is at, and since when the timer has known. The library's thread
 * stores the former, with no time, when that changes; the timer (ld_http_sweep, every 250 ms) writes the time in when
 * it first sees the word, and cuts the connection when the word has grown too old. So a request pays for a few stores
 * to a line of its own, takes no lock here and reads no clock, and a timer that was late makes nobody's time run out.
 *
 *   at        ends with                    may take
 *   HEAD      the headers complete         head_ms, from the accept (a TLS handshake included) or the request line
 *   BODY      the body complete            body_ms, if body_bytes come in each such time; longer when they do
 *   HANDLED   the reply                    as long as it takes: the client waits for us
 *   ANSWER    the last byte written        like BODY, by the bytes that the client has acknowledged
 *   IDLE      the next request line        idle_ms
 *   CUT       the socket closed            (over: nothing that still arrives is worked on)
 *
 * The socket of a connection that is cut is shut down, which its thread sees; the record is free when the library has
 * let go of the connection. The lock guards which records are in use, and thereby that a socket is not closed, hence
 * not used again, while it is shut down here. It is taken when a connection begins or ends and by the timer.
 *
 * When all connections are taken, the one that has been without a request for the longest time (IDLE or HEAD) gives
 * way to a new one; only when each has a request in progress is the new one refused. Cost of that: a pass over the
 * records, 64 bytes each. */
#include "http/http_impl.h"

#include <stdio.h>
#include <arpa/inet.h>
#include <linux/tcp.h> /* the C library's has no bytes_acked */
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash_key.h"
#include "base/metrics.h"

#define PHASE_BITS 3
#define NO_RECORD UINT32_MAX
#define TICK_MS 250

static enum connection_phase phase_of(uint64_t word)
{
    return (enum connection_phase)(word & ((1u << PHASE_BITS) - 1));
}

/* Milliseconds of the timer's clock; 0 until it has seen the word. */
static uint64_t stamp_of(uint64_t word)
{
    return word >> PHASE_BITS;
}

/* --- records ------------------------------------------------------------------------------------------- */

static uint64_t ms(unsigned seconds)
{
    return (uint64_t)seconds * 1000;
}

/* -1 without memory. Records beyond max_connections are for those that have given way and are not closed yet. */
int ld_connections_init(struct ld_connections *all, const struct ld_http_options *o)
{
    all->max = o->max_connections;
    all->max_per_address = o->max_per_address;
    all->n_records = o->max_connections + LD_SPARE_CONNECTIONS;
    all->max_head = o->max_head > 0 ? o->max_head : SIZE_MAX / 4;
    all->metrics = o->metrics;
    all->free_record = NO_RECORD;
    while ((1u << all->bucket_bits) < all->n_records)
        all->bucket_bits++;
    all->record = aligned_alloc(sizeof *all->record, all->n_records * sizeof *all->record);
    all->bucket = malloc(sizeof *all->bucket << all->bucket_bits);
    if (all->record == NULL || all->bucket == NULL) {
        free(all->record);
        free(all->bucket);
        return -1;
    }
    memset(all->bucket, 0xff, sizeof *all->bucket << all->bucket_bits); /* NO_RECORD */
    pthread_mutex_init(&all->lock, NULL);
    ld_connections_set_limits(all, &o->limits);
    return 0;
}

/* In force with the next turn of the timer. Without a rate a single byte is enough. */
void ld_connections_set_limits(struct ld_connections *all, const struct ld_http_limits *limits)
{
    uint64_t bytes = (uint64_t)limits->min_rate * limits->body_timeout_s;
    pthread_mutex_lock(&all->lock);
    all->limit_ms[PHASE_HEAD] = ms(limits->head_timeout_s);
    all->limit_ms[PHASE_BODY] = all->limit_ms[PHASE_ANSWER] = ms(limits->body_timeout_s);
    all->limit_ms[PHASE_IDLE] = ms(limits->timeout_s);
    all->window_bytes = bytes > 0 ? bytes : 1;
    pthread_mutex_unlock(&all->lock);
}

/* When the library has let go of every connection. */
void ld_connections_destroy(struct ld_connections *all)
{
    pthread_mutex_destroy(&all->lock);
    free(all->record);
    free(all->bucket);
}

/* --- by address ------------------------------------------------------------------------------------------ */

/* What is counted together: an IPv4 address, also in IPv6's clothes, or the /64 of an IPv6 address, which is what one
 * household or machine is given. 0 for loopback, which is not counted: a proxy on this machine speaks for many. */
static uint64_t address_key(const struct sockaddr *a)
{
    uint64_t key = 0;
    uint32_t v4 = 0;
    if (a->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        if (!IN6_IS_ADDR_V4MAPPED(ip)) {
            memcpy(&key, ip, sizeof key);
            return key; /* 0 for ::1 */
        }
        memcpy(&v4, &ip->s6_addr[12], sizeof v4);
    } else if (a->sa_family == AF_INET) {
        v4 = ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
    }
    return v4 == 0 || ntohl(v4) >> 24 == 127 ? 0 : UINT64_C(1) << 32 | v4;
}

static uint32_t *bucket_of(struct ld_connections *all, uint64_t key)
{
    struct kb_keyed h = kb_keyed_begin(ld_hash_key());

    kb_keyed_word(&h, key);
    return &all->bucket[kb_keyed_end(h) & ((UINT64_C(1) << all->bucket_bits) - 1)];
}

/* Whether as many connections as one address may have are of this one. A walk over at most so many, and those that
 * share the bucket. */
static bool is_address_full(struct ld_connections *all, uint64_t key)
{
    unsigned n = 0;
    if (all->max_per_address == 0 || key == 0)
        return false;
    for (uint32_t i = *bucket_of(all, key); i != NO_RECORD; i = all->record[i].next)
        n += all->record[i].address == key;
    return n >= all->max_per_address;
}

static void unlink_address(struct ld_connections *all, struct ld_connection *c)
{
    uint32_t *at = bucket_of(all, c->address), me = (uint32_t)(c - all->record);
    while (*at != me)
        at = &all->record[*at].next;
    *at = c->next;
}

/* --- ending them ----------------------------------------------------------------------------------------- */

/* False when the connection has gone on to something else meanwhile. Its thread sees the end of the socket, or the
 * word, whichever comes first. */
static bool cut(struct ld_connection *c, uint64_t word, const char *farewell)
{
    if (!atomic_compare_exchange_strong(&c->word, &word, PHASE_CUT))
        return false;
    if (farewell != NULL && MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) == NULL)
        ld_http_tell(c->fd, MHD_HTTP_REQUEST_TIMEOUT, farewell);
    shutdown(c->fd, SHUT_RDWR);
    return true;
}

/* Shuts the connection that has been without a request for the longest time. Those that the timer has not seen yet are
 * too young. False when there is none. The lock is held. */
static bool make_room(struct ld_connections *all)
{
    struct ld_connection *oldest = NULL;
    uint64_t oldest_word = 0;
    for (uint32_t i = 0; i < all->n_touched; i++) {
        struct ld_connection *c = &all->record[i];
        uint64_t word = c->connection != NULL ? atomic_load_explicit(&c->word, memory_order_relaxed) : PHASE_CUT;
        bool is_waiting = phase_of(word) == PHASE_IDLE || phase_of(word) == PHASE_HEAD;
        if (is_waiting && stamp_of(word) != 0 && (oldest == NULL || stamp_of(word) < stamp_of(oldest_word))) {
            oldest = c;
            oldest_word = word;
        }
    }
    if (oldest == NULL || !cut(oldest, oldest_word, NULL))
        return false;
    all->n_open--;
    oldest->is_counted = false;
    atomic_fetch_add_explicit(&all->metrics->connections_gave_way, 1, memory_order_relaxed);
    return true;
}

/* --- beginning and end ------------------------------------------------------------------------------------- */

/* NULL: none is left. The lock is held. Records are touched for the first time as they are needed: room for a million
 * connections costs memory when there are so many. */
static struct ld_connection *take_record(struct ld_connections *all)
{
    uint32_t i = all->free_record;
    if (i != NO_RECORD)
        all->free_record = all->record[i].next;
    else if (all->n_touched < all->n_records)
        i = all->n_touched++;
    return i != NO_RECORD ? &all->record[i] : NULL;
}

/* NULL when the connection is refused: the caller shuts its socket. */
struct ld_connection *ld_connections_open(struct ld_connections *all, struct MHD_Connection *connection, int fd,
                                          const struct sockaddr *address, unsigned lane)
{
    struct ld_connection *c = NULL;
    uint64_t key = address_key(address);
    pthread_mutex_lock(&all->lock);
    if (!is_address_full(all, key) && (all->n_open < all->max || make_room(all)))
        c = take_record(all);
    if (c != NULL) {
        *c = (struct ld_connection){
            .connection = connection, .fd = fd, .address = key, .lane = (uint8_t)lane, .is_counted = true};
        atomic_init(&c->word, PHASE_HEAD);
        atomic_init(&c->n_received, 0);
        c->next = *bucket_of(all, key);
        *bucket_of(all, key) = (uint32_t)(c - all->record);
        all->n_open++;
    }
    pthread_mutex_unlock(&all->lock);
    atomic_fetch_add_explicit(c != NULL ? &all->metrics->connections : &all->metrics->connections_refused, 1,
                              memory_order_relaxed);
    return c;
}

/* Before the library closes the socket. */
void ld_connections_close(struct ld_connections *all, struct ld_connection *c)
{
    pthread_mutex_lock(&all->lock);
    unlink_address(all, c);
    all->n_open -= c->is_counted;
    c->connection = NULL;
    c->next = all->free_record;
    all->free_record = (uint32_t)(c - all->record);
    pthread_mutex_unlock(&all->lock);
    atomic_fetch_sub_explicit(&all->metrics->connections, 1, memory_order_relaxed);
}

/* In the library's thread; empty for an address that is none of IP. */
void ld_request_peer(const struct ld_request *r, char out[LD_PEER_BYTES])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info != NULL ? info->client_addr : NULL;
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = '\0';
    if (a != NULL && a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, LD_PEER_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else if (a != NULL && a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)a;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(out, LD_PEER_BYTES, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

/* The library's call for each connection, first and last, with its lane. One that is refused is told so where that is
 * possible in plain text, and ends in the library as if its client had left. */
void ld_connection_notify(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct ld_lane *lane = arg;
    struct ld_http *h = lane->http;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        atomic_fetch_sub_explicit(&lane->n_open, 1, memory_order_relaxed);
        if (*context == NULL)
            return;
        ld_http_tls_end(h, *context);
        ld_connections_close(&h->connections, *context);
        return;
    }
    lane->has_begun = true;
    atomic_fetch_sub(&h->n_given, 1);
    int fd = (int)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *context = ld_connections_open(&h->connections, connection, fd,
                                   MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr,
                                   (unsigned)(lane - h->lane));
    ld_http_tls_begin(h, connection, *context);
    if (*context != NULL)
        return;
    if (MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) == NULL)
        ld_http_tell(fd, MHD_HTTP_SERVICE_UNAVAILABLE, "there are too many connections");
    shutdown(fd, SHUT_RDWR);
}

/* NULL for one that was refused. */
struct ld_connection *ld_connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* False when the timer was faster: then nothing more is done for this connection. */
bool ld_connection_enter(struct ld_connection *c, enum connection_phase phase)
{
    uint64_t word = atomic_load(&c->word);
    while (phase_of(word) != PHASE_CUT)
        if (atomic_compare_exchange_weak(&c->word, &word, phase))
            return true;
    return false;
}

/* --- the timer --------------------------------------------------------------------------------------------- */

/* Bytes of the answer, or of its TLS records, that the client has taken; 0 on kernels older than 4.1, where an answer
 * has body_ms in all. */
static uint64_t acknowledged(int fd)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
        n < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
        return 0;
    return info.tcpi_bytes_acked;
}

static uint64_t moved(const struct ld_connection *c, enum connection_phase phase)
{
    if (phase == PHASE_ANSWER)
        return acknowledged(c->fd);
    return phase == PHASE_BODY ? atomic_load_explicit(&c->n_received, memory_order_relaxed) : 0;
}

/* Whether the client has closed its side, with nothing left to read. A look at the socket without taking a byte from
 * the library; false as long as there is something to read. */
static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* A client that left in the middle of its body, or with its last request. The library's edge-triggered epoll overlooks
 * an end of stream that arrives together with other bytes; closing both sides raises the event that it does see. Within
 * a body it is to be seen twice, so that a whole one whose client has shut down its side has been handed over by then.
 * A connection that has become idle is looked at once: an end that comes later, alone, is not overlooked. */
static bool has_vanished(struct ld_connection *c, uint64_t word, uint64_t now)
{
    bool is_body = phase_of(word) == PHASE_BODY;
    bool is_newly_idle = phase_of(word) == PHASE_IDLE && now - stamp_of(word) < 2 * TICK_MS;
    if (stamp_of(word) == 0 || (!is_body && !is_newly_idle) || !is_closed(c->fd))
        return false;
    bool is_again = is_newly_idle || c->closed_at == word;
    c->closed_at = word;
    return is_again;
}

static void count_timeout(struct ld_metrics *m, enum connection_phase phase)
{
    static const enum ld_timed_phase counted[] = {[PHASE_HEAD] = LD_TIMED_HEADERS,
                                                  [PHASE_BODY] = LD_TIMED_BODY,
                                                  [PHASE_ANSWER] = LD_TIMED_ANSWER,
                                                  [PHASE_IDLE] = LD_TIMED_IDLE};
    atomic_fetch_add_explicit(&m->connections_timed_out[counted[phase]], 1, memory_order_relaxed);
}

/* Gives the word its time, or a new one when enough has moved since; cuts the connection when neither. One that is cut
 * and still there is shut again: its thread may have been between two looks at the socket. */
static void judge(struct ld_connections *all, struct ld_connection *c, uint64_t now)
{
    uint64_t word = atomic_load(&c->word), limit = all->limit_ms[phase_of(word)], n;
    if (phase_of(word) == PHASE_CUT)
        shutdown(c->fd, SHUT_RDWR);
    if (has_vanished(c, word, now))
        (void)cut(c, word, NULL);
    else if (limit != 0 && (stamp_of(word) == 0 || now - stamp_of(word) > limit)) {
        n = moved(c, phase_of(word));
        if (stamp_of(word) != 0 && n - c->n_at_stamp < all->window_bytes) {
            bool is_body = phase_of(word) == PHASE_BODY;
            if (cut(c, word, is_body ? "the body took too long" : NULL))
                count_timeout(all->metrics, phase_of(word));
            return;
        }
        c->n_at_stamp = n;
        (void)atomic_compare_exchange_strong(&c->word, &word, now << PHASE_BITS | phase_of(word));
    }
}

/* O(connections): a look at a word each; system calls for bodies that are coming and answers that take long. */
void ld_connections_sweep(struct ld_connections *all, uint64_t now_ms)
{
    pthread_mutex_lock(&all->lock);
    for (uint32_t i = 0; i < all->n_touched; i++)
        if (all->record[i].connection != NULL)
            judge(all, &all->record[i], now_ms);
    pthread_mutex_unlock(&all->lock);
}
