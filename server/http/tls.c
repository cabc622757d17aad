/* The certificate and the key in force, and what is spoken.
 *
 * A pair is made whole or not at all: both files read, the chain and the key parsed, and a signature made by the key
 * that the certificate's public key verifies. What comes out never changes and is shared by all sessions; a reload
 * makes another and exchanges a pointer. Each connection refers to the pair that was in force when it began, for as
 * long as it lives, so that the last of them frees it.
 *
 * There is no resumption of sessions: its tickets are another secret to keep and to renew, and clients of this server
 * keep their connections. There is no early data either, which could be replayed.
 *
 * Cost: a session takes some 20 kB beside the connection; a handshake costs one signature (docs/SPEED.md). */
#include "http/tls.h"
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/time_text.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define MAX_CHAIN 16

/* TLS 1.3, and 1.2 with forward secrecy and authenticated encryption only: no RSA key transport, no CBC, no SHA-1. The
 * groups are listed since finite-field ones of 8,192 bits let a client make the server work for nothing. Whatever is
 * left is sound, so the client's order decides: machines without AES instructions put ChaCha20 first. */
#define PRIORITIES                                                                                                     \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:"                                      \
    "-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:"                                         \
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1"

struct ld_tls_pair {
    atomic_int refs;
    unsigned n_chain;
    gnutls_pcert_st chain[MAX_CHAIN]; /* the server's own first */
    gnutls_privkey_t key;
    int64_t begins_s, expires_s; /* of the server's own; seconds since 1970 */
};

/* The lock guards the pointer, for as long as a connection takes its reference. */
struct ld_tls {
    pthread_mutex_t lock;
    struct ld_tls_pair *pair;
    struct ld_metrics *metrics;
    char *cert_path, *key_path;
};

const char *ld_tls_priorities(void)
{
    return PRIORITIES;
}

/* --- files -------------------------------------------------------------------------------------------- */

/* The bytes up to the file's end, MAX_FILE_BYTES + 1 at most; -1 with errno. Without stdio, whose buffer would keep a
 * copy of the key. */
static ssize_t read_all(const char *path, unsigned char *out)
{
    size_t n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (n <= MAX_FILE_BYTES && (got = read(fd, out + n, MAX_FILE_BYTES + 1 - n)) > 0)
        n += (size_t)got;
    int error = errno;
    close(fd);
    errno = error;
    return got < 0 ? -1 : (ssize_t)n;
}

/* On the heap (free_text). A file of more than a megabyte is no certificate, and a device would have no end. */
static int read_text(const char *path, gnutls_datum_t *out, struct ld_message *why)
{
    out->data = malloc(MAX_FILE_BYTES + 1);
    ssize_t n = out->data != NULL ? read_all(path, out->data) : -1;
    if (n < 0)
        ld_fail(why, "%s: %s", path, strerror(errno));
    else if (n == 0 || n > (ssize_t)MAX_FILE_BYTES)
        ld_fail(why, "%s: %s", path, n == 0 ? "the file is empty" : "larger than a megabyte");
    out->size = n > 0 ? (unsigned)n : 0;
    return n > 0 && n <= (ssize_t)MAX_FILE_BYTES ? 0 : -1;
}

/* Wiped, since it may have been the key. */
static void free_text(gnutls_datum_t *text)
{
    if (text->data != NULL)
        explicit_bzero(text->data, text->size);
    free(text->data);
}

/* The chain and what its first certificate says of its time and strength. The key's strength is looked at here, where
 * the message can name it: what clients refuse is better refused at the start. */
