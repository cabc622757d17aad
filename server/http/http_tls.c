/* What the HTTP library is told when connections are TLS (tls.h has the certificate).
 *
 * Its threads then wait by poll, not by epoll: with epoll 0.9.75 (and 1.0.1) takes a handshake that waits for its
 * client for one that is ready, asks again at once, and a single client that sends half a greeting keeps a core busy
 * until the timeout. poll asks the kernel anew each time. Its cost is a walk over the thread's open connections for
 * each round, 0.06 us each (docs/SPEED.md); a proxy in front keeps few. It sees the end of a stream with the next
 * round: a client that shuts down its side before it has its answer is taken for gone.
 *
 * Each connection's pair of certificate and key is kept by its record, in a list of its own: the record has no room
 * left in its line of the cache, and most servers have no use for it. */
#include "http/http_impl.h"
#include "http/tls.h"

void ld_http_tls_begin(struct ld_http *h, struct MHD_Connection *connection, const struct ld_connection *c)
{
    if (h->tls == NULL)
        return;
    void *session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    if (c != NULL)
        h->pairs[c - h->connections.record] = ld_tls_attach(h->tls, session);
    else
        ld_tls_refuse(session);
}

void ld_http_tls_end(struct ld_http *h, const struct ld_connection *c)
{
    if (h->tls != NULL)
        ld_tls_detach(h->pairs[c - h->connections.record]);
}

/* The callback passes through the table as the library wants it: as a pointer to data. */
unsigned ld_http_tls_options(struct MHD_OptionItem out[2])
{
    out[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)ld_tls_priorities()};
    out[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, ld_tls_retrieve_hook()};
    return MHD_USE_TLS | MHD_USE_POLL_INTERNAL_THREAD;
}
