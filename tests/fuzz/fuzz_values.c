/* Any text as a value: the parser of bodies and jansson take the same texts, as the same values. */
#include "kbt_json.h"
#include "targets.h"

int fuzz_values(const uint8_t *data, size_t n)
{
    FUZZ_EXPECT(kbt_read_both((const char *)data, n) != KBT_DIFFERENT);
    return 0;
}
