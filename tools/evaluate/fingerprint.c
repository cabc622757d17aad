/* Name, size and hash of a file: see fingerprint.h. Owner of libsodium in the client. */
#include "evaluate/fingerprint.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "common/text.h"
#include "evaluate/ope_report.h"

static int hash(struct ld_ope_report_file *out, FILE *f)
{
    unsigned char piece[1u << 15], digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    size_t n;

    out->bytes = 0;
    crypto_hash_sha256_init(&state);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        crypto_hash_sha256_update(&state, piece, n);
        out->bytes += n;
    }
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(out->sha256, sizeof out->sha256, digest, sizeof digest);
    return ferror(f) != 0 ? -1 : 0;
}

int lc_fingerprint(struct ld_ope_report_file *out, const char *role, const char *path, FILE *f, char *why)
{
    const char *slash = strrchr(path, '/');
    FILE *own = f == NULL ? fopen(path, "rb") : NULL, *from = f != NULL ? f : own;
    int rc = -1;

    out->role = role;
    out->name = strcmp(path, "-") == 0 ? "standard input" : slash != NULL ? slash + 1 : path;
    if (from != NULL && (own != NULL || fseek(f, 0, SEEK_SET) == 0))
        rc = hash(out, from);
    if (rc != 0)
        snprintf(why, LC_WHY, "%.160s: %s", path, strerror(errno));
    if (own != NULL)
        fclose(own);
    return rc;
}

void lc_digest(const char *text, char out[LC_DIGEST_BYTES])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, (const unsigned char *)text, strlen(text));
    sodium_bin2base64(out, LC_DIGEST_BYTES, digest, sizeof digest, sodium_base64_VARIANT_ORIGINAL);
}
