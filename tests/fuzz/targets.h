/* What is fuzzed: functions that take bytes and find fault only with the program. A broken promise aborts; memory and
 * arithmetic are the sanitizers' business. Each runs under libFuzzer (`make fuzz TARGET=log`), and over its corpus,
 * with mutations of it, in `make test` (test_corpus.c). */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

/* The first byte picks a body's decoder; the rest is the body (JSON or NDJSON). */
int fuzz_bodies(const uint8_t *data, size_t n);
/* A JSON text, read by the parser of bodies and by jansson. */
int fuzz_values(const uint8_t *data, size_t n);
/* Lines of a log, folded as recovery does. */
int fuzz_log(const uint8_t *data, size_t n);
/* The same lines, fed to a shadow of another configuration. */
int fuzz_shadow(const uint8_t *data, size_t n);
/* The body of a snapshot, as if its checksum were right. */
int fuzz_snapshot(const uint8_t *data, size_t n);
/* A tenant's database, as an import gets it. */
int fuzz_file(const uint8_t *data, size_t n);
/* Method, blank, path. */
int fuzz_route(const uint8_t *data, size_t n);

/* The engine that a log makes, as far as it can be folded. The caller's to free. */
struct kb_engine;
struct kb_engine *fuzz_fold_log(const uint8_t *data, size_t n, uint64_t *n_events);

/* Prints what was promised and aborts. */
void fuzz_expect(int is_kept, const char *promise);
#define FUZZ_EXPECT(x) fuzz_expect(!!(x), #x)

#endif
