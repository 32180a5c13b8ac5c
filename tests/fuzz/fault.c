/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZERO_FAULT and ZERO_FAULT_IO, as the plugins read them. What is taken must be written without
 * empty parts, and mean something that the plugin can do.
 */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>

#include "tests/fault/fault.h"
#include "tests/fault/store.h"

enum { FAULTS = 1u << 0, STORE = 1u << 1, REFUSED = 1u << 2, NO_STORE = 1u << 3 };

#define KILLS "kill,kill,kill,kill,kill,"
const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("kill:rank=1:n=3-9,delay=10:at=open:times=2", FAULTS | NO_STORE),
    FUZZ_TEXT("skip:kind=reduce_scatter:comm=2:rank=all", FAULTS | NO_STORE),
    FUZZ_TEXT("error=ECONNRESET:at=done:rank=any,error=5,stop,size,dtype,order", FAULTS | NO_STORE),
    FUZZ_TEXT("cut=512:op=read,busy:n=3:times=2,error=EIO:op=sync,delay=5:times=0,kill",
              REFUSED | STORE),
    FUZZ_TEXT("slow=1000000:times=0,busy:every=2:n=3:times=0", REFUSED | STORE),
    FUZZ_TEXT("drop:n=20,reorder:every=2:times=0,drop:op=write", REFUSED | STORE),
    FUZZ_TEXT("kill:rank=1:n=3-2", REFUSED | NO_STORE),
    FUZZ_TEXT("error=ENOSUCH,explode", REFUSED | NO_STORE),
    FUZZ_TEXT(KILLS KILLS KILLS "kill", FAULTS | STORE), /* as many as there may be */
    FUZZ_TEXT(KILLS KILLS KILLS "kill,kill", REFUSED | NO_STORE),
    FUZZ_TEXT("kill:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1:n=1"
              ":n=1:n=1:n=1:n=1",
              REFUSED | NO_STORE),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static int fail(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    (void)ctx, (void)plugin;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err;
}

static const char *param(void *ctx, const char *plugin, const char *key, const char *dflt,
                         const char *help)
{
    (void)plugin, (void)help;
    return strcmp(key, "fault") == 0 ? ctx : dflt;
}

/* A word is missing where a colon or comma begins, ends, or follows another. */
static int has_gap(const char *text)
{
    size_t n = strlen(text);

    return n && (strchr(":,", text[0]) || strchr(":,", text[n - 1]) || strstr(text, "::") ||
                 strstr(text, ",,") || strstr(text, ":,") || strstr(text, ",:"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct zero_host host = {.size = sizeof host, .ctx = text, .fail = fail, .param = param};
    struct zero__voice voice = {&host, "fault"};
    struct store_fault io[FAULT_MOST];
    struct fault_set set = {.n = 0};
    int n;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    int err = zero__fault_parse(&voice, &set);
    fuzz_reached |= err ? REFUSED : FAULTS;
    if (!err) {
        if (set.n > FAULT_MOST || has_gap(text))
            abort();
        for (uint32_t i = 0; i < set.n; i++)
            if (set.faults[i].action >= FAULT_N_ACTIONS || set.faults[i].place >= FAULT_N_PLACES ||
                set.faults[i].first > set.faults[i].last)
                abort();
        zero__fault_choose(&voice, &set, 3);
    }
    err = zero__store_faults(&voice, text, io, &n);
    fuzz_reached |= err ? NO_STORE : STORE;
    if (!err) {
        if (n < 0 || n > FAULT_MOST || has_gap(text))
            abort();
        for (int i = 0; i < n; i++)
            if (io[i].action == STORE_DROP && io[i].op != ZERO_IO_WRITE)
                abort();
    }
    free(text);
    return 0;
}
