/* See words.h. A handful of words each: a search is the shortest code. */
#include "base/words.h"

#include <stddef.h>
#include <string.h>

const char *kb_word(const struct kb_words *words, int value)
{
    return value >= 0 && value < words->n ? words->word[value] : NULL;
}

int kb_word_value(const struct kb_words *words, const char *word)
{
    for (int i = 0; i < words->n; i++)
        if (words->word[i] != NULL && strcmp(words->word[i], word) == 0)
            return i;
    return -1;
}
