/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for a rank that is late leaves the core to others, over every wire: a process waits for
 * a second, of a barrier and of a sum, and has computed for less than a third of that, threads of
 * the transport's library included. A loop without a pause would have computed all the time.
 */
#include "comm.h"

#define LATE_MS 1000
#define MOST_S (LATE_MS / 1e3 / 3)
#define COUNT UINT64_C(100000) /* more than is sent at once */

static const char *plugin;

static double used_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void late(struct rank *r, struct comm_rank *c, const struct zero_coll *q, const char *what)
{
    want(r, comm_barrier(c, c->world) == 0, "barrier: %s", zero_last_error());
    if (r->rank == 1)
        sleep_ms(LATE_MS);
    double before = used_s();
    int64_t from = now_ms(), res = comm_run(c, c->world, q);
    double used = used_s() - before;
    want(r, res >= 0, "%s: %s", what, zero_last_error());
    if (r->rank != 0)
        return;
    want(r, now_ms() - from > LATE_MS / 10, "%s: rank 1 was not late", what);
    want(r, used < MOST_S, "%s: computed for %.3f s while it waited for a second", what, used);
}

static void waits(struct rank *r)
{
    const uint64_t bytes = COUNT * sizeof(float) * (uint64_t)r->ranks;
    struct zero_coll barrier = {.kind = ZERO_BARRIER, .scale = 1, .user = 1},
                     sum = {.kind = ZERO_REDUCE_SCATTER,
                            .src_dtype = ZERO_F32,
                            .dst_dtype = ZERO_F32,
                            .scale = 1,
                            .count = COUNT,
                            .user = 2};
    struct comm_rank c = {0};

    if (comm_open(r, &c, plugin, 2 * bytes, NULL, 0)) {
        sum.src = comm_slice(&c, 0, bytes);
        sum.dst = comm_slice(&c, bytes, COUNT * sizeof(float));
        late(r, &c, &barrier, "barrier");
        late(r, &c, &sum, "sum");
    }
    comm_end(r, &c);
}

int main(void)
{
    static const struct {
        const char *plugin, *name, *value, *what;
    } wires[] = {
        {"shm", "ZERO_OFI_PROVIDER", "", "shm"},
        {"ucx", "UCX_TLS", "all", "ucx"},
        {"ucx", "UCX_TLS", "tcp,self", "ucx over tcp"},
        {"ofi", "ZERO_OFI_PROVIDER", "shm", "ofi"},
        {"ofi", "ZERO_OFI_PROVIDER", "tcp", "ofi over tcp"},
    };

    for (unsigned i = 0; i < sizeof wires / sizeof *wires; i++) {
        plugin = wires[i].plugin;
        if (!comm_has(plugin)) {
            skip(wires[i].what, COMM_ABSENT);
            continue;
        }
        setenv(wires[i].name, wires[i].value, 1);
        ranks_good(comm_ranks(2, AS_PROCESSES, waits, NULL), 2, "%s: who waits sleeps",
                   wires[i].what);
        unsetenv(wires[i].name);
    }
    done();
}
