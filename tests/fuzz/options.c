/* SPDX-License-Identifier: Apache-2.0 */
/* Lines NAME=VALUE as settings of a program: every type of option is among them. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"

#define LINES 16u

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("ZERO_STAGE=2\nZERO_BUCKET_BYTES=64M\nZERO_LR=1e-3\nZERO_MAP=0"),
    FUZZ_TEXT(
        "ZERO_MEMORY_LIMIT=device:1G,cpu:512K\nZERO_LOG=warn,comm:trace\nZERO_LOSS_SCALE=dynamic"),
    FUZZ_TEXT("ZERO_TIMEOUT=0.5\nZERO_HEARTBEAT=1e9\nZERO_OPTIMIZER=sgd\nZERO_ISA=auto\nzero_x=1"),
    {NULL, 0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero_setting settings[LINES];
    struct zero__options *options = NULL;
    char *text = malloc(size + 1), *rest = text, *line;
    uint32_t n = 0;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    while (n < LINES && (line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        if (value)
            *value++ = 0;
        settings[n++] = (struct zero_setting){line, value ? value : ""};
    }
    if (zero__options_load(settings, n, &options) == 0) {
        zero__option_int(options, ZERO__OPT_STAGE);
        zero__options_finish(options, NULL);
    }
    zero__options_free(options);
    free(text);
    return 0;
}
