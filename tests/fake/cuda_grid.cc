/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of a block run one after the other, each until its end or until a barrier, where it waits
 * on a fiber of its own. A fiber whose thread has ended begins the next one, so that bodies without
 * barriers are a plain loop on one fiber.
 */
#include "cuda_grid.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda_thread.h"
#include "fiber.h"

#define MOST_THREADS 1024u
#define STACK_BYTES (128u * 1024u)
#define MOST_SHARED (48u * 1024u)
#define MANY 0xffffu
#define MOST_BROUGHT 64u /* of a thread at once */

/* What is known of a byte of shared memory. Epochs never repeat, so nothing has to be cleared. */
struct shadow {
    uint32_t epoch;          /* of writer and reader */
    uint32_t written;        /* block that wrote it */
    uint16_t writer, reader; /* thread + 1; reader MANY */
};

struct waiter {
    uint32_t thread, fiber;
    const char *file;
    int line;
    bool warp; /* for its warp, not for the block */
};

/* Bytes on their way to shared memory. */
struct parcel {
    uint32_t at, bytes;
    unsigned char value[16];
};

/* What a thread has brought, and the words of its last two exchanges. */
struct luggage {
    struct parcel parcel[MOST_BROUGHT];
    uint32_t n_parcels, n_exchanges;
};

/* Everything of one launch at a time; one for each thread that runs grids. */
struct fake_grid {
    struct fiber host, fiber[MOST_THREADS];
    unsigned char *stacks;
    uint32_t n_prepared, current;             /* fibers */
    uint32_t free[MOST_THREADS], n_free;
    uint32_t order[MOST_THREADS], n_started;  /* threads */
    struct waiter waiter[MOST_THREADS], released[MOST_THREADS];
    uint32_t n_waiting;
    struct luggage luggage[MOST_THREADS];
    uint32_t words[2][MOST_THREADS][FAKE_WARP_WORDS]; /* of exchanges in turn */

    const fake_cuda_options *options;
    const fake_cuda_function *function;
    const void *params;
    uint64_t blocks, block;
    uint32_t row, threads, shared_bytes, epoch, serial;
    uint64_t random;
    bool failed;
    char *error;
    size_t error_bytes;

    struct shadow shadow[MOST_SHARED];
    alignas(16) unsigned char shared[MOST_SHARED];
};

/* ---- One per thread -------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void grid_free(void *arg)
{
    fake_grid *g = static_cast<fake_grid *>(arg);

    for (uint32_t i = 0; i < g->n_prepared; i++)
        fiber_drop(&g->fiber[i]);
    munmap(g->stacks, (size_t)MOST_THREADS * STACK_BYTES);
    free(g);
}

/* What the main thread leaves is freed by nobody else. */
static void grid_free_last(void)
{
    void *g = pthread_getspecific(key);

    pthread_setspecific(key, nullptr);
    if (g)
        grid_free(g);
}

static void make_key(void)
{
    if (pthread_key_create(&key, grid_free) == 0)
        atexit(grid_free_last);
}

