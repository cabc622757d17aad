/* TLS: the certificate chain and key that the server shows, read again while it serves (owner of GnuTLS: tls.c). The
 * HTTP library makes the sessions; this names what they may speak and what they show. */
#ifndef LD_TLS_H
#define LD_TLS_H

#include "base/message.h"

struct ld_tls;      /* the files, and the pair in force */
struct ld_tls_pair; /* a chain with its key; lives as long as a connection refers to it */
struct ld_message;
struct ld_metrics;

/* Reads and checks both files. 0, or -1 with why naming the file and what is wrong with it. The date of
 * expiry goes to m (may be NULL). */
int ld_tls_open(struct ld_tls **out, const char *cert_path, const char *key_path, struct ld_metrics *m,
                struct ld_message *why);
void ld_tls_close(struct ld_tls *tls); /* when no connection is left; NULL is fine */

/* Reads both files again: connections that begin from now on get the new pair, open ones go on with theirs. -1 with
 * why: the old pair stays in force. A server without TLS (NULL) has nothing to read, which is no failure. */
int ld_tls_reload(struct ld_tls *tls, struct ld_message *why);

/* What is spoken, as a GnuTLS priority string. */
const char *ld_tls_priorities(void);

/* The library's hook for the certificate, of type gnutls_certificate_retrieve_function3 *. It wants a session that was
 * attached or refused. */
void *ld_tls_retrieve_hook(void);

/* A new connection's session (gnutls_session_t) takes the pair in force; thread safe. To be given back to
 * ld_tls_detach when the session is gone. */
struct ld_tls_pair *ld_tls_attach(struct ld_tls *tls, void *session);
void ld_tls_detach(struct ld_tls_pair *pair);
/* A session that is to have none: its handshake fails. */
void ld_tls_refuse(void *session);

#endif
