/* Certificates and keys: what is taken, what is refused and in which words, and that a reload changes what new
 * connections get and nothing of what open ones have. Real handshakes are tests/http/r00_tls.py. */
#include <check.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kbt.h"
#include "base/metrics.h"
#include "base/message.h"
#include "http/tls.h"

#define DAY 86400

static char folder[64], cert[96], key[96], log_path[96];
static struct ld_message why;
static struct ld_metrics metrics;

static void write_file(const char *path, const void *text, size_t n)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* What a file holds, NUL-terminated, in a buffer of its own. */
static const char *read_file(const char *path)
{
    static char text[65536];
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static void write_key(const char *path, gnutls_x509_privkey_t k, const char *passphrase)
{
    gnutls_datum_t text;
    unsigned flags = passphrase != NULL ? GNUTLS_PKCS_PBES2_AES_256 : GNUTLS_PKCS_PLAIN;
    ck_assert_int_eq(gnutls_x509_privkey_export2_pkcs8(k, GNUTLS_X509_FMT_PEM, passphrase, flags, &text), 0);
    write_file(path, text.data, text.size);
    ck_assert_int_eq(chmod(path, 0600), 0);
    gnutls_free(text.data);
}

static gnutls_x509_privkey_t make_key(gnutls_pk_algorithm_t algorithm, unsigned bits)
{
    gnutls_x509_privkey_t k;
    ck_assert_int_eq(gnutls_x509_privkey_init(&k), 0);
    ck_assert_int_eq(gnutls_x509_privkey_generate(k, algorithm, bits, 0), 0);
    return k;
}

/* A self-signed certificate, appended to the file; its serial number tells it from others. */
static void append_cert(const char *path, gnutls_x509_privkey_t k, unsigned char serial, time_t from, time_t until)
{
    gnutls_x509_crt_t c;
    gnutls_datum_t text;
    ck_assert_int_eq(gnutls_x509_crt_init(&c), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_version(c, 3), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_serial(c, &serial, 1), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_dn(c, "CN=laplaced test", NULL), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_activation_time(c, from), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_expiration_time(c, until), 0);
    ck_assert_int_eq(gnutls_x509_crt_set_key(c, k), 0);
    bool is_ed = gnutls_x509_privkey_get_pk_algorithm(k) == GNUTLS_PK_EDDSA_ED25519;
    ck_assert_int_eq(gnutls_x509_crt_sign2(c, c, k, is_ed ? GNUTLS_DIG_SHA512 : GNUTLS_DIG_SHA256, 0), 0);
    ck_assert_int_eq(gnutls_x509_crt_export2(c, GNUTLS_X509_FMT_PEM, &text), 0);
    FILE *f = fopen(path, "a");
    ck_assert_uint_eq(fwrite(text.data, 1, text.size, f), text.size);
    fclose(f);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(c);
}

/* Both files anew, valid from `from` to `until` in days from now. */
static void make_pair(unsigned char serial, long from, long until)
{
    gnutls_x509_privkey_t k = make_key(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
    (void)unlink(cert);
    append_cert(cert, k, serial, time(NULL) + from * DAY, time(NULL) + until * DAY);
    write_key(key, k, NULL);
    gnutls_x509_privkey_deinit(k);
}

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/laplaced-tls-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    int fd = open(log_path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0); /* the process of one case ends with it */
    close(fd);
    memset(&metrics, 0, sizeof metrics);
    make_pair(1, -1, 30);
}

static void teardown(void)
{
    (void)unlink(cert);
    (void)unlink(key);
    (void)unlink(log_path);
    (void)rmdir(folder);
}

static struct ld_tls *opened(void)
{
    struct ld_tls *tls = NULL;
    ck_assert_msg(ld_tls_open(&tls, cert, key, &metrics, &why) == 0, "%s", why.text);
    return tls;
}

/* Refused, with `words` in the reason, which begins with the file at fault. */
static void expect_refusal(const char *file, const char *words)
{
    struct ld_tls *tls = NULL;
    why.text[0] = '\0';
    ck_assert_int_eq(ld_tls_open(&tls, cert, key, &metrics, &why), -1);
    ck_assert_ptr_null(tls);
    ck_assert_msg(strncmp(why.text, file, strlen(file)) == 0 && strstr(why.text, words) != NULL, "%s", why.text);
    ck_assert_uint_eq(atomic_load(&metrics.tls_expires_s), 0);
}

/* The serial number of what a session would show that begins now. */
static int serial_of(gnutls_session_t session)
{
    gnutls_certificate_retrieve_function3 *retrieve =
        (gnutls_certificate_retrieve_function3 *)(uintptr_t)ld_tls_retrieve_hook();
    gnutls_pcert_st *chain;
    gnutls_ocsp_data_st *ocsp;
    gnutls_privkey_t private_key;
    gnutls_x509_crt_t c;
    unsigned n, n_ocsp, flags;
    unsigned char serial[20];
    size_t n_serial = sizeof serial;
    ck_assert_int_eq(retrieve(session, NULL, &chain, &n, &ocsp, &n_ocsp, &private_key, &flags), 0);
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_eq(n_ocsp, 0);
    ck_assert_uint_eq(flags, 0); /* what is lent is not freed by the session */
    ck_assert_int_eq(gnutls_pcert_export_x509(&chain[0], &c), 0);
    ck_assert_int_eq(gnutls_x509_crt_get_serial(c, serial, &n_serial), 0);
    gnutls_x509_crt_deinit(c);
    return serial[n_serial - 1];
}

START_TEST(a_good_pair_is_taken_and_its_expiry_counted)
{
    time_t now = time(NULL);
    struct ld_tls *tls = opened();
    uint64_t expires = atomic_load(&metrics.tls_expires_s);
    ck_assert_uint_ge(expires, (uint64_t)(now + 30 * DAY - 60));
    ck_assert_uint_le(expires, (uint64_t)(now + 30 * DAY + 60));
    ck_assert_ptr_nonnull(strstr(read_file(log_path), "valid until"));
    ck_assert_ptr_null(strstr(read_file(log_path), "level=warn"));
    ld_tls_close(tls);
}
END_TEST

START_TEST(missing_and_unreadable_files_are_named_with_the_reason)
{
    ck_assert_int_eq(unlink(cert), 0);
    expect_refusal(cert, "No such file");
    ck_assert_int_eq(mkdir(cert, 0700), 0);
    expect_refusal(cert, "Is a directory");
    ck_assert_int_eq(rmdir(cert), 0);
    make_pair(1, -1, 30);
    ck_assert_int_eq(unlink(key), 0);
    expect_refusal(key, "No such file");
    write_file(key, "", 0);
    expect_refusal(key, "empty");
}
END_TEST

START_TEST(a_key_that_may_not_be_read_is_named)
{
    ck_assert_int_eq(chmod(key, 0), 0);
    if (access(key, R_OK) == 0) /* root may read everything */
        return;
    expect_refusal(key, "Permission denied");
}
END_TEST

START_TEST(files_that_are_not_pem_are_refused)
{
    write_file(cert, "hello\n", 6);
    expect_refusal(cert, "in PEM");
    make_pair(1, -1, 30);
    write_file(key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 59);
    expect_refusal(key, "in PEM");
    char *large = calloc(1, (1 << 20) + 1);
    write_file(key, large, (1 << 20) + 1);
    free(large);
    expect_refusal(key, "larger than");
}
END_TEST

START_TEST(a_swapped_pair_is_refused)
{
    char *text = strdup(read_file(cert));
    const char *other = read_file(key);
    write_file(cert, other, strlen(other));
    write_file(key, text, strlen(text));
    free(text);
    expect_refusal(cert, "certificates in PEM");
}
END_TEST

START_TEST(a_key_of_another_certificate_is_refused)
{
    gnutls_x509_privkey_t k = make_key(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
    write_key(key, k, NULL);
    gnutls_x509_privkey_deinit(k);
    expect_refusal(key, "does not belong to the first certificate of");
    ck_assert_ptr_nonnull(strstr(why.text, cert));
    k = make_key(GNUTLS_PK_RSA, 2048); /* of another kind, too */
    write_key(key, k, NULL);
    gnutls_x509_privkey_deinit(k);
    expect_refusal(key, "does not belong to the first certificate of");
}
END_TEST

START_TEST(a_key_with_a_passphrase_is_refused)
{
    gnutls_x509_privkey_t k = make_key(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
    write_key(key, k, "secret");
    gnutls_x509_privkey_deinit(k);
    expect_refusal(key, "without a passphrase");
}
END_TEST

/* Kinds of keys that clients take, and one that they do not. */
static const struct {
    gnutls_pk_algorithm_t algorithm;
    unsigned bits;
    bool is_taken;
} kinds[] = {{GNUTLS_PK_RSA, 2048, true},
             {GNUTLS_PK_EDDSA_ED25519, 0, true},
             {GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1), true},
             {GNUTLS_PK_RSA, 1024, false}};

START_TEST(keys_of_all_kinds_are_taken_but_not_weak_ones)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gnutls_x509_privkey_t k = make_key(kinds[i].algorithm, kinds[i].bits);
        (void)unlink(cert);
        append_cert(cert, k, 1, time(NULL) - DAY, time(NULL) + DAY);
        write_key(key, k, NULL);
        gnutls_x509_privkey_deinit(k);
        atomic_store(&metrics.tls_expires_s, 0);
        if (kinds[i].is_taken)
            ld_tls_close(opened());
        else
            expect_refusal(cert, "1024 bits");
    }
}
END_TEST

