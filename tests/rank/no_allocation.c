/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step path allocates nothing: this program's own malloc, free, mmap and their kin stand in
 * front of the C library's for everything in the process, plugins included, and count while two
 * ranks train. They are armed at a barrier after commit and disarmed at one after the last step.
 * (Calls inside the C library, such as that of pthread_create() to mmap, cannot be seen. With a
 * sanitizer its hooks are used, and mmap is left alone.)
 */
#include "config.h"

#include "../sanitized.h"
#include "../tap.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "folder.h"
#include "toy.h"

#define RANKS 2
#define STEPS 6
#define FRAMES 24

static atomic_int armed, calls;
static const char *first_what;
static void *first_frames[FRAMES];
static int first_n;
static _Thread_local int inside;

static void note(const char *what)
{
    if (!atomic_load_explicit(&armed, memory_order_relaxed) || inside)
        return;
    inside = 1;
    if (atomic_fetch_add(&calls, 1) == 0) {
        first_what = what;
        first_n = backtrace(first_frames, FRAMES);
    }
    inside = 0;
}

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                              void (*)(const volatile void *));

static void malloc_hook(const volatile void *p, size_t n)
{
    (void)p, (void)n;
    note("malloc");
}

static void free_hook(const volatile void *p)
{
    if (p)
        note("free");
}

static void install(void)
{
    __sanitizer_install_malloc_and_free_hooks(malloc_hook, free_hook);
}
#else
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#define SEEN __attribute__((visibility("default")))

SEEN void *malloc(size_t n)
{
    note("malloc");
    return __libc_malloc(n);
}

SEEN void *calloc(size_t n, size_t size)
{
    note("calloc");
    return __libc_calloc(n, size);
}

SEEN void *realloc(void *p, size_t n)
{
    note("realloc");
    return __libc_realloc(p, n);
}

SEEN void free(void *p)
{
    if (p)
        note("free");
    __libc_free(p);
}

SEEN void *memalign(size_t align, size_t n)
{
    note("memalign");
    return __libc_memalign(align, n);
}

SEEN void *aligned_alloc(size_t align, size_t n)
{
    note("aligned_alloc");
    return __libc_memalign(align, n);
}

SEEN void *valloc(size_t n)
{
    note("valloc");
    return __libc_memalign(4096, n);
}

SEEN int posix_memalign(void **p, size_t align, size_t n)
{
    note("posix_memalign");
    void *x = __libc_memalign(align, n);
    if (!x)
        return ENOMEM;
    *p = x;
    return 0;
}

SEEN void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    note("mmap");
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}

SEEN void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    note("mmap64");
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}

SEEN int munmap(void *at, size_t n)
{
    note("munmap");
    return (int)syscall(SYS_munmap, at, n);
}

SEEN void *mremap(void *at, size_t from, size_t to, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    void *want = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
    va_end(ap);
    note("mremap");
    return (void *)syscall(SYS_mremap, at, from, to, flags, want);
}

int __brk(void *);
void *__sbrk(intptr_t);

SEEN int brk(void *at)
{
    note("brk");
    return (int)syscall(SYS_brk, at) == (int)(intptr_t)at ? 0 : -1;
}

SEEN void *sbrk(intptr_t n)
{
    note("sbrk");
    return __sbrk(n);
}

static void install(void)
{
}
#endif

/* ---- The runs -------------------------------------------------------------------------------- */

static pthread_barrier_t barrier;
static char folder[4096];

static void arm(int rank, int on)
{
    pthread_barrier_wait(&barrier);
    if (rank == 0)
        atomic_store(&armed, on);
    pthread_barrier_wait(&barrier);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)arg;
    arm(rank, 1);
}

static void look(void *arg, const struct zero_op_time *op)
{
    (void)arg, (void)op;
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    double numbers[64] = {1};
    struct zero_memory_report memory = {.size = sizeof memory};

    (void)info, (void)arg;
    /* What a training loop calls between steps. */
    if (zero_set_lr(rt, 0, 1e-3f / (float)(step + 1)) || zero_sum(rt, numbers, 64) ||
        zero_barrier(rt) || zero_op_times(rt, look, NULL) || zero_memory_report(rt, &memory) ||
        numbers[0] != RANKS)
        note("a call between steps failed");
    if (step == STEPS - 1)
        arm(rank, 0);
}