static fake_grid *grid_here(void)
{
    pthread_once(&once, make_key);
    fake_grid *g = static_cast<fake_grid *>(pthread_getspecific(key));
    void *stacks;

    if (g)
        return g;
    g = static_cast<fake_grid *>(calloc(1, sizeof *g));
    stacks = mmap(nullptr, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!g || stacks == MAP_FAILED || pthread_setspecific(key, g)) {
        if (stacks != MAP_FAILED)
            munmap(stacks, (size_t)MOST_THREADS * STACK_BYTES);
        free(g);
        return nullptr;
    }
    g->stacks = static_cast<unsigned char *>(stacks);
    return g;
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* The first fault is kept. */
__attribute__((format(printf, 2, 3))) static void fail(fake_grid *g, const char *format, ...)
{
    va_list ap;

    if (g->failed)
        return;
    g->failed = true;
    int n = snprintf(g->error, g->error_bytes, "%s, block %llu: ", g->function->name,
                     (unsigned long long)g->block);
    va_start(ap, format);
    if (n >= 0 && (size_t)n < g->error_bytes)
        vsnprintf(g->error + n, g->error_bytes - (size_t)n, format, ap);
    va_end(ap);
}

/* Leaves a thread that did something wrong where it is, for good. */
static void stop(fake_grid *g)
{
    fiber_switch(&g->fiber[g->current], &g->host);
    __builtin_trap();
}

static bool is_broken(fake_grid *g, const char *file, int line, bool barrier)
{
    const fake_cuda_options *o = g->options;
    fake_cuda_sites *seen = o->sites;

    for (uint32_t i = 0; seen && i <= seen->n && i < FAKE_CUDA_SITES; i++) {
        if (i == seen->n)
            seen->at[seen->n++] = {file, line, barrier};
        if (seen->at[i].line == line && strcmp(seen->at[i].file, file) == 0)
            break;
    }
    return o->broken && o->broken->line == line && strcmp(o->broken->file, file) == 0;
}

/* ---- A thread -------------------------------------------------------------------------------- */

uint32_t fake_thread::size() const
{
    return grid->threads;
}

uint64_t fake_thread::block() const
{
    return grid->block % grid->blocks;
}

uint64_t fake_thread::blocks() const
{
    return grid->blocks;
}

uint32_t fake_thread::row() const
{
    return grid->row;
}

bool fake_thread::is_broken_here(const char *file, int line)
{
    return (grid->options->sites || grid->options->broken) && is_broken(grid, file, line, true);
}

void fake_thread::barrier(const char *file, int line)
{
    if (is_broken_here(file, line))
        return;
    grid->waiter[grid->n_waiting++] = {self, grid->current, file, line, false};
    fiber_switch(&grid->fiber[grid->current], &grid->host);
}

const uint32_t (*fake_thread::exchange(const uint32_t *words, uint32_t n, const char *file,
                                       int line))[FAKE_WARP_WORDS]
{
    /* In turn: who comes to the next exchange has read what it got from the one before the last. */
    uint32_t (*all)[FAKE_WARP_WORDS] = grid->words[grid->luggage[self].n_exchanges++ % 2];

    if (grid->threads % FAKE_WARP) {
        fail(grid, "%u threads are no whole warps, and thread %u exchanges (%s:%d)", grid->threads,
             self, base_name(file), line);
        stop(grid);
    }
    for (uint32_t i = 0; i < n; i++)
        all[self][i] = words[i];
    grid->waiter[grid->n_waiting++] = {self, grid->current, file, line, true};
    fiber_switch(&grid->fiber[grid->current], &grid->host);
    return all + self / FAKE_WARP * FAKE_WARP;
}

/* The place is taken from here on: whoever still reads there races with it, and until they are
 * there nobody has written what is read there. */
void fake_thread::bring_words(uint32_t at, const void *words, uint32_t bytes, const char *file,
                              int line)
{
    struct luggage *l = &grid->luggage[self];

    memset(shared(at, bytes, true, file, line), 0xff, bytes);
    for (uint32_t i = at; i < at + bytes; i++)
        grid->shadow[i].written = 0;
    if (l->n_parcels == MOST_BROUGHT) {
        fail(grid, "thread %u brings more than %u pieces at once (%s:%d)", self, MOST_BROUGHT,
             base_name(file), line);
        stop(grid);
    }
    struct parcel *p = &l->parcel[l->n_parcels++];
    p->at = at;
    p->bytes = bytes;
    memcpy(p->value, words, bytes);
}

void fake_thread::brought(const char *file, int line)
{
    struct luggage *l = &grid->luggage[self];

    if (is_broken_here(file, line))
        return;
    for (uint32_t i = 0; i < l->n_parcels; i++) {
        const struct parcel *p = &l->parcel[i];
        memcpy(shared(p->at, p->bytes, true, file, line), p->value, p->bytes);
    }
    l->n_parcels = 0;
}

bool fake_thread::inside(uint64_t i, uint64_t n, const char *file, int line)
{
    if ((grid->options->sites || grid->options->broken) && is_broken(grid, file, line, false))
        return i < n + grid->options->slack;
    return i < n;
}

void fake_thread::check_global(const void *at, uint32_t bytes, const char *file, int line)
{
    if (reinterpret_cast<uintptr_t>(at) % bytes == 0)
        return;
    fail(grid, "thread %u accesses %u bytes at %p, which is not aligned (%s:%d)", self, bytes, at,
         base_name(file), line);
    stop(grid);
}

void *fake_thread::shared(uint32_t at, uint32_t bytes, bool write, const char *file, int line)
{
    fake_grid *g = grid;
    const char *verb = write ? "writes" : "reads";

    if (at > g->shared_bytes || bytes > g->shared_bytes - at || at % bytes) {
        fail(g, "thread %u %s %u bytes at %u of %u bytes of shared memory (%s:%d)", self, verb,
             bytes, at, g->shared_bytes, base_name(file), line);
        stop(g);
    }
    for (uint32_t i = at; i < at + bytes; i++) {
        struct shadow *s = &g->shadow[i];
        uint16_t other = 0, me = static_cast<uint16_t>(self + 1);

        if (s->epoch != g->epoch)
            *s = {g->epoch, s->written, 0, 0};
        if (s->writer && s->writer != me)
            other = s->writer;
        else if (write && s->reader && s->reader != me)
            other = s->reader;
        if (other) {
            fail(g, "race: thread %u %s byte %u of shared memory, which thread %d %s between the "
                 "same two barriers (%s:%d)",
                 self, verb, i, other == MANY ? -1 : other - 1,
                 other == s->writer ? "writes" : "reads", base_name(file), line);
            stop(g);
        }
        if (!write && s->written != g->serial) {
            fail(g, "thread %u reads byte %u of shared memory, which nobody has written (%s:%d)",
                 self, i, base_name(file), line);
            stop(g);
        }
        if (write) {
            s->writer = me;
            s->written = g->serial;
        } else {
            s->reader = s->reader && s->reader != me ? MANY : me;
        }
    }
    return g->shared + at;
}

/* ---- A block, and the grid ------------------------------------------------------------------- */

static uint64_t draw(fake_grid *g)
{
    uint64_t z = g->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

template <class T> static void shuffle(fake_grid *g, T *x, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = static_cast<uint32_t>(draw(g) % i);
        T y = x[i - 1];
        x[i - 1] = x[j];
        x[j] = y;
    }
}

static void fiber_main(void *arg)
{
    fake_grid *g = static_cast<fake_grid *>(arg);
    uint32_t self = g->current;

    for (;;) {
        while (g->n_started < g->threads) {
            fake_thread t(g, g->order[g->n_started++]);
            g->function->run(t, g->params);
        }
        fiber_switch(&g->fiber[self], &g->host);
    }
}

/* Lets a fiber go on until it waits at a barrier, is done with all threads, or has failed. */
static void resume(fake_grid *g, uint32_t fiber)
{
    g->current = fiber;
    fiber_switch(&g->host, &g->fiber[fiber]);
    if (g->n_waiting == 0 || g->waiter[g->n_waiting - 1].fiber != fiber)
        g->free[g->n_free++] = fiber;
}

static uint32_t free_fiber(fake_grid *g)
{
    if (g->n_free)
        return g->free[--g->n_free];
    uint32_t i = g->n_prepared++;
    fiber_prepare(&g->fiber[i], g->stacks + (size_t)i * STACK_BYTES, STACK_BYTES, fiber_main, g);
    return i;
}

/* Two threads that meet have to do so at one place. */
static void check_same(fake_grid *g, const struct waiter *a, const struct waiter *b,
                       const char *what)
{
    if (a->line != b->line || strcmp(a->file, b->file) != 0)
        fail(g, "thread %u waits at the %s %s:%d, thread %u at %s:%d", a->thread, what,
             base_name(a->file), a->line, b->thread, base_name(b->file), b->line);
}

/*
 * Lets the threads of every warp go on that has come to an exchange as a whole, and says whether
 * there was one. No barrier lies in between: the epoch stays.
 */
static bool release_warps(fake_grid *g)
{
    uint32_t come[MOST_THREADS / FAKE_WARP] = {}, n_left = 0, n = 0;

    for (uint32_t i = 0; i < g->n_waiting; i++)
        come[g->waiter[i].thread / FAKE_WARP] += g->waiter[i].warp;
    for (uint32_t i = 0; i < g->n_waiting; i++) {
        const struct waiter w = g->waiter[i];
        if (come[w.thread / FAKE_WARP] == FAKE_WARP)
            g->released[n++] = w;
        else
            g->waiter[n_left++] = w;
    }
    g->n_waiting = n_left;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k-- > 0;)
            if (g->released[k].thread / FAKE_WARP == g->released[i].thread / FAKE_WARP) {
                check_same(g, &g->released[k], &g->released[i], "exchange");
                break;
            }
    shuffle(g, g->released, n);
    for (uint32_t i = 0; i < n && !g->failed; i++)
        resume(g, g->released[i].fiber);
    return n > 0;
}

