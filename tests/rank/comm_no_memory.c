/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that gets no memory in the middle of a collective call, of shm or of messages: all ranks
 * return an error, at once, and may call again. This program's calloc() and realloc() stand in
 * front of the C library's for plugins too; one of rank 1's calls fails, then the next one, until
 * none does. (With a sanitizer they are left alone, and nothing fails.)
 */
#include "../sanitized.h"
#include "comm.h"

#include <stdlib.h>

#define RANKS 3
#define SOON_MS 5000 /* half the time after which ranks give up */
#define MAX_CALLS 32

static _Thread_local int fail_in; /* 1: the next call fails; 0: none */

#ifndef SANITIZED
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */

void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

static bool fails(void)
{
    return fail_in > 0 && --fail_in == 0;
}

VISIBLE void *calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(n, bytes);
}

VISIBLE void *realloc(void *p, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(p, bytes);
}
#endif

static int exchange(struct comm_rank *c)
{
    struct zero_mr *mr;
    void *memory;
    int armed = fail_in, err;

    fail_in = 0; /* that is this rank's own business */
    err = comm_alloc(c, 65536, &memory, &mr);
    fail_in = armed;
    return err ? err : c->ops->exchange(c->ctx, mr);
}

static int map(struct comm_rank *c)
{
    void *base;
    return c->ops->map(c->ctx, c->mr, 0, 65536, &base);
}

static int split(struct comm_rank *c)
{
    struct zero_comm *comm;
    return c->ops->split(c->ctx, NULL, 0, 0, &comm);
}

struct call {
    const char *plugin, *name;
    int (*call)(struct comm_rank *);
    bool allocates; /* it can fail */
};

static void one_call(struct rank *r)
{
    const struct call *call = r->arg;
    struct comm_rank c;
    int err = -1, failed = 0;

    if (!comm_open(r, &c, call->plugin, 65536, NULL, 0))
        return;
    for (int i = 1; err && i < MAX_CALLS; i++) {
        int64_t t = now_ms();
        fail_in = r->rank == 1 ? i : 0;
        err = call->call(&c);
        fail_in = 0;
        t = now_ms() - t;
        failed += err != 0;
        if (!want(r, t < SOON_MS, "call %d: %d after %d ms: %s", i, err, (int)t,
                  zero_last_error()) ||
            !want(r, !err || err == -ENOMEM, "call %d: %d %s", i, err, zero_last_error()))
            break;
    }
    r->value = failed;
    want(r, !err, "it never worked");
    want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    comm_end(r, &c);
}

static void run(const struct call *call, enum ranks_how how)
{
    void *arg = (void *)(uintptr_t)call;
    struct rank *all = comm_ranks(RANKS, how, one_call, arg);

    ranks_good(all, RANKS, "%s: %s without memory fails on all ranks, %s", call->plugin, call->name,
               ranks_how_name[how]);
#ifndef SANITIZED
    ok((all[0].value > 0) == call->allocates && all[0].value == all[1].value,
       "as often on all: %d times", (int)all[0].value);
#endif
}

int main(void)
{
    static const struct call shm[] = {{"shm", "exchange", exchange, true},
                                      {"shm", "map", map, true},
                                      {"shm", "split", split, true}},
                             mem[] = {{"mem", "exchange", exchange, false},
                                      {"mem", "split", split, true}};

    for (size_t i = 0; i < sizeof shm / sizeof *shm; i++)
        for (int how = AS_THREADS; how <= AS_PROCESSES; how++)
            run(&shm[i], (enum ranks_how)how);
    comm_test_plugins();
    for (size_t i = 0; i < sizeof mem / sizeof *mem; i++)
        run(&mem[i], AS_THREADS); /* mem has no others */
    done();
}
