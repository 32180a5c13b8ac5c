/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device's test mode: a small training loop of four streams and a transport. With all its
 * waits there is no race, whatever the delays; with any one of them gone there is a report, which
 * does not depend on timing. A wait that is gone is replaced by the host waiting, which the
 * detector is not told of: so the program stays correct and the report must come from the clocks
 * alone.
 */
#include "../tap.h"

#include <errno.h>

#include "base/status.h"
#include "device/host.h"

#define LONG INT64_C(30000000000)
#define N 40000u
#define STEPS 4
#define NOBODY (-1)

enum wait_site {
    WAIT_X_FREE,   /* copy-in: x is read */
    WAIT_X_THERE,  /* compute: x is copied */
    WAIT_SUMMED,   /* wire: acc is complete */
    WAIT_REDUCED,  /* update: acc is reduced */
    WAIT_ACC_FREE, /* compute: acc is used up */
    WAIT_OUT,      /* forward: the parameters are new */
    WAIT_OUT_READ, /* update: the last step's forward has read the parameters */
    N_SITES,
};

static const char *const site_names[N_SITES] = {"x free",   "x there", "summed",  "reduced",
                                                "acc free", "out",     "out read"};
/* What the report must name. */
static const char *const site_accesses[N_SITES] = {
    "copy: destination writes", "accumulate: x reads",    "all-reduce",
    "update: grad reads",        "accumulate: acc writes", "forward",
    "update: out writes"};

static const struct zero_device_ops *ops;
static float from[2][N], x[N], acc[N], p[N], m[N], v[N];
static uint16_t out[N];
static struct zero_scalars scalars;

struct loop {
    struct zero_device *dev;
    void *in, *compute, *wire, *update;
    void *x_there, *x_free, *summed, *reduced, *updated, *forward;
    int without;
    bool good;
};

static struct zero_device *open_test(uint32_t threads, uint64_t seed, uint32_t max_delay_us)
{
    struct zero_device_open params = {
        .size = sizeof params, .threads = threads, .timeout_ns = LONG};
    struct zero_device *dev;

    if (ops->open(&params, &dev) || zero__host_test_mode(dev, seed, max_delay_us))
        bail(zero__error_text());
    return dev;
}

static void wait_at(struct loop *l, enum wait_site site, void *stream, void *event, void *other)
{
    if ((int)site == l->without)
        l->good &= ops->stream_sync(l->dev, other, LONG) == 0;
    else
        l->good &= ops->stream_wait(l->dev, stream, event) == 0;
}

static void launch(struct loop *l, uint32_t kernel, const void *args, uint64_t bytes, void *stream)
{
    struct zero_launch k = {.kernel = kernel, .args = args, .args_bytes = bytes};
    l->good &= ops->launch(l->dev, &k, stream) == 0;
}

static void negate(void *arg)
{
    for (uint32_t i = 0; i < N; i++)
        ((float *)arg)[i] *= -1;
}

static void micro(struct loop *l, int i)
{
    struct zero_accumulate_args a = {
        .acc = acc, .x = x, .count = N, .x_dtype = ZERO_F32, .beta = i > 0};

    wait_at(l, WAIT_X_FREE, l->in, l->x_free, l->compute);
    ops->copy(l->dev, x, from[i], sizeof x, l->in);
    ops->event_record(l->dev, l->x_there, l->in);
    wait_at(l, WAIT_X_THERE, l->compute, l->x_there, l->in);
    if (i == 0)
        wait_at(l, WAIT_ACC_FREE, l->compute, l->updated, l->update);
    launch(l, ZERO_KERNEL_ACCUMULATE, &a, sizeof a, l->compute);
    ops->event_record(l->dev, l->x_free, l->compute);
}

static void step(struct loop *l)
{
    struct zero_update_args u = {
        .p = p,
        .m = m,
        .v = v,
        .grad = acc,
        .out = out,
        .count = N,
        .grad_dtype = ZERO_F32,
        .out_dtype = ZERO_BF16,
        .scalars = &scalars,
        .hyper = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.9f, .eps = 1e-8f}};

    micro(l, 0);
    micro(l, 1);
    ops->event_record(l->dev, l->summed, l->compute);
    wait_at(l, WAIT_SUMMED, l->wire, l->summed, l->compute);
    ops->call(l->dev, negate, acc, l->wire);
    ops->touch(l->dev, l->wire, acc, sizeof acc, 1, "all-reduce");
    ops->event_record(l->dev, l->reduced, l->wire);
    wait_at(l, WAIT_REDUCED, l->update, l->reduced, l->wire);
    wait_at(l, WAIT_OUT_READ, l->update, l->forward, l->compute);
    launch(l, ZERO_KERNEL_ADAMW, &u, sizeof u, l->update);
    ops->event_record(l->dev, l->updated, l->update);
}

/* The next forward pass, by the application on a stream of its own, reads the new parameters. */
static void forward(struct loop *l, void *stream)
{
    wait_at(l, WAIT_OUT, stream, l->updated, l->update);
    ops->touch(l->dev, stream, out, sizeof out, 0, "forward");
    ops->event_record(l->dev, l->forward, stream);
}

