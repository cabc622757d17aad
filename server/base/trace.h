/* Ids of requests, as W3C Trace Context has them: a trace that may span programs, and a span, which is this request's.
 *
 * A request that comes with a valid `traceparent` goes on with its trace, else it begins one. The trace's id is the
 * request's: in the answer's header `Laplaced-Request`, in problem documents, in the log. It is no secret, and unique
 * without being random to whoever has seen others. */
#ifndef LD_TRACE_H
#define LD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct ld_trace {
    uint64_t high, low; /* of the trace; both 0: none */
    uint64_t span;
};

#define LD_TRACE_BYTES 33 /* 32 hexadecimal digits and a NUL */

/* From the header, which may be NULL. No system call but at a thread's first. */
void ld_trace_begin(struct ld_trace *out, const char *traceparent);

/* The trace's id, in some nanoseconds. */
void ld_trace_format(const struct ld_trace *t, char out[LD_TRACE_BYTES]);

/* The request that this thread works for, for the lines that it logs; NULL: none. Copied. */
void ld_trace_enter(const struct ld_trace *t);
const struct ld_trace *ld_trace_current(void); /* NULL: none */

#endif
