/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the plugin `nccl`; see nccl.h for what it is. Not declared: ORDERED (NCCL adds in an
 * order of its own), maxima (NCCL passes over NaNs), fingerprints.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "../common/entry.h"
#include "nccl.h"

static int probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice v = {host, NCCL_NAME};
    struct cuda_library cuda;
    struct nccl_library nccl;
    uint64_t staging_bytes;
    bool registers;
    int err = nccl_settings(&v, &registers, &staging_bytes);

    nccl_path(host); /* now: a listing has them also where there is no driver */
    cuda_path(host);
    if (!err)
        err = cuda_load(host, &cuda);
    if (!err)
        err = nccl_load(host, &nccl);
    if (err)
        return err;
    caps->flags =
        ZERO_COMM_STREAM | ZERO_COMM_ACCUMULATE | ZERO_COMM_NETWORK | ZERO_COMM_LOCAL_ABORT;
    caps->kinds = ZERO__ALL_KINDS;
    caps->redops = 1u << ZERO_SUM;
    caps->dtypes = ZERO__ALL_DTYPES;
    caps->mem = NCCL_MEMORY;
    caps->max_ranks = NCCL_RANKS;
    caps->max_inflight = NCCL_INFLIGHT;
    snprintf(caps->note, sizeof caps->note, "NCCL %d.%d.%d, %d GPU%s", nccl.version / 10000,
             nccl.version / 100 % 100, nccl.version % 100, cuda.n_devices,
             cuda.n_devices == 1 ? "" : "s");
    return 0;
}

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = probe,
    .open = nccl_open,
    .close = nccl_close,
    .reg = nccl_reg,
    .unreg = nccl_unreg,
    .exchange = nccl_exchange,
    .progress = nccl_progress,
    .wake = nccl_wake,
    .abort = nccl_abort,
    .split = nccl_split,
    .post = nccl_post,
    .error = nccl_error,
    .wire_bytes = nccl_wire_bytes,
    .comm_close = nccl_comm_close,
};

ZERO__PLUGIN(NCCL_NAME, COMM, &ops, __VERSION__)