START_TEST(a_chain_of_sixteen_is_taken_and_a_longer_one_refused)
{
    gnutls_x509_privkey_t k = make_key(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
    for (unsigned char i = 2; i <= 16; i++)
        append_cert(cert, k, i, time(NULL) - DAY, time(NULL) + DAY);
    ld_tls_close(opened());
    atomic_store(&metrics.tls_expires_s, 0);
    append_cert(cert, k, 17, time(NULL) - DAY, time(NULL) + DAY);
    gnutls_x509_privkey_deinit(k);
    expect_refusal(cert, "up to 16");
}
END_TEST

START_TEST(a_certificate_out_of_its_time_is_taken_with_a_warning_that_has_the_date)
{
    char date[32];
    time_t until = time(NULL) - 2 * DAY;
    make_pair(1, -9, -2);
    ld_tls_close(opened());
    strftime(date, sizeof date, "until %Y-%m-%dT", gmtime(&until));
    ck_assert_ptr_nonnull(strstr(read_file(log_path), "has expired"));
    ck_assert_ptr_nonnull(strstr(read_file(log_path), date));
    ck_assert_uint_lt(atomic_load(&metrics.tls_expires_s), (uint64_t)time(NULL));
    make_pair(1, 2, 9);
    ld_tls_close(opened());
    ck_assert_ptr_nonnull(strstr(read_file(log_path), "not valid yet"));
}
END_TEST

START_TEST(a_key_file_that_everybody_can_read_is_warned_of)
{
    ck_assert_int_eq(chmod(key, 0640), 0);
    ld_tls_close(opened());
    ck_assert_ptr_null(strstr(read_file(log_path), "every user"));
    ck_assert_int_eq(chmod(key, 0644), 0);
    ld_tls_close(opened());
    ck_assert_ptr_nonnull(strstr(read_file(log_path), "can be read by every user"));
}
END_TEST

START_TEST(a_reload_is_for_new_connections_and_a_bad_one_for_nobody)
{
    gnutls_session_t before, after, late;
    struct ld_tls *tls = opened();
    ck_assert_int_eq(gnutls_init(&before, GNUTLS_SERVER), 0);
    ck_assert_int_eq(gnutls_init(&after, GNUTLS_SERVER), 0);
    ck_assert_int_eq(gnutls_init(&late, GNUTLS_SERVER), 0);
    struct ld_tls_pair *first = ld_tls_attach(tls, before);
    make_pair(2, -1, 60);
    ck_assert_msg(ld_tls_reload(tls, &why) == 0, "%s", why.text);
    struct ld_tls_pair *second = ld_tls_attach(tls, after);
    uint64_t expires = atomic_load(&metrics.tls_expires_s);
    ck_assert_uint_gt(expires, (uint64_t)(time(NULL) + 59 * DAY));
    write_file(cert, "gone\n", 5);
    ck_assert_int_eq(ld_tls_reload(tls, &why), -1);
    ck_assert_ptr_nonnull(strstr(why.text, cert));
    struct ld_tls_pair *third = ld_tls_attach(tls, late);
    ck_assert_int_eq(serial_of(before), 1);
    ck_assert_int_eq(serial_of(after), 2);
    ck_assert_int_eq(serial_of(late), 2);
    ck_assert_uint_eq(atomic_load(&metrics.tls_expires_s), expires);
    gnutls_deinit(before);
    gnutls_deinit(after);
    gnutls_deinit(late);
    ld_tls_detach(third);
    ld_tls_detach(first);
    ld_tls_detach(second);
    ld_tls_close(tls);
}
END_TEST

START_TEST(without_tls_a_reload_has_nothing_to_do)
{
    ck_assert_int_eq(ld_tls_reload(NULL, &why), 0);
    ld_tls_close(NULL);
}
END_TEST

START_TEST(the_priorities_are_tls_1_2_and_1_3_with_authenticated_encryption)
{
    gnutls_priority_t p;
    const unsigned *protocols;
    unsigned id;
    const char *name;
    gnutls_protocol_t version;
    ck_assert_int_eq(gnutls_priority_init(&p, ld_tls_priorities(), NULL), 0);
    ck_assert_int_eq(gnutls_priority_protocol_list(p, &protocols), 2);
    ck_assert_uint_eq(protocols[0], GNUTLS_TLS1_3);
    ck_assert_uint_eq(protocols[1], GNUTLS_TLS1_2);
    size_t n = 0;
    for (unsigned i = 0; gnutls_priority_get_cipher_suite_index(p, i, &id) != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
         i++) {
        name = gnutls_cipher_suite_info(id, NULL, NULL, NULL, NULL, &version);
        if (name == NULL)
            continue;
        n++;
        ck_assert_msg(strstr(name, "CBC") == NULL && strstr(name, "TLS_RSA") == NULL, "%s", name);
        ck_assert_msg(strstr(name, "GCM") != NULL || strstr(name, "POLY1305") != NULL, "%s", name);
    }
    ck_assert_uint_ge(n, 9); /* three of TLS 1.3, and three each for ECDSA and RSA of 1.2 */
    gnutls_priority_deinit(p);
}
END_TEST

/* Each case has files and a log of its own, hence a fixture of its own. */
int main(void)
{
    const TTest *const tests[] = {a_good_pair_is_taken_and_its_expiry_counted,
                                  missing_and_unreadable_files_are_named_with_the_reason,
                                  a_key_that_may_not_be_read_is_named,
                                  files_that_are_not_pem_are_refused,
                                  a_swapped_pair_is_refused,
                                  a_key_of_another_certificate_is_refused,
                                  a_key_with_a_passphrase_is_refused,
                                  keys_of_all_kinds_are_taken_but_not_weak_ones,
                                  a_chain_of_sixteen_is_taken_and_a_longer_one_refused,
                                  a_certificate_out_of_its_time_is_taken_with_a_warning_that_has_the_date,
                                  a_key_file_that_everybody_can_read_is_warned_of,
                                  a_reload_is_for_new_connections_and_a_bad_one_for_nobody,
                                  without_tls_a_reload_has_nothing_to_do,
                                  the_priorities_are_tls_1_2_and_1_3_with_authenticated_encryption};
    Suite *suite = suite_create("tls");
    TCase *cases = tcase_create("tls");
    tcase_add_checked_fixture(cases, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return kbt_run_suite(suite);
}