/* All threads have to wait, at one barrier. */
static void check_barrier(fake_grid *g)
{
    const struct waiter *first = &g->waiter[0];
    bool here[MOST_THREADS] = {};

    for (uint32_t i = 0; i < g->n_waiting; i++)
        if (g->waiter[i].warp) {
            fail(g, "thread %u waits at the exchange %s:%d, to which not all of its warp come",
                 g->waiter[i].thread, base_name(g->waiter[i].file), g->waiter[i].line);
            return;
        }

    for (uint32_t i = 0; i < g->n_waiting; i++) {
        const struct waiter *w = &g->waiter[i];
        here[w->thread] = true;
        check_same(g, first, w, "barrier");
    }
    for (uint32_t i = 0; i < g->threads; i++)
        if (!here[i])
            fail(g, "thread %u waits at the barrier %s:%d, which thread %u never reaches",
                 first->thread, base_name(first->file), first->line, i);
}

static void run_block(fake_grid *g)
{
    for (uint32_t i = 0; i < g->threads; i++)
        g->order[i] = i;
    shuffle(g, g->order, g->threads);
    for (uint32_t i = 0; i < g->threads; i++)
        g->luggage[i].n_parcels = g->luggage[i].n_exchanges = 0;
    g->n_started = g->n_waiting = 0;
    g->epoch++;
    g->serial++;
    while (g->n_started < g->threads && !g->failed)
        resume(g, free_fiber(g));
    while (g->n_waiting && !g->failed) {
        if (release_warps(g))
            continue;
        uint32_t n = g->n_waiting;
        check_barrier(g);
        memcpy(g->released, g->waiter, n * sizeof *g->waiter);
        shuffle(g, g->released, n);
        g->n_waiting = 0;
        g->epoch++;
        for (uint32_t i = 0; i < n && !g->failed; i++)
            resume(g, g->released[i].fiber);
    }
    if (!g->failed)
        return;
    for (uint32_t i = 0; i < g->n_prepared; i++)
        fiber_drop(&g->fiber[i]);
    g->n_prepared = g->n_free = 0;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t c = a % b;
        a = b;
        b = c;
    }
    return a;
}

