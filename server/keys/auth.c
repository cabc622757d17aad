/* Admin keys of a file, read and put in force; who.c compares with them.
 *
 * A reload swaps the whole set under a lock, so that no request ever sees half of a file.
 *
 * Whoever shows any of them is an admin. They are how a server gets its first keys, and the way back in when all others
 * are lost (keys.c has those that the API makes). They are not hashed, since the file holds them in the clear as well.
 */
#include "keys/auth_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

#define SHORT_KEY 16 /* bytes below which a key is complained about */

/* Adds the key on a line (cut at the line's end); -1 with why about the line. Blanks at the end go, since editors
 * leave them; one anywhere else is a fault, and so is a byte beyond ASCII: a header could not carry it. The warning
 * tells the key's number and length, never the key. */
static int add_key(struct ld_key_file *set, const char *line, struct ld_message *why)
{
    size_t n = strcspn(line, "\r\n");
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    if (n == 0 || line[0] == '#')
        return 0;
    /* Refused whole, not cut: a key that is cut would let in whoever knows its beginning. */
    if (n > LD_FILE_KEY_BYTES || set->n == LD_FILE_KEYS)
        return ld_fail(why, n > LD_FILE_KEY_BYTES ? "the key is longer than 256 bytes" : "more than 64 keys");
    for (size_t i = 0; i < n; i++)
        if (line[i] <= ' ' || line[i] > '~')
            return ld_fail(why, "a key holds visible ASCII characters only");
    if (n < SHORT_KEY)
        ld_log(LD_LOG_WARN, "admin key %zu has %zu characters only: guessable", set->n + 1, n);
    memcpy(set->key[set->n++], line, n); /* the block is zeroed */
    return 0;
}

/* All lines into the set; a file without a key is a fault, or a slip of an editor would let nobody in. Lines come in
 * pieces of 1,023 bytes. A key of that length is refused by its first piece; a comment of that length would have its
 * rest read as a line of its own, and should be broken by whoever writes it. */
static int read_lines(struct ld_key_file *set, FILE *f, const char *path, struct ld_message *why)
{
    char line[1024];
    struct ld_message reason;
    for (int number = 1; fgets(line, sizeof line, f) != NULL; number++)
        if (add_key(set, line, &reason) != 0)
            return ld_fail(why, "%s:%d: %s", path, number, reason.text);
    if (ferror(f) || set->n == 0)
        return ld_fail(why, "%s: %s", path, ferror(f) ? "cannot be read" : "holds no key");
    return 0;
}

/* The file as a set of its own (free); NULL with why. Warns of a file that every user of the machine can read. A
 * reload opens it again, so the server's user must keep the right to read it. */
static struct ld_key_file *read_keys(const char *path, struct ld_message *why)
{
    struct stat st;
    struct ld_key_file *set = calloc(1, sizeof *set);
    FILE *f = fopen(path, "r");
    int rc = -1;
    if (set == NULL || f == NULL)
        ld_fail(why, "%s: %s", path, strerror(errno));
    else
        rc = read_lines(set, f, path, why);
    if (rc == 0 && fstat(fileno(f), &st) == 0 && (st.st_mode & S_IROTH) != 0)
        ld_log(LD_LOG_WARN, "%s can be read by every user of this machine", path);
    if (f != NULL)
        fclose(f);
    if (rc != 0) {
        free(set);
        set = NULL;
    }
    return set;
}

int ld_auth_read(const char *path, struct ld_key_file **out, struct ld_message *why)
{
    *out = NULL;
    return path[0] == '\0' || (*out = read_keys(path, why)) != NULL ? 0 : -1;
}

/* All or nothing: *out is set on success alone, and a faulty file keeps the server from starting. */
int ld_auth_open(struct ld_auth **out, const char *path, struct ld_message *why)
{
    struct ld_key_file *keys = NULL;
    if (ld_auth_read(path, &keys, why) != 0)
        return -1;
    struct ld_auth *a = calloc(1, sizeof *a);
    if (a == NULL) {
        ld_fail(why, "out of memory");
        free(keys);
        return -1;
    }
    pthread_rwlock_init(&a->lock, NULL);
    ld_auth_put(a, keys);
    *out = a;
    return 0;
}

/* Nobody may ask any more. Keys are not wiped: who can read this memory can read the file. */
void ld_auth_close(struct ld_auth *a)
{
    if (a == NULL)
        return;
    pthread_rwlock_destroy(&a->lock);
    free(a->keys);
    free(a);
}

/* Requests that are being compared finish with the old set, which is freed when the last of them has let go of the
 * lock. That keys are asked for is known before the first of them is: in between nobody gets in. */
void ld_auth_put(struct ld_auth *a, struct ld_key_file *keys)
{
    if (keys != NULL)
        atomic_store(&a->has_had_file, true);
    else
        atomic_store(&a->has_file, false);
    pthread_rwlock_wrlock(&a->lock);
    /* Freed below, outside the lock: no reader can hold it once the write lock was had. */
    struct ld_key_file *old = a->keys;
    a->keys = keys;
    pthread_rwlock_unlock(&a->lock);
    atomic_store(&a->has_file, keys != NULL);
    free(old);
}

bool ld_auth_has_file(const struct ld_auth *a)
{
    return atomic_load(&a->has_file);
}

bool ld_auth_has_had_file(const struct ld_auth *a)
{
    return atomic_load(&a->has_had_file);
}
