/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `shm`; see shm.h for what it is. */
#include "config.h"

#include "shm.h"

#include "../common/entry.h"

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = zero__shm_probe,
    .open = zero__shm_open,
    .close = zero__shm_close,
    .alloc = zero__shm_alloc,
    .free = zero__shm_unreg,
    .reg = zero__shm_reg,
    .unreg = zero__shm_unreg,
    .exchange = zero__shm_exchange,
    .map = zero__shm_map,
    .progress = zero__shm_progress,
    .wake = zero__shm_wake,
    .abort = zero__shm_abort,
    .split = zero__shm_split,
    .post = zero__shm_post,
    .error = zero__shm_error,
    .missing = zero__shm_missing,
    .wire_bytes = zero__shm_wire_bytes,
    .comm_close = zero__shm_comm_close,
    .memory = zero__shm_memory,
};

ZERO__PLUGIN(SHM_NAME, COMM, &ops, __VERSION__)