static int import_chain(struct ld_tls_pair *p, const gnutls_datum_t *text, const char *path, struct ld_message *why)
{
    gnutls_x509_crt_t crt[MAX_CHAIN];
    unsigned n = MAX_CHAIN, bits = 0;
    int rc =
        gnutls_x509_crt_list_import(crt, &n, text, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (rc < 0)
        return ld_fail(why, "%s: expected up to %d certificates in PEM: %s", path, MAX_CHAIN, gnutls_strerror(rc));
    int algorithm = gnutls_x509_crt_get_pk_algorithm(crt[0], &bits);
    p->begins_s = gnutls_x509_crt_get_activation_time(crt[0]);
    p->expires_s = gnutls_x509_crt_get_expiration_time(crt[0]);
    bool is_weak =
        algorithm < 0 || gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)algorithm, bits) < GNUTLS_SEC_PARAM_MEDIUM;
    if (is_weak)
        ld_fail(why, "%s: the key of the certificate has %u bits: weaker than RSA of 2048", path, bits);
    else if ((rc = gnutls_pcert_import_x509_list(p->chain, crt, &n, 0)) < 0)
        ld_fail(why, "%s: %s", path, gnutls_strerror(rc));
    else
        p->n_chain = n;
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(crt[i]);
    return p->n_chain > 0 ? 0 : -1;
}

/* A key with a passphrase is refused: nobody is there to type it at a restart. */
static int import_key(struct ld_tls_pair *p, const gnutls_datum_t *text, const char *path, struct ld_message *why)
{
    int rc = gnutls_privkey_init(&p->key);
    if (rc == 0)
        rc = gnutls_privkey_import_x509_raw(p->key, text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc == GNUTLS_E_DECRYPTION_FAILED)
        ld_fail(why, "%s: expected a key without a passphrase", path);
    else if (rc < 0)
        ld_fail(why, "%s: expected a private key in PEM: %s", path, gnutls_strerror(rc));
    return rc < 0 ? -1 : 0;
}

/* Signs something and verifies it with the certificate, which is what a client will do. */
static int check_match(const struct ld_tls_pair *p, const char *cert_path, const char *key_path, struct ld_message *why)
{
    const gnutls_datum_t text = {.data = (unsigned char *)(uintptr_t) "laplaced", .size = 8};
    gnutls_datum_t signature = {.data = NULL};
    gnutls_digest_algorithm_t digest;
    int rc = gnutls_pubkey_get_preferred_hash_algorithm(p->chain[0].pubkey, &digest, NULL);
    int algorithm = gnutls_pubkey_get_pk_algorithm(p->chain[0].pubkey, NULL);
    gnutls_sign_algorithm_t sign = rc == 0 ? gnutls_pk_to_sign((gnutls_pk_algorithm_t)algorithm, digest) : 0;
    if (rc == 0)
        rc = gnutls_privkey_sign_data2(p->key, sign, 0, &text, &signature);
    if (rc == 0)
        rc = gnutls_pubkey_verify_data2(p->chain[0].pubkey, sign, 0, &text, &signature);
    gnutls_free(signature.data);
    if (rc < 0)
        ld_fail(why, "%s: the key does not belong to the first certificate of %s", key_path, cert_path);
    return rc < 0 ? -1 : 0;
}

/* --- pairs -------------------------------------------------------------------------------------------- */

