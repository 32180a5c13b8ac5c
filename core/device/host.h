/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in host device: zero/device.h on ordinary memory, for machines without an accelerator
 * and for tests. What it adds to the header's contract:
 *
 * - Work of all streams runs in one pool of `threads` workers. A stream that waits takes no worker,
 *   so any number of streams makes progress with one. A long launch is shared by all workers, a
 *   piece at a time, and other streams get their turn between pieces.
 * - A stream holds 4096 outstanding operations. A call that finds it full waits for room, at most
 *   the device's timeout (-ETIMEDOUT).
 * - A function given to call() runs on a worker: it may enqueue work, but waits for none.
 * - notify may be called from inside event_record() and other calls; several events may share one.
 * - wait_value() sees a store within a millisecond. After the device's timeout the stream fails
 *   with -ETIMEDOUT: what follows on it is dropped, its events report the error, and streams that
 *   wait for such an event fail in turn. stream_sync() tells. There is no write_value().
 * - stream_destroy() of a stream with outstanding work is -EBUSY. close() drops what has not
 *   started, ends when running pieces and functions have, and frees all streams and events; the
 *   memory of alloc() is the caller's to release before.
 * - The option ZERO_ISA (auto, avx512, avx2, scalar) forces an instruction set.
 */
#ifndef ZERO_DEVICE_HOST_H
#define ZERO_DEVICE_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <zero/device.h>

/* Name "host", one interface of kind ZERO_IFACE_DEVICE. */
extern const struct zero_plugin zero__host_device_plugin;

/* Its table. */
extern const struct zero_device_ops zero__host_device_ops;

/*
 * As close() begins: drops what has not started, and returns when running pieces and functions have
 * ended. From then on nothing uses memory, and only what ends something is called.
 */
void zero__host_device_stop(struct zero_device *dev);

/*
 * Test mode, switched on before the first stream: half of all operations start late, by up to
 * max_delay_us (0: none) drawn from seed, and accesses that nothing orders are found. Every launch
 * and copy counts with what it reads and writes; what functions given to call(), transports and the
 * application do counts as far as touch() tells. Order comes from streams and events, not from
 * wait_value(); that the host waited for something before it went on counts only when it is told
 * so, by stream_wait() on the stream that stands for the host. What is found does not depend on
 * timing. At most 96 streams; this mode allocates.
 */
int zero__host_test_mode(struct zero_device *dev, uint64_t seed, uint32_t max_delay_us);

/*
 * Number of different races found so far (64 at most), each with a line in text that names both
 * accesses, their streams and the bytes; text may be NULL with n 0.
 */
int zero__host_races(struct zero_device *dev, char *text, size_t n);

/* Entries that the detector keeps, for tests that it does not grow with time. */
uint64_t zero__host_race_size(struct zero_device *dev);

#endif
