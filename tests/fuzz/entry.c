/* libFuzzer's entry: TARGET is given to the compiler.
 *
 * Half of the mutations are the library's own, with the words of log.dict. The other half are such as people who write
 * logs and files by hand would make, which it finds by long chance alone: another number in the place of one that is
 * there, a line left out, said twice or put elsewhere; in what is no text, another word in the place of one. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return TARGET(data, n);
}

static const char *const numbers[] = {"0",
                                      "-0.0",
                                      "1",
                                      "-1",
                                      "2",
                                      "0.5",
                                      "1.5",
                                      "16",
                                      "17",
                                      "1000",
                                      "1e9",
                                      "1e12",
                                      "1e-12",
                                      "1e13",
                                      "1e-13",
                                      "1e15",
                                      "1e16",
                                      "1e75",
                                      "1e76",
                                      "-1e75",
                                      "1e154",
                                      "-1e155",
                                      "1e300",
                                      "1e308",
                                      "-1e308",
                                      "1e-300",
                                      "1e-308",
                                      "4.9e-324",
                                      "4294967294",
                                      "4294967295",
                                      "9007199254740991",
                                      "9007199254740992",
                                      "9223372036854775807",
                                      "1.7976931348623157e308"};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)

static bool is_of_number(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* data[at .. at + old) becomes the n_new bytes of `with`; the length that results, or 0: there is no room. */
static size_t replace(uint8_t *data, size_t n, size_t most, size_t at, size_t old, const void *with, size_t n_new)
{
    if (n - old + n_new > most)
        return 0;
    memmove(data + at + n_new, data + at + old, n - at - old);
    memcpy(data + at, with, n_new);
    return n - old + n_new;
}

/* The first number that begins behind `from`. */
static size_t put_number(uint8_t *data, size_t n, size_t most, size_t from, unsigned seed)
{
    const char *number = numbers[seed % N_NUMBERS];
    size_t at = from, end;

    while (at < n && !(data[at] == '-' || (data[at] >= '0' && data[at] <= '9')))
        at++;
    for (end = at; end < n && is_of_number(data[end]);)
        end++;
    return at < n ? replace(data, n, most, at, end - at, number, strlen(number)) : 0;
}

static size_t line_start(const uint8_t *data, size_t at)
{
    while (at > 0 && data[at - 1] != '\n')
        at--;
    return at;
}

/* The line at `from` is left out, or put before that at `to`, once more or in its place. */
static size_t move_line(uint8_t *data, size_t n, size_t most, size_t from, size_t to, unsigned seed)
{
    static uint8_t line[8192];
    const size_t begin = line_start(data, from);
    const uint8_t *stop = memchr(data + begin, '\n', n - begin);
    const size_t length = stop != NULL ? (size_t)(stop - data) + 1 - begin : n - begin;

    if (length > sizeof line)
        return 0;
    memcpy(line, data + begin, length);
    if (seed % 3 > 0)
        n = replace(data, n, most, begin, length, "", 0);
    to = line_start(data, to < n ? to : n);
    return seed % 3 == 1 ? n : replace(data, n, most, to, 0, line, length);
}

static size_t put_word(uint8_t *data, size_t n, size_t at, unsigned seed)
{
    static const uint64_t words[] = {0,        1, 2, 16, 17, UINT32_MAX, UINT32_MAX - 1, UINT64_MAX, UINT64_C(1) << 53,
                                     INT64_MAX};
    const uint64_t word = words[seed % (sizeof words / sizeof *words)];
    double number;

    (void)sscanf(numbers[seed / 2 % N_NUMBERS], "%lf", &number);
    at -= at % 4;
    if (at + sizeof word > n)
        return 0;
    if (seed % 2 == 0)
        memcpy(data + at, &number, sizeof number);
    else
        memcpy(data + at, &word, seed % 4 == 1 ? sizeof word : sizeof(uint32_t));
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    const unsigned kind = seed % 6, rest = seed / 6;
    const size_t from = n > 0 ? (rest * 2654435761u) % n : 0, to = n > 0 ? (rest * 40503u + 7) % n : 0;
    const bool is_text = memchr(data, '{', n < 64 ? n : 64) != NULL;
    size_t changed = 0;

    if (n > 0 && is_text && kind < 2)
        changed = put_number(data, n, most, from, rest);
    else if (n > 0 && is_text && kind == 2)
        changed = move_line(data, n, most, from, to, rest);
    else if (n > 0 && !is_text && kind < 3)
        changed = put_word(data, n, from, rest);
    return changed > 0 ? changed : LLVMFuzzerMutate(data, n, most);
}
