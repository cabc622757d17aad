/* What the HTTP library is told when connections are TLS (tls.h has the certificate).
 *
 * Its threads then wait by poll, not by epoll: with epoll 0.9.75 (and 1.0.1) takes a handshake that waits for its
 * client for one that is ready, asks again at once, and a single client that sends half a greeting keeps a core busy
 * until the timeout. poll asks the kernel anew each time. Its cost is a walk over the thread's open connections for
 * each round, 0.1 us each (docs/SPEED.md); a proxy in front keeps few.
 *
 * poll sees the end of a stream at once, so that ld_http_drop_vanished finds nothing here; a client that shuts down its
 * side before it has its answer is taken for gone. */
#include "http_internal.h"
#include "tls.h"

void ld_http_tls_connected(struct ld_http *h, struct MHD_Connection *c, void **slot,
                           enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *slot = ld_tls_attach(h->tls, MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session);
    else
        ld_tls_detach(*slot);
}

/* The callback passes through the table as the library wants it: as a pointer to data. */
unsigned ld_http_tls_options(struct MHD_OptionItem out[2])
{
    out[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)ld_tls_priorities()};
    out[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, ld_tls_retrieve_hook()};
    return MHD_USE_TLS | MHD_USE_POLL_INTERNAL_THREAD;
}
