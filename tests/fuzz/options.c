/* SPDX-License-Identifier: Apache-2.0 */
/* Lines name=value as settings of a program: every type of option is among them. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"

#define LINES 16u

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("stage=2\nbucket_bytes=64M\nlr=1e-3\nmap=0"),
    FUZZ_TEXT("memory_limit=device:1G,cpu:512K\nlog=warn,comm:trace\nloss_scale=dynamic"),
    FUZZ_TEXT("timeout=0.5\nheartbeat=1e9\noptimizer=sgd\nisa=auto\nzero_x=1"),
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
        zero__options_finish(options, NULL, true);
    }
    zero__options_free(options);
    free(text);
    return 0;
}