static void run_in(const char *tiers, const char *stage, const char *accum, const char *reduce_at,
                   uint32_t dtype, uint32_t flags, const char *what)
{
    const bool early = strstr(what, "early");
    struct zero_setting s[] = {{"stage", stage},
                               {"accum", accum},
                               {"reduce_at", reduce_at},
                               {"clip", early ? "0" : "0.5"},
                               {"timeout", "20"},
                               {"comm", "shm"},
                               {"threads", "2"},
                               {"bucket_bytes", "64K"},
                               {"update_at", early ? "backward" : "end"},
                               {"offload", tiers},
                               {"prefetch_bytes", "100K"},
                               {"nvme_path", folder}};
    struct toy t = {.ranks = RANKS,
                    .layers = 6,
                    .steps = STEPS,
                    .dtype = dtype,
                    .flags = flags,
                    .width = 20000,
                    .settings = s,
                    .n_settings = strstr(tiers, "nvme") ? 12 : 11,
                    .seed = 11,
                    .committed = committed,
                    .stepped = stepped};
    struct toy_result r;

    atomic_store(&calls, 0);
    pthread_barrier_init(&barrier, NULL, RANKS);
    if (toy_train(&t, &r))
        diag("%s", r.error);
    pthread_barrier_destroy(&barrier);
    atomic_store(&armed, 0);
    ok(!r.err && !atomic_load(&calls), "stage %s, %s, %s micro-batches, reduce at %s%s%s%s", stage,
       zero_dtype_name(dtype), accum, reduce_at, what, *tiers ? ", " : "", tiers);
    if (atomic_load(&calls)) {
        diag("%d calls, the first: %s", atomic_load(&calls), first_what);
        fflush(stdout);
        backtrace_symbols_fd(first_frames, first_n, 1);
    }
}

static void run(const char *stage, const char *accum, const char *reduce_at, uint32_t dtype,
                uint32_t flags, const char *what)
{
    run_in("", stage, accum, reduce_at, dtype, flags, what);
}

/* The instrument works: it sees calls of this program, of the C library, and none when disarmed. */
static void control(void)
{
    void *(*volatile make)(size_t) = malloc;
    char *(*volatile copy)(const char *) = strdup;
    void *frames[2];

    backtrace(frames, 2); /* loads what it needs */
    atomic_store(&armed, 1);
    void *p = make(100), *q = copy("text");
    free(q);
    atomic_store(&armed, 0);
    free(p);
    ok(atomic_load(&calls) == 3, "malloc, strdup and free are seen while armed");
#ifndef SANITIZED
    atomic_store(&calls, 0);
    atomic_store(&armed, 1);
    p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 4096);
    atomic_store(&armed, 0);
    ok(atomic_load(&calls) == 2, "so are mmap and munmap");
    void *(*mine)(size_t) = malloc;
    ok(dlsym(RTLD_DEFAULT, "malloc") == *(void **)&mine, "and those of plugins");
#endif
}

int main(void)
{
    install();
    alarm(100);
    control();
    folder_make("no-allocation", folder);
    run("0", "1", "auto", ZERO_BF16, 0, "");
    run("1", "1", "auto", ZERO_BF16, TOY_EVAL, ", evaluations");
    run("2", "1", "auto", ZERO_BF16, 0, "");
    run("3", "1", "auto", ZERO_BF16, TOY_EVAL, ", evaluations");
    run("0", "3", "boundary", ZERO_F32, 0, "");
    run("1", "3", "micro", ZERO_BF16, 0, "");
    run("2", "3", "micro", ZERO_BF16, TOY_TIED, ", tied");
    run("3", "3", "micro", ZERO_F32, TOY_RECOMPUTE | TOY_PERSISTENT, ", recompute, persistent");
    run("3", "3", "boundary", ZERO_F16, TOY_FROZEN, ", frozen");
    run("3", "1", "auto", ZERO_BF16, TOY_STREAM, ", on a stream");
    run("1", "1", "auto", ZERO_F16, TOY_STREAM | TOY_NAN, ", on a stream, a skipped step");
    run_in("optimizer:cpu,activations:cpu", "3", "1", "auto", ZERO_BF16,
           TOY_ACTIVATIONS | TOY_EVAL, ", evaluations");
    run_in("optimizer:nvme,gradients:nvme,parameters:nvme,activations:nvme", "3", "3", "micro",
           ZERO_BF16, TOY_ACTIVATIONS, "");
    run_in("optimizer:cpu:0.4+nvme:0.6,gradients:cpu", "1", "1", "auto", ZERO_BF16, TOY_STREAM,
           ", on a stream");
    run_in("optimizer:nvme", "2", "1", "auto", ZERO_BF16, 0, ", early updates");
    rmdir(folder);
    done();
}
