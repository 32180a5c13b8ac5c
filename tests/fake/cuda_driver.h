/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU: the library libcuda.so.1 that tests put before the plugin. Work runs
 * in the order of streams, each a thread; kernels are the plugin's own bodies on the emulated grid.
 *
 * What the device has is no memory for the host: its addresses are reserved and cannot be touched,
 * and what lies there is kept at another place, which only the driver knows. So whoever takes
 * memory of the device for his own crashes. Nor may a GPU touch what is another's, unless it was
 * given access; but it may copy what cuMemAlloc() gave another one.
 *
 * There is one driver in a process, with the settings of the last fake_cuda_set(), or at first
 * those of the variable FAKE_CUDA, which names them as NAME=NUMBER, separated by commas.
 */
#ifndef ZERO_TESTS_FAKE_CUDA_DRIVER_H
#define ZERO_TESTS_FAKE_CUDA_DRIVER_H

#include <stdint.h>

struct fake_cuda_settings {
    int init;        /* what cuInit() returns; 0: it works */
    int version;     /* of the driver */
    int devices;     /* GPUs */
    int capability;  /* 10 * major + minor */
    int has_virtual; /* virtual memory management */
    int shares;      /* by descriptors */
    int multiprocessors;
    int memory_mib; /* of each GPU */
    int first_bus;  /* that the first GPU is on; the others are 16 apart */
    int delay_us;   /* work starts late by up to so much, at random */
    int seed;
    int one_caller; /* functions of the host run one after another, in one thread of the process */
};

/* What is there now. */
struct fake_cuda_live {
    uint64_t contexts; /* retained, of all GPUs */
    uint64_t modules, streams, events;
    uint64_t ranges, chunks, maps; /* of addresses, of physical memory; mapped */
    uint64_t plain, pinned, registered;
    uint64_t pushed; /* contexts that the calling thread has not popped */
    uint64_t mode;   /* of the calling thread where others capture; it begins with 0 */
    uint64_t bytes;  /* of the GPUs */
};

/* So far. */
struct fake_cuda_work {
    uint64_t calls; /* of the interface, but for those about errors */
    uint64_t launches, copies, copied_bytes, recorded, functions;
    uint64_t pageable;   /* copies from or to host memory that is not pinned */
    uint64_t host_bytes; /* copied from or to host memory */
    uint64_t illegal;    /* work where nothing is that its GPU may touch, and what the grid found */
};

/* Nothing of the driver is in use. NULL: the defaults. */
void fake_cuda_set(const struct fake_cuda_settings *settings);
/* The defaults. */
struct fake_cuda_settings fake_cuda_defaults(void);

/*
 * The n-th call from now on (1: the next one) returns result and does nothing, unless it ends
 * something: that it does all the same. 0: none does. Pushing and popping contexts does not count,
 * nor does exchanging the mode of a thread.
 */
void fake_cuda_fail(uint64_t n, int result);
/* Name of the call that was failed so, or NULL. */
const char *fake_cuda_failed(void);
/*
 * The n-th piece of work that a stream begins from now on ends its context with result; that of
 * other GPUs stays as it is. The other one counts the work of one GPU. 0: none does.
 */
void fake_cuda_break(uint64_t n, int result);
void fake_cuda_break_gpu(int gpu, uint64_t n, int result);
/* Work that streams have begun is held, and no more is begun, until it is released. */
void fake_cuda_hold(int held);

/*
 * Some thread captures a stream in global mode, or does not any more. Meanwhile calls that make or
 * end memory or code, or ask how far a stream or an event is, fail in every thread that has not
 * left that mode by cuThreadExchangeStreamCaptureMode(). (On a machine they end the capture, too.)
 */
void fake_cuda_capture(int on);
/* This stream is captured; NULL: none is. */
struct cuda_stream;
void fake_cuda_capture_stream(struct cuda_stream *stream);

/* What only others had, and have given back, is gone by then. */
void fake_cuda_live(struct fake_cuda_live *live);
void fake_cuda_work(struct fake_cuda_work *work);

/* Where the bytes at an address of a device are kept; other addresses as they are. */
void *fake_cuda_reach(const void *address);
/*
 * The same of n bytes, for a library that works on them on that GPU: where it may not touch all of
 * them its context is lost, and it is NULL.
 */
void *fake_cuda_reach_all(int gpu, const void *address, uint64_t n);

/*
 * What a library does on a stream in its turn, as if it were a kernel; gpu: that of the stream.
 * Returns as the driver does.
 */
int fake_cuda_enqueue(struct cuda_stream *stream, void (*work)(void *arg, int gpu), void *arg);

/* Calls so far of that symbol. */
uint64_t fake_cuda_called(const char *symbol);

#endif
