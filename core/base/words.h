/* Enumerations that the log and the API spell out. One list X(value, "word") makes the enum and its table of words. */
#ifndef KB_WORDS_H
#define KB_WORDS_H

/* Words of the values from 0; NULL where a value has none. */
struct kb_words {
    const char *const *word;
    int n;
};

const char *kb_word(const struct kb_words *words, int value);      /* NULL for others: a caller may count up to it */
int kb_word_value(const struct kb_words *words, const char *word); /* -1 when there is none */

#define KB_WORD_ENUM(value, text) value,
#define KB_WORD_TEXT(value, text) [value] = text,
#define KB_WORDS(name, map)                                                                                            \
    static const char *const name##_text[] = {map(KB_WORD_TEXT)};                                                      \
    const struct kb_words name = {name##_text, sizeof name##_text / sizeof *name##_text}

#endif