static int run(int without, uint32_t threads, uint64_t seed, uint32_t delay, int steps, char *text,
               size_t text_bytes, uint64_t *size)
{
    struct loop l = {.dev = open_test(threads, seed, delay), .without = without, .good = true};
    void *reader;
    int races;

    memset(p, 0, sizeof p);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    memset(acc, 0, sizeof acc);
    scalars = (struct zero_scalars){.factor = 1, .step = 1};
    ops->stream_create(l.dev, "copy-in", &l.in);
    ops->stream_create(l.dev, "compute", &l.compute);
    ops->stream_create(l.dev, "wire", &l.wire);
    ops->stream_create(l.dev, "update", &l.update);
    ops->stream_create(l.dev, "reader", &reader);
    void **events[] = {&l.x_there, &l.x_free, &l.summed, &l.reduced, &l.updated, &l.forward};
    for (unsigned i = 0; i < sizeof events / sizeof *events; i++)
        ops->event_create(l.dev, events[i]);
    for (int i = 0; i < steps; i++) {
        step(&l);
        forward(&l, reader);
    }
    l.good &= ops->stream_sync(l.dev, reader, LONG) == 0;
    l.good &= ops->stream_sync(l.dev, l.update, LONG) == 0;
    races = zero__host_races(l.dev, text, text_bytes);
    if (size)
        *size = zero__host_race_size(l.dev);
    ops->close(l.dev);
    return l.good ? races : -EIO;
}

static void whole_loop(void)
{
    static float want[N];
    char text[4096];
    uint64_t early, late;
    bool same = true;
    int races = 0;

    is_int(run(NOBODY, 1, 1, 0, STEPS, text, sizeof text, &early), 0, "all waits there: no race");
    is_str(text, "", "and no text");
    memcpy(want, p, sizeof p);
    for (uint64_t seed = 1; seed <= 8 && same && !races; seed++) {
        races = run(NOBODY, 1 + seed % 3, seed, 300, STEPS, text, sizeof text, NULL);
        same = memcmp(want, p, sizeof p) == 0;
        if (!same || races)
            diag("seed %" PRIu64 ": %s", seed, text);
    }
    ok(same, "delays do not change the result");
    is_int(races, 0, "nor make races");
    run(NOBODY, 2, 1, 0, 10 * STEPS, text, sizeof text, &late);
    is_int(late, early, "the detector does not grow with the number of steps");
}

static void each_wait_removed(void)
{
    char text[4096], again[4096];

    for (int site = 0; site < N_SITES; site++) {
        int races = run(site, 1, 1, 0, STEPS, text, sizeof text, NULL);
        if (!ok(races > 0, "without the wait \"%s\": a report", site_names[site]))
            diag("%d", races);
        has_str(text, site_accesses[site], "that names the access");
        run(site, 3, 99, 200, STEPS, again, sizeof again, NULL);
        is_str(again, text, "and is the same with other timing");
    }
}

/* Events order behind a wait for a flag, too; the flag itself does not. */
static void flags(void)
{
    struct zero_device *dev = open_test(2, 3, 100);
    void *a, *b, *c, *e;
    uint64_t flag = 0;
    char text[2048];

    ops->stream_create(dev, "a", &a);
    ops->stream_create(dev, "b", &b);
    ops->stream_create(dev, "c", &c);
    ops->event_create(dev, &e);
    ops->wait_value(dev, b, &flag, 1);
    ops->touch(dev, b, x, 100, 0, "reader");
    ops->event_record(dev, e, b);
    ops->stream_wait(dev, c, e); /* hangs on b's wait */
    ops->touch(dev, c, x, 100, 1, "writer");
    is_int(zero__host_races(dev, text, sizeof text), 0, "an event behind a flag orders");
    if (text[0])
        diag("%s", text);

    ops->wait_value(dev, a, &flag, 1);
    ops->touch(dev, a, x, 100, 0, "reader of the host's flag");
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    is_int(ops->stream_sync(dev, a, LONG), 0, "a flag of the host ends a wait");
    is_int(ops->stream_sync(dev, c, LONG), 0, "and those that hang on one");
    is_int(zero__host_races(dev, text, sizeof text), 1, "and orders nothing");
    has_str(text, "reader of the host's flag reads", "as the report says");
    has_str(text, "writer writes it on stream c", "with both sides");
    ops->close(dev);
}

static void limits(void)
{
    struct zero_device_open params = {.size = sizeof params, .threads = 1, .timeout_ns = LONG};
    struct zero_device *dev = open_test(1, 1, 0);
    void *s, *q;
    int n = 0;

    is_int(zero__host_test_mode(dev, 1, 0), -EBUSY, "the test mode comes once");
    while (n < 100 && ops->stream_create(dev, "many", &s) == 0)
        n++;
    is_int(n, 96, "and follows 96 streams");
    ops->alloc(dev, 1 << 20, ZERO_MEM_HOST, &q);
    ops->touch(dev, s, q, 1 << 20, 1, "old");
    is_int(zero__host_race_size(dev), 1, "an access is kept");
    ops->release(dev, q, 1 << 20, ZERO_MEM_HOST);
    is_int(zero__host_race_size(dev), 0, "until the memory is given back");
    ops->close(dev);
    ops->open(&params, &dev);
    is_int(zero__host_races(dev, NULL, 0), -EINVAL, "without the test mode there is no report");
    is_int(ops->touch(dev, NULL, x, 4, 1, "x"), 0, "and touch costs nothing");
    ops->close(dev);
}

int main(void)
{
    ops = &zero__host_device_ops;
    for (uint32_t i = 0; i < N; i++) {
        from[0][i] = (float)(i % 13) - 6;
        from[1][i] = (float)(i % 7) * 0.25f;
    }
    whole_loop();
    each_wait_removed();
    flags();
    limits();
    done();
}
