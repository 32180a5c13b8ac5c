/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of copies and sums over a few buffers, spread over streams with just the waits
 * that the data needs: any number of workers and any delays give what one stream in order gives,
 * and the race detector has nothing to say.
 */
#include "../random.h"
#include "../tap.h"

#include "base/status.h"
#include "device/host.h"

#define LONG INT64_C(30000000000)
#define SEED UINT64_C(11)
#define BUFFERS 6u
#define OPS 250u
#define STREAMS 5u
#define N 100000u

static float buffers[BUFFERS][N], want[BUFFERS][N];

struct op {
    uint32_t dst, src, stream;
    uint64_t first, count;
    bool add;
};

/* What the next access of a buffer has to wait for. */
struct users {
    int writer;
    int readers[OPS];
    uint32_t n_readers;
};

static struct op random_op(uint64_t *seed)
{
    struct op op = {.dst = (uint32_t)(random_next(seed) % BUFFERS),
                    .stream = random_next(seed) % STREAMS};

    op.src = (op.dst + 1 + (uint32_t)(random_next(seed) % (BUFFERS - 1))) % BUFFERS;
    op.first = random_next(seed) % N;
    op.count = random_next(seed) % (random_next(seed) % 4 ? 100 : N) % (N - op.first) + 1;
    op.add = random_next(seed) & 1;
    return op;
}

static void reset(float b[BUFFERS][N])
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        for (uint32_t j = 0; j < N; j++)
            b[i][j] = (float)(i + 1) * 0.1f + (float)(j % 100);
}

static void in_order(const struct op *ops)
{
    reset(want);
    for (const struct op *o = ops; o < ops + OPS; o++)
        for (uint64_t i = o->first; i < o->first + o->count; i++)
            want[o->dst][i] = (o->add ? want[o->dst][i] : 0) + want[o->src][i];
}

static int wait_for(const struct zero_device_ops *d, struct zero_device *dev, void *stream,
                    void **events, int op)
{
    return op < 0 ? 0 : d->stream_wait(dev, stream, events[op]);
}

static int issue(const struct zero_device_ops *d, struct zero_device *dev, const struct op *ops,
                 void **streams, void **events)
{
    static struct users users[BUFFERS];
    int err = 0;

    for (uint32_t i = 0; i < BUFFERS; i++)
        users[i] = (struct users){.writer = -1};
    for (int i = 0; i < (int)OPS && !err; i++) {
        const struct op *o = &ops[i];
        void *s = streams[o->stream];
        struct users *dst = &users[o->dst], *src = &users[o->src];
        struct zero_accumulate_args a = {.acc = buffers[o->dst] + o->first,
                                         .x = buffers[o->src] + o->first,
                                         .count = o->count,
                                         .x_dtype = ZERO_F32,
                                         .beta = 1};
        struct zero_launch launch = {ZERO_KERNEL_ACCUMULATE, 0, &a, sizeof a};

        err = wait_for(d, dev, s, events, src->writer);
        err = err ? err : wait_for(d, dev, s, events, dst->writer);
        for (uint32_t r = 0; r < dst->n_readers && !err; r++)
            err = wait_for(d, dev, s, events, dst->readers[r]);
        if (!err)
            err = o->add ? d->launch(dev, &launch, s)
                         : d->copy(dev, a.acc, a.x, o->count * sizeof(float), s);
        err = err ? err : d->event_record(dev, events[i], s);
        src->readers[src->n_readers++] = i;
        *dst = (struct users){.writer = i};
    }
    return err;
}

static bool program(uint64_t *seed, uint32_t threads, uint32_t max_delay_us)
{
    const struct zero_device_ops *d = &zero__host_device_ops;
    struct zero_device_open params = {
        .size = sizeof params, .threads = threads, .timeout_ns = LONG};
    struct zero_device *dev;
    static struct op ops[OPS];
    void *streams[STREAMS], *events[OPS];
    char text[1024];
    int err, races;

    for (uint32_t i = 0; i < OPS; i++)
        ops[i] = random_op(seed);
    in_order(ops);
    reset(buffers);
    if (d->open(&params, &dev) || zero__host_test_mode(dev, random_next(seed), max_delay_us))
        bail(zero__error_text());
    for (uint32_t i = 0; i < STREAMS; i++)
        d->stream_create(dev, "stress", &streams[i]);
    for (uint32_t i = 0; i < OPS; i++)
        d->event_create(dev, &events[i]);
    err = issue(d, dev, ops, streams, events);
    for (uint32_t i = 0; i < STREAMS && !err; i++)
        err = d->stream_sync(dev, streams[i], LONG);
    if (err)
        diag("%s", zero__error_text());
    races = zero__host_races(dev, text, sizeof text);
    if (races)
        diag("%s", text);
    d->close(dev);
    return !err && !races && memcmp(buffers, want, sizeof want) == 0;
}

int main(void)
{
    uint64_t seed = SEED;

    for (uint32_t threads = 1; threads <= 4; threads++) {
        bool good = true;
        for (int round = 0; round < 4 && good; round++)
            good = program(&seed, threads, round % 2 ? 100 : 0);
        if (!ok(good, "random programs on %u workers", threads))
            diag("seed %" PRIu64, SEED);
    }
    done();
}
