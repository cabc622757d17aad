/* Why something did not work: one sentence for people, in one struct that knows its size. What is longer is cut.
 * Whoever asks for something that may fail gives one, and finds it filled when it has. */
#ifndef LD_MESSAGE_H
#define LD_MESSAGE_H

struct ld_message {
    char text[1024];
};

/* Always -1. The arguments may have the message's own text. */
int ld_fail(struct ld_message *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same; returns the status, such as LD_STORE_IO. */
int ld_fail_as(int status, struct ld_message *why, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
