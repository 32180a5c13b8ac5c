/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that one thread switches between, known to the sanitizers. A fiber's function never
 * returns; who gives it up prepares it anew before the next use.
 */
#ifndef ZERO_TESTS_FAKE_FIBER_H
#define ZERO_TESTS_FAKE_FIBER_H

#include <stddef.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

struct fiber {
    void *stack; /* NULL: the thread's own */
    size_t stack_bytes;
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
    void (*function)(void *arg);
    void *arg;
    /* Of the sanitizers: */
    const void *bottom;
    size_t bottom_bytes;
    void *fake_stack, *tsan;
    struct fiber *from; /* who switched here last */
};

/* *f becomes the calling thread itself. */
void fiber_adopt(struct fiber *f);
/* A fiber that begins with function(arg) on this stack, when it is switched to. */
void fiber_prepare(struct fiber *f, void *stack, size_t bytes, void (*function)(void *), void *arg);
/* Nobody will switch to it any more. */
void fiber_drop(struct fiber *f);
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
