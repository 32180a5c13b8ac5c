/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated grid itself: bodies with one fault each, which it has to name, and sound ones, which
 * it has to leave alone whatever the order.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>

#include "../fake/cuda_thread.h"

#define SEED UINT64_C(20240229)
#define THREADS 64u

struct parameters {
    uint64_t n;
    uint32_t *out;
    uint32_t *order; /* threads as they came, of block 0 */
};

static const parameters &of(const void *params)
{
    return *static_cast<const parameters *>(params);
}

/* Each thread reverses with its counterpart through shared memory, twice. */
static void sound(fake_thread &t, const void *params)
{
    const parameters &q = of(params);
    uint32_t x = t.index();

    for (int round = 0; round < 2; round++) {
        t.put<4>(t.index() * 4, raw<4>{{x}});
        t.barrier();
        x = t.get<4>((t.size() - 1 - t.index()) * 4).w[0];
        t.barrier();
    }
    uint64_t i = t.block() * t.size() + t.index();
    if (t.inside(i, q.n))
        t.store<4>(q.out + i, raw<4>{{x}});
}

static void no_barrier(fake_thread &t, const void *)
{
    t.put<4>(t.index() * 4, raw<4>{{0}});
    t.barrier();
    t.put<4>(t.index() * 4, raw<4>{{1}});
    t.get<4>((t.index() + 1) % t.size() * 4);
}

/* Reads first, and is overwritten. */
static void write_after_read(fake_thread &t, const void *)
{
    t.put<4>(t.index() * 4, raw<4>{{1}});
    t.barrier();
    t.get<4>((t.index() + 1) % t.size() * 4);
    t.put<4>(t.index() * 4, raw<4>{{2}});
}

static void both_write(fake_thread &t, const void *)
{
    t.put<4>(0, raw<4>{{1}});
}

static void half_a_word(fake_thread &t, const void *)
{
    if (t.index() < 2)
        t.put<2>(t.index() * 2, raw<2>{{1}});
    else if (t.index() == 2)
        t.get<4>(0);
}

static void some_leave(fake_thread &t, const void *)
{
    if (t.index() == 5)
        return;
    t.barrier();
}

static void two_places(fake_thread &t, const void *)
{
    if (t.index() < 32)
        t.barrier();
    else
        t.barrier();
}

static void one_more(fake_thread &t, const void *)
{
    t.barrier();
    if (t.index() == 7)
        t.barrier();
}

static void unwritten(fake_thread &t, const void *)
{
    t.get<4>(t.index() * 4);
}

/* What a block finds is not what another one left. */
static void left_over(fake_thread &t, const void *)
{
    if (t.block() == 0)
        t.put<4>(t.index() * 4, raw<4>{{1}});
    else
        t.get<4>(t.index() * 4);
}

static void beyond(fake_thread &t, const void *)
{
    t.put<4>((t.index() + 1) * 4, raw<4>{{1}});
}

static void askew(fake_thread &t, const void *params)
{
    t.load<8>(of(params).out + 1);
}

/* Each thread brings a word, and gets that of its neighbour in the warp. */
static void sound_warp(fake_thread &t, const void *params)
{
    const parameters &q = of(params);
    const uint32_t i = t.index(), other = i ^ 1;

    t.bring<4>(i * 4, q.out + i, true);
    uint32_t twice = 2 * i;
    twice = t.exchange(&twice, 1, __FILE__, __LINE__)[other % FAKE_WARP][0];
    t.brought();
    t.barrier();
    q.order[i] = t.get<4>(other * 4).w[0] + (twice == 2 * other ? 0 : 1000);
}

static void on_its_way(fake_thread &t, const void *params)
{
    t.bring<4>(t.index() * 4, of(params).out, true);
    t.barrier();
    t.get<4>(t.index() * 4);
}

static void brought_over(fake_thread &t, const void *params)
{
    t.put<4>(t.index() * 4, raw<4>{{1}});
    t.barrier();
    t.get<4>((t.index() + 1) % t.size() * 4);
    t.bring<4>(t.index() * 4, of(params).out, true);
}

static void half_a_warp(fake_thread &t, const void *)
{
    const uint32_t word = 0;

    if (t.index() % 2)
        t.exchange(&word, 1, __FILE__, __LINE__);
    else
        t.barrier();
}

static void two_exchanges(fake_thread &t, const void *)
{
    const uint32_t word = 0;

    if (t.index() % 2)
        t.exchange(&word, 1, __FILE__, 1);
    else
        t.exchange(&word, 1, __FILE__, 2);
}

static void note_order(fake_thread &t, const void *params)
{
    const parameters &q = of(params);

    q.order[q.out[0]++ % THREADS] = t.index();
    t.barrier();
    q.order[q.out[0]++ % (2 * THREADS)] = t.index();
}

static char error[400];

static int run(void (*body)(fake_thread &, const void *), const parameters &q, uint64_t seed,
               uint32_t blocks = 3, uint32_t threads = THREADS)
{
    fake_cuda_function f = {"body", sizeof q, 256, body};
    fake_cuda_options options = {seed, nullptr, nullptr, 0};
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};

    error[0] = 0;
    return fake_cuda_run_function(&options, &f, grid, block, threads * 4, &q, error, sizeof error);
}

/* Every order has to show the fault. */
static void names(void (*body)(fake_thread &, const void *), const char *what, const char *word)
{
    static uint32_t out[4] __attribute__((aligned(16)));
    parameters q = {0, out, nullptr};
    bool good = true;

    for (uint64_t seed = SEED; seed < SEED + 20; seed++)
        good &= run(body, q, seed) == -EFAULT && strstr(error, word);
    if (!ok(good, "%s is named", what))
        diag("it said \"%s\", without \"%s\"", error, word);
}

