#include "kbt_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned char *kbt_read_file(const char *path, size_t *n)
{
    struct stat st;
    FILE *f = fopen(path, "rb");

    ck_assert_msg(f != NULL && fstat(fileno(f), &st) == 0, "%s", path);
    unsigned char *data = malloc((size_t)st.st_size + 1);
    ck_assert_ptr_nonnull(data);
    *n = fread(data, 1, (size_t)st.st_size, f);
    ck_assert_uint_eq(*n, (size_t)st.st_size);
    data[*n] = 0;
    fclose(f);
    return data;
}

void kbt_write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    ck_assert_msg(f != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

void kbt_copy_file(const char *from, const char *to)
{
    size_t n;

    if (access(from, F_OK) != 0)
        return;
    unsigned char *data = kbt_read_file(from, &n);
    kbt_write_file(to, data, n);
    free(data);
}
