/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers put into the environment: lines NAME=VALUE, of names that the job room reads. */
#include "fuzz.h"

#include "base/options.h"
#include "job/job.h"

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "ZERO_JOB",
    "ZERO_PORT",
    "ZERO_INTERFACE",
    "ZERO_RENDEZVOUS",
    "ZERO_INSECURE",
    "ZERO_SECRET_FILE",
    "ZERO_TIMEOUT",
    "ZERO_HEARTBEAT",
    "ZERO_JOIN_TIMEOUT",
};
#define N_NAMES (sizeof names / sizeof *names)

enum {
    TAKEN = 1u << 0,
    REFUSED = 1u << 1,
    SEVERAL = 1u << 2, /* there is more than one rank */
    PORT = 1u << 3,
    INTERFACE = 1u << 4,
    UNIX = 1u << 5, /* all ranks are here */
};

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=4\nLOCAL_WORLD_SIZE=4\nMASTER_ADDR=127.0.0.1\n"
              "MASTER_PORT=29500",
              TAKEN | SEVERAL | PORT | UNIX),
    FUZZ_TEXT(
        "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=localhost\nMASTER_PORT=1\nTORCHELASTIC_RUN_ID=none",
        TAKEN | SEVERAL | PORT),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=1\nMASTER_ADDR=[::1]\nZERO_PORT=29501\n"
              "ZERO_RENDEZVOUS=tcp\nZERO_INTERFACE=eth0\nZERO_INSECURE=1\nZERO_TIMEOUT=1e3\n"
              "ZERO_HEARTBEAT=0.5\nZERO_SECRET_FILE=/dev/null",
              REFUSED),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=1\nMASTER_ADDR=[::1]\nZERO_PORT=29501\n"
              "ZERO_RENDEZVOUS=tcp\nZERO_INTERFACE=eth0\nZERO_INSECURE=1\nMASTER_PORT=9\n"
              "ZERO_HEARTBEAT=0.5\nTORCHELASTIC_RUN_ID=a\nTORCHELASTIC_RESTART_COUNT=3",
              TAKEN | SEVERAL | PORT | INTERFACE),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=a-name-of-more-than-a-hundred-bytes-01234567890123"
              "4567890123456789012345678901234567890123456789012345678901234567890123456789012345"
              "6789012345678901234567890123456789012345678901234567890123456789012345678901234567"
              "8901234567890123456789012345678901234567890123456789\nMASTER_PORT=29500",
              REFUSED),
    FUZZ_TEXT("RANK=1\nMASTER_PORT=65536", REFUSED),
    FUZZ_TEXT("WORLD_SIZE=1", TAKEN),
    FUZZ_TEXT("RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=1\nMASTER_ADDR=127.0.0.1\n"
              "MASTER_PORT=29501\nZERO_JOIN_TIMEOUT=0.1",
              TAKEN | SEVERAL | PORT),
    FUZZ_TEXT("RANK=3\nWORLD_SIZE=1024\nZERO_JOB=name\nLOCAL_WORLD_SIZE=1024",
              TAKEN | SEVERAL | UNIX),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static unsigned reached(const struct zero__job_params *p)
{
    return TAKEN | (p->ranks > 1 ? SEVERAL : 0) | (p->port ? PORT : 0) |
           (p->interface[0] ? INTERFACE : 0) |
           (p->ranks > 1 && p->local_known && p->local_ranks == p->ranks ? UNIX : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text, *line;
    struct zero__options *options = NULL;
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
    if (zero__options_load(NULL, 0, &options) || zero__job_params_from(NULL, options, &params))
        fuzz_reached |= REFUSED;
    else
        fuzz_reached |= reached(&params);
    zero__options_free(options);
    free(text);
    return 0;
}
