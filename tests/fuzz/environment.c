/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers put into the environment: lines NAME=VALUE, of names that the job room reads. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "job/job.h"

static const char *const names[] = {
    "RANK",        "WORLD_SIZE",  "LOCAL_RANK",          "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "ZERO_JOB",    "ZERO_PORT",   "ZERO_INTERFACE",      "ZERO_RENDEZVOUS",
    "ZERO_INSECURE", "ZERO_SECRET_FILE", "ZERO_TIMEOUT", "ZERO_HEARTBEAT",
    "ZERO_JOIN_TIMEOUT",
};
#define N_NAMES (sizeof names / sizeof *names)

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=4\nMASTER_ADDR=127.0.0.1\n"
              "MASTER_PORT=29500"),
    FUZZ_TEXT(
        "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=localhost\nMASTER_PORT=1\nTORCHELASTIC_RUN_ID=none"),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=1\nMASTER_ADDR=[::1]\nZERO_PORT=29501\n"
              "ZERO_RENDEZVOUS=tcp\nZERO_INTERFACE=eth0\nZERO_INSECURE=1\nZERO_TIMEOUT=1e3\n"
              "ZERO_HEARTBEAT=0.5\nZERO_SECRET_FILE=/dev/null"),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=1\nMASTER_ADDR=127.0.0.1\n"
              "MASTER_PORT=29501\nZERO_JOIN_TIMEOUT=0.1"),
    FUZZ_TEXT("RANK=3\nWORLD_SIZE=1024\nZERO_JOB=name\nLOCAL_WORLD_SIZE=1024"),
    {NULL, 0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text, *line;
    struct zero__job_params params;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        unsetenv(names[i]);
    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        for (size_t i = 0; value && i < N_NAMES; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0 && line + strlen(names[i]) == value)
                setenv(names[i], value + 1, 1);
    }
    zero__job_params_from(NULL, &params);
    free(text);
    return 0;
}