static void warps(void)
{
    static uint32_t out[THREADS], got[THREADS];
    parameters q = {0, out, got};
    bool good = true;

    for (uint32_t i = 0; i < THREADS; i++)
        out[i] = 7 * i;
    for (uint64_t seed = SEED; seed < SEED + 20; seed++) {
        good &= run(sound_warp, q, seed, 1) == 0;
        for (uint32_t i = 0; i < THREADS; i++)
            good &= got[i] == 7 * (i ^ 1);
    }
    if (!ok(good, "threads of a warp exchange words, and bytes that were brought are there"))
        diag("%s", error);
}

static void leaves_alone(void)
{
    static uint32_t out[10 * THREADS];
    parameters q = {10 * THREADS - 7, out, nullptr};
    bool good = true;

    for (uint64_t seed = SEED; seed < SEED + 20; seed++) {
        memset(out, 0xff, sizeof out);
        good &= run(sound, q, seed, 10) == 0;
        for (uint32_t i = 0; i < 10 * THREADS; i++)
            good &= out[i] == (i < q.n ? i % THREADS : UINT32_MAX);
    }
    if (!ok(good, "a sound body runs to its end"))
        diag("%s", error);
}

static void orders(void)
{
    static uint32_t one[2 * THREADS], two[2 * THREADS], n[4];
    bool seen[2 * THREADS] = {}, all = true;
    parameters q = {0, n, one};

    n[0] = 0;
    run(note_order, q, SEED, 1);
    q.order = two;
    n[0] = 0;
    run(note_order, q, SEED, 1);
    ok(memcmp(one, two, sizeof one) == 0, "one seed gives one order of threads");
    ok(memcmp(one, one + THREADS, sizeof one / 2) != 0, "another one after each barrier");
    for (uint32_t i = 0; i < 2 * THREADS; i++)
        seen[one[i] + i / THREADS * THREADS] = true;
    for (bool s : seen)
        all &= s;
    ok(all, "in which every thread has its turn");
    n[0] = 0;
    run(note_order, q, SEED + 1, 1);
    ok(memcmp(one, two, sizeof one) != 0, "another seed gives another one");
}

static void refusals(void)
{
    static uint32_t out[4];
    parameters q = {0, out, nullptr};
    const uint32_t one[3] = {1, 1, 1}, none[3] = {0, 1, 1}, deep[3] = {1, 1, 2};

    is_int(run(sound, q, SEED, 1, 257), -EINVAL, "more threads than a function takes are refused");
    is_int(fake_cuda_run(UINT32_MAX, one, one, 0, &q, error, sizeof error), -EINVAL,
           "so is a function that does not exist");
    is_int(fake_cuda_run(0, none, one, 0, &q, error, sizeof error), -EINVAL, "and an empty grid");
    is_int(fake_cuda_run(0, one, deep, 0, &q, error, sizeof error), -EINVAL, "and a deep block");
    is_int(fake_cuda_run(0, one, one, 1 << 20, &q, error, sizeof error), -EINVAL,
           "and more shared memory than there is");
    is_int(fake_cuda_kernel_find("zero_total") < fake_cuda_n_functions, 1, "functions have names");
    ok(fake_cuda_kernel_find("zero") == UINT32_MAX, "and no others");
}

static void *in_thread(void *arg)
{
    static const parameters none = {};
    uint64_t seed = reinterpret_cast<uintptr_t>(arg);
    fake_cuda_function good = {"body", sizeof none, 256, sound},
                       bad = {"body", sizeof none, 256, some_leave};
    const uint32_t grid[3] = {20, 1, 1}, block[3] = {THREADS, 1, 1};
    bool fine = true;
    char text[200];

    for (uint64_t i = 0; i < 10; i++) {
        fake_cuda_options o = {seed + i, nullptr, nullptr, 0};
        fine &= fake_cuda_run_function(&o, &good, grid, block, THREADS * 4, &none, text,
                                       sizeof text) == 0;
        fine &= fake_cuda_run_function(&o, &bad, grid, block, 0, &none, text, sizeof text) ==
                -EFAULT;
    }
    return reinterpret_cast<void *>(static_cast<uintptr_t>(fine));
}

static void side_by_side(void)
{
    pthread_t thread[4];
    bool fine = true;

    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], nullptr, in_thread, reinterpret_cast<void *>(i * 100)))
            bail("no thread");
    for (pthread_t t : thread) {
        void *result;
        pthread_join(t, &result);
        fine &= result != nullptr;
    }
    ok(fine, "threads run grids side by side, also after faults");
}

int main(void)
{
    leaves_alone();
    names(no_barrier, "a read beside a write", "race: thread");
    names(write_after_read, "a write beside a read", "race: thread");
    names(both_write, "two writers", "race: thread");
    names(half_a_word, "a part of a word", "of shared memory");
    names(some_leave, "a barrier that one thread does not reach", "thread 5 never reaches");
    names(two_places, "a barrier in two places", "waits at the barrier");
    names(one_more, "a barrier of one thread alone", "thread 7 waits at the barrier");
    names(unwritten, "reading what nobody wrote", "nobody has written");
    names(left_over, "reading what another block wrote", "nobody has written");
    names(beyond, "writing behind shared memory", "at 256 of 256 bytes");
    names(askew, "a vector that is not aligned", "not aligned");
    names(on_its_way, "reading what is on its way", "nobody has written");
    names(brought_over, "bringing over what is read", "race: thread");
    names(half_a_warp, "an exchange of half a warp", "to which not all of its warp come");
    names(two_exchanges, "an exchange in two places", "waits at the exchange");
    warps();
    leaves_alone();
    orders();
    refusals();
    side_by_side();
    done();
}