static int check_launch(const fake_cuda_function *f, const uint32_t grid[3],
                        const uint32_t block[3], uint32_t shared_bytes, char *error, size_t n)
{
    if (!grid[0] || !grid[1] || grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] != 1 ||
        !block[0] || block[0] > f->threads || block[1] != 1 || block[2] != 1 ||
        shared_bytes > MOST_SHARED) {
        snprintf(error, n,
                 "%s: a grid of %u, %u, %u with blocks of %u, %u, %u (%u at most) and %u bytes of "
                 "shared memory cannot be launched",
                 f->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], f->threads,
                 shared_bytes);
        return -EINVAL;
    }
    return 0;
}

int fake_cuda_run_function(const fake_cuda_options *options, const fake_cuda_function *function,
                           const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                           const void *params, char *error, size_t n)
{
    int err = check_launch(function, grid, block, shared_bytes, error, n);
    fake_grid *g = err ? nullptr : grid_here();
    uint64_t total = (uint64_t)grid[0] * grid[1], step;

    if (err)
        return err;
    if (!g) {
        snprintf(error, n, "%s: no memory for an emulated grid", function->name);
        return -ENOMEM;
    }
    fiber_adopt(&g->host);
    g->options = options;
    g->function = function;
    g->params = params;
    g->blocks = grid[0];
    g->threads = block[0];
    g->shared_bytes = shared_bytes;
    g->random = options->seed;
    g->failed = false;
    g->error = error;
    g->error_bytes = n;
    do {
        step = total > 1 ? draw(g) % (total - 1) + 1 : 1;
    } while (gcd(step, total) != 1);
    g->block = draw(g) % total;
    for (uint64_t i = 0; i < total && !g->failed; i++) {
        g->row = static_cast<uint32_t>(g->block / grid[0]);
        run_block(g);
        g->block = (g->block + step) % total;
    }
    return g->failed ? -EFAULT : 0;
}

/* NULL: there is none of that number. */
static const fake_cuda_function *function_at(uint32_t kernel)
{
    if (kernel < fake_cuda_n_functions)
        return &fake_cuda_functions[kernel];
    kernel -= fake_cuda_n_functions;
    return kernel < fake_gpt2_n_functions ? &fake_gpt2_functions[kernel] : nullptr;
}

uint32_t fake_cuda_kernel_find(const char *name)
{
    for (uint32_t i = 0; function_at(i); i++)
        if (strcmp(function_at(i)->name, name) == 0)
            return i;
    return UINT32_MAX;
}

bool fake_cuda_may_launch(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3],
                          uint32_t shared_bytes, uint64_t params_bytes)
{
    const fake_cuda_function *function = function_at(kernel);
    char error[256];

    return function && function->params_bytes == params_bytes &&
           !check_launch(function, grid, block, shared_bytes, error, sizeof error);
}

int fake_cuda_run_with(const struct fake_cuda_options *options, uint32_t kernel,
                       const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                       const void *params, char *error, size_t n)
{
    const fake_cuda_function *function = function_at(kernel);

    if (!function) {
        snprintf(error, n, "there is no device function %u", kernel);
        return -EINVAL;
    }
    return fake_cuda_run_function(options, function, grid, block, shared_bytes, params, error, n);
}

int fake_cuda_run(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3],
                  uint32_t shared_bytes, const void *params, char *error, size_t n)
{
    static const fake_cuda_options plain = {};

    return fake_cuda_run_with(&plain, kernel, grid, block, shared_bytes, params, error, n);
}
