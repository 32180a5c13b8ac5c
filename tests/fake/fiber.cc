/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber.h"

#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#define HAS(feature) __has_feature(feature)
#else
#define HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS(address_sanitizer)
#define WITH_ASAN 1
extern "C" void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t bytes);
extern "C" void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
#endif
#if defined(__SANITIZE_THREAD__) || HAS(thread_sanitizer)
#define WITH_TSAN 1
extern "C" void *__tsan_get_current_fiber(void);
extern "C" void *__tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void *fiber);
extern "C" void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

#ifdef __x86_64__
/* Registers that a call keeps go to the stack, the stack pointer to *from; then all comes back from
 * the other stack. swapcontext() would be a system call each way. */
extern "C" void fake_fiber_swap(void **from, void *to);
extern "C" void fake_fiber_begin(void);
__asm__(".text\n"
        ".globl fake_fiber_swap\n"
        ".hidden fake_fiber_swap\n"
        ".type fake_fiber_swap, @function\n"
        "fake_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fake_fiber_swap, . - fake_fiber_swap\n"
        /* Where a fresh fiber arrives: r12 is its function, r13 the argument. */
        ".globl fake_fiber_begin\n"
        ".hidden fake_fiber_begin\n"
        ".type fake_fiber_begin, @function\n"
        "fake_fiber_begin:\n"
        "    movq %r13, %rdi\n"
        "    xorl %ebp, %ebp\n"
        "    call *%r12\n"
        "    ud2\n"
        ".size fake_fiber_begin, . - fake_fiber_begin\n");
#endif

/* After a switch, on the stack that was switched to. */
static void arrived(struct fiber *self)
{
#ifdef WITH_ASAN
    struct fiber *from = self->from;
    __sanitizer_finish_switch_fiber(self->fake_stack, &from->bottom, &from->bottom_bytes);
#endif
    (void)self;
}

static void begin(void *arg)
{
    struct fiber *f = static_cast<struct fiber *>(arg);

    arrived(f);
    f->function(f->arg);
    __builtin_trap();
}

#ifndef __x86_64__
static void begin_context(unsigned high, unsigned low)
{
    begin(reinterpret_cast<void *>((uintptr_t)high << 32 | low));
}
#endif

void fiber_adopt(struct fiber *f)
{
    memset(f, 0, sizeof *f);
#ifdef WITH_TSAN
    f->tsan = __tsan_get_current_fiber();
#endif
}

void fiber_prepare(struct fiber *f, void *stack, size_t bytes, void (*function)(void *), void *arg)
{
    memset(f, 0, sizeof *f);
    f->stack = stack;
    f->stack_bytes = bytes;
    f->function = function;
    f->arg = arg;
    f->bottom = stack;
    f->bottom_bytes = bytes;
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(stack, bytes); /* what frames left that never returned */
#endif
#ifdef WITH_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
#ifdef __x86_64__
    /* As fake_fiber_swap() left it: r15 … rbp, and where to return to; aligned for a call there. */
    void **top = reinterpret_cast<void **>(static_cast<char *>(stack) + bytes - 64);
    *--top = reinterpret_cast<void *>(fake_fiber_begin);
    *--top = nullptr; /* rbp */
    *--top = nullptr; /* rbx */
    *--top = reinterpret_cast<void *>(begin);
    *--top = f;
    *--top = nullptr; /* r14 */
    *--top = nullptr; /* r15 */
    f->sp = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, reinterpret_cast<void (*)(void)>(begin_context), 2,
                (unsigned)((uint64_t)(uintptr_t)f >> 32), (unsigned)(uintptr_t)f);
#endif
}

void fiber_drop(struct fiber *f)
{
#ifdef WITH_TSAN
    if (f->stack && f->tsan)
        __tsan_destroy_fiber(f->tsan);
#endif
    f->tsan = nullptr;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    to->from = from;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->bottom_bytes);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef __x86_64__
    fake_fiber_swap(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
    arrived(from);
}
