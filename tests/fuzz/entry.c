/* libFuzzer's entry: TARGET is given to the compiler. */
#include "targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return TARGET(data, n);
}