void ld_tls_detach(struct ld_tls_pair *p)
{
    if (p == NULL || atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    for (unsigned i = 0; i < p->n_chain; i++)
        gnutls_pcert_deinit(&p->chain[i]);
    if (p->key != NULL)
        gnutls_privkey_deinit(p->key);
    free(p);
}

/* A pair of both files with one reference; NULL with why. */
static struct ld_tls_pair *read_pair(const char *cert_path, const char *key_path, struct ld_message *why)
{
    gnutls_datum_t cert = {.data = NULL}, key = {.data = NULL};
    struct ld_tls_pair *p = calloc(1, sizeof *p);
    int rc = -1;
    if (p == NULL) {
        ld_fail(why, "out of memory");
        return NULL;
    }
    atomic_init(&p->refs, 1);
    if (read_text(cert_path, &cert, why) == 0 && read_text(key_path, &key, why) == 0 &&
        import_chain(p, &cert, cert_path, why) == 0 && import_key(p, &key, key_path, why) == 0)
        rc = check_match(p, cert_path, key_path, why);
    free_text(&cert);
    free_text(&key);
    if (rc == 0)
        return p;
    ld_tls_detach(p);
    return NULL;
}

/* What an operator should know of a pair that is in force all the same. */
static void tell(const struct ld_tls *tls, const struct ld_tls_pair *p)
{
    struct stat st;
    char from[40], until[40];
    int64_t now_s = ld_now_ms() / 1000;
    ld_format_time(p->begins_s * 1000, from);
    ld_format_time(p->expires_s * 1000, until);
    if (p->expires_s <= now_s)
        ld_log(LD_LOG_WARN, "the certificate of %s has expired: it was valid until %s", tls->cert_path, until);
    else if (p->begins_s > now_s)
        ld_log(LD_LOG_WARN, "the certificate of %s is not valid yet: from %s", tls->cert_path, from);
    else
        ld_log(LD_LOG_INFO, "TLS with the certificate of %s, valid until %s", tls->cert_path, until);
    if (stat(tls->key_path, &st) == 0 && (st.st_mode & S_IROTH) != 0)
        ld_log(LD_LOG_WARN, "%s can be read by every user of this machine", tls->key_path);
    if (tls->metrics != NULL)
        ld_gauge_set(&tls->metrics->tls_expires_s, p->expires_s > 0 ? (uint64_t)p->expires_s : 1);
}

/* --- the server's -------------------------------------------------------------------------------------- */

/* The paths are copied: a reload may come long after. */
int ld_tls_open(struct ld_tls **out, const char *cert_path, const char *key_path, struct ld_metrics *m,
                struct ld_message *why)
{
    struct ld_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return ld_fail(why, "out of memory");
    pthread_mutex_init(&tls->lock, NULL);
    tls->metrics = m;
    tls->cert_path = strdup(cert_path);
    tls->key_path = strdup(key_path);
    if (tls->cert_path == NULL || tls->key_path == NULL)
        ld_fail(why, "out of memory");
    else
        tls->pair = read_pair(cert_path, key_path, why);
    if (tls->pair == NULL) {
        ld_tls_close(tls);
        return -1;
    }
    tell(tls, tls->pair);
    *out = tls;
    return 0;
}

void ld_tls_close(struct ld_tls *tls)
{
    if (tls == NULL)
        return;
    ld_tls_detach(tls->pair);
    pthread_mutex_destroy(&tls->lock);
    free(tls->cert_path);
    free(tls->key_path);
    free(tls);
}

/* Read outside the lock, so that no connection waits for the disk. */
int ld_tls_reload(struct ld_tls *tls, struct ld_message *why)
{
    if (tls == NULL)
        return 0;
    struct ld_tls_pair *fresh = read_pair(tls->cert_path, tls->key_path, why);
    if (fresh == NULL)
        return -1;
    tell(tls, fresh);
    pthread_mutex_lock(&tls->lock);
    struct ld_tls_pair *old = tls->pair;
    tls->pair = fresh;
    pthread_mutex_unlock(&tls->lock);
    ld_tls_detach(old);
    return 0;
}

/* --- sessions ------------------------------------------------------------------------------------------ */

/* GnuTLS asks once a handshake, in the connection's thread. What is lent stays the pair's. */
static int retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **chain,
                    unsigned *n_chain, gnutls_ocsp_data_st **ocsp, unsigned *n_ocsp, gnutls_privkey_t *key,
                    unsigned *flags)
{
    struct ld_tls_pair *p = gnutls_session_get_ptr(session);
    (void)info;
    if (p == NULL)
        return -1;
    *chain = p->chain;
    *n_chain = p->n_chain;
    *ocsp = NULL;
    *n_ocsp = 0;
    *key = p->key;
    *flags = 0;
    return 0;
}

void *ld_tls_retrieve_hook(void)
{
    return (void *)(uintptr_t)retrieve;
}

/* The session's own pointer carries the pair: the library sets it for pre-shared keys alone, which are not spoken. */
struct ld_tls_pair *ld_tls_attach(struct ld_tls *tls, void *session)
{
    pthread_mutex_lock(&tls->lock);
    struct ld_tls_pair *p = tls->pair;
    atomic_fetch_add(&p->refs, 1);
    pthread_mutex_unlock(&tls->lock);
    gnutls_session_set_ptr(session, p);
    return p;
}

void ld_tls_refuse(void *session)
{
    gnutls_session_set_ptr(session, NULL);
}
