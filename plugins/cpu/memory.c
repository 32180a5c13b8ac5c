/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a store. All of its pages are there when it is handed out, so that nothing fails
 * later.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/locked.h"
#include "../common/memory.h"
#include "../common/param.h"
#include "cpu.h"
#include "machine/left.h"
#include "machine/pages.h"

#define LOCK_TEXT 640 /* bytes of a sentence */

int zero__cpu_lock(const struct zero__voice *voice, enum cpu_lock *lock)
{
    int which, err;

    err = zero__param_word(voice, "cpu_lock", "auto", "auto|0|1",
                           "lock the tier's memory: 1, 0, or auto: where the limit allows it",
                           &which);
    if (!err)
        *lock = (enum cpu_lock)which;
    return err;
}

static int no_room(const struct zero__voice *voice, uint64_t bytes, int err)
{
    return zero__say(voice, err,
                     "%llu bytes of host memory for the tier cpu: %s; the machine and its control "
                     "group leave %llu. Give this tier less, or use nvme for some of it",
                     (unsigned long long)bytes, strerror(-err),
                     (unsigned long long)zero__memory_left(NULL, 0));
}

/*
 * What stands in the way, and how it goes. The limit is that of a process: ranks that are threads
 * of one share it.
 */
static const char *lock_refusal(uint64_t bytes, int32_t ranks, int err, char text[LOCK_TEXT])
{
    uint64_t limit = zero__locked_limit(), now = zero__locked_now();
    char remedy[ZERO__LOCKED_REMEDY];

    if (limit == UINT64_MAX) /* then it is not the limit */
        snprintf(text, LOCK_TEXT, "%s", strerror(-err));
    else
        snprintf(text, LOCK_TEXT,
                 "%s; the limit is %llu bytes for each process, of which this one has locked %llu, "
                 "and this rank needs %llu more, as each of the host's %d does. Raise it: %s",
                 strerror(-err), (unsigned long long)limit, (unsigned long long)now,
                 (unsigned long long)bytes, (int)ranks, zero__locked_remedy(now + bytes, remedy));
    return text;
}

/* Before it is filled: whoever may not lock so much should not wait for that. */
static int lock_memory(const struct zero__voice *voice, const struct cpu_wish *wish,
                       struct cpu_memory *m)
{
    char why[LOCK_TEXT];

    if (wish->lock == CPU_LOCK_NO || !m->bytes)
        return 0;
    m->locked = !mlock2(m->base, m->bytes, MLOCK_ONFAULT);
    if (m->locked)
        return 0;
    int err = -errno;
    lock_refusal(m->bytes, wish->ranks, err, why);
    if (wish->lock == CPU_LOCK_YES)
        return zero__say(voice, err,
                         "%llu bytes cannot be locked (ZERO_CPU_LOCK=1): %s, or set "
                         "ZERO_CPU_LOCK=auto",
                         (unsigned long long)m->bytes, why);
    bool swap = zero__swap_is_there();
    zero__tell(voice, swap && !m->told ? wish->warns : ZERO_LOG_INFO,
               "%llu bytes are not locked, %s: %s", (unsigned long long)m->bytes,
               swap ? "the system may swap them" : "which is no matter while there is no swap",
               why);
    m->told = true;
    return 0;
}

static int whole_pages(const struct zero__voice *voice, uint64_t bytes, uint64_t *whole)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), sum;

    if (bytes > PTRDIFF_MAX || __builtin_add_overflow(bytes, page - 1, &sum))
        return zero__say(voice, -EFBIG, "no memory has %llu bytes", (unsigned long long)bytes);
    *whole = sum - sum % page;
    return 0;
}

int zero__cpu_memory_take(const struct zero__voice *voice, uint64_t bytes,
                          const struct cpu_wish *wish, struct cpu_memory *memory)
{
    struct cpu_memory m = {0};
    int err = whole_pages(voice, bytes, &m.bytes);

    if (err)
        return err;
    if (!m.bytes) {
        *memory = m;
        return 0;
    }
    if (m.bytes > zero__memory_left(NULL, 0))
        return no_room(voice, m.bytes, -ENOMEM);
    m.base = zero__addresses_take(m.bytes);
    if (!m.base)
        return no_room(voice, m.bytes, -errno);
    if (mprotect(m.base, m.bytes, PROT_READ | PROT_WRITE))
        err = no_room(voice, m.bytes, -errno);
    if (!err) {
        zero__cpu_place(m.base, m.bytes, wish->pci, m.where, sizeof m.where);
        err = lock_memory(voice, wish, &m);
    }
    if (!err) {
        err = zero__memory_fill(m.base, m.bytes, -1, 0);
        if (err)
            err = no_room(voice, m.bytes, err);
    }
    if (err)
        zero__cpu_memory_give(&m);
    else
        *memory = m;
    return err;
}

/* The pages go to other addresses as they are: nothing is copied, and nothing is there twice. */
static int move(const struct zero__voice *voice, uint64_t bytes, struct cpu_memory *m)
{
    void *base = zero__addresses_take(bytes);

    if (!base)
        return no_room(voice, bytes, -errno);
    /* After a failure nobody knows whose these addresses are by now: they are left alone. */
    if (mremap(m->base, m->bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == MAP_FAILED)
        return no_room(voice, bytes, -errno);
    m->base = base;
    m->bytes = bytes;
    return 0;
}

/* Not locked meanwhile: the system refuses to move what would then be above the limit. */
static int grow(const struct zero__voice *voice, uint64_t bytes, const struct cpu_wish *wish,
                struct cpu_memory *m)
{
    struct cpu_memory before = *m;
    int err = 0;

    if (bytes - before.bytes > zero__memory_left(NULL, 0))
        err = no_room(voice, bytes - before.bytes, -ENOMEM);
    if (!err && m->locked)
        munlock(m->base, m->bytes);
    m->locked = false;
    if (!err)
        err = move(voice, bytes, m);
    if (!err)
        err = lock_memory(voice, wish, m);
    if (!err) {
        err = zero__memory_fill(m->base + before.bytes, bytes - before.bytes, -1, 0);
        if (err)
            err = no_room(voice, bytes - before.bytes, err);
    }
    if (!err)
        return 0;
    if (m->bytes > before.bytes)
        munmap(m->base + before.bytes, m->bytes - before.bytes);
    m->bytes = before.bytes;
    m->locked = before.locked && !mlock2(m->base, m->bytes, MLOCK_ONFAULT);
    return err;
}

int zero__cpu_memory_resize(const struct zero__voice *voice, uint64_t bytes,
                            const struct cpu_wish *wish, struct cpu_memory *memory)
{
    uint64_t whole = 0;
    int err = whole_pages(voice, bytes, &whole);

    if (err)
        return err;
    if (!memory->bytes)
        return zero__cpu_memory_take(voice, bytes, wish, memory);
    if (whole > memory->bytes)
        return grow(voice, whole, wish, memory);
    if (!whole) {
        zero__cpu_memory_give(memory);
        return 0;
    }
    if (whole < memory->bytes)
        munmap(memory->base + whole, memory->bytes - whole);
    memset(memory->base + bytes, 0, whole - bytes); /* it grows by zeros */
    memory->bytes = whole;
    return 0;
}

void zero__cpu_memory_give(struct cpu_memory *memory)
{
    if (memory->bytes)
        munmap(memory->base, memory->bytes);
    *memory = (struct cpu_memory){0};
}
