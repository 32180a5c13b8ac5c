/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site of a rank: everything that stays as it is while ops run. The engine fills it in at
 * create and commit, placement (core/place/) adds the tiers and their memory; both change it later
 * only between steps, with nothing in flight. The rooms that run a step get it `const`.
 */
#ifndef ZERO_SITE_SITE_H
#define ZERO_SITE_SITE_H

#include <zero/comm.h>
#include <zero/device.h>
#include <zero/offload.h>
#include <zero/zero.h>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/options.h"
#include "job/job.h"
#include "plugin/loader.h"
#include "schedule/program.h"

/* A range of a tier that was reserved as one. */
struct zero__slab {
    uint8_t *base;
    uint64_t bytes;
    struct zero_mr *mr;
    int from_comm; /* the transport's context allocated it */
    int pinned;    /* host memory that is registered with the device */
};
/* Numbers of the device tier's slabs; zero__slab() numbers those of all tiers. */
enum { ZERO__SLAB_STATES, ZERO__SLAB_TRANSIENTS };

/* A tier that an offload plugin serves. The device tier has a name and no plugin. */
struct zero__tier_store {
    const char *name; /* of the plugin; NULL: nothing lies in this tier */
    struct zero_offload_ops ops;
    struct zero_store *store;
    struct zero_store_info info;
    struct zero_mr *mr; /* disk: registration of the cpu slab from mr_first on */
    uint64_t mr_first;  /* bytes of the cpu slab before it are never a target of I/O */
};

struct zero__site {
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    struct zero__job *job;
    int rank, ranks, local_ranks;
    int64_t timeout_ns;
    struct zero__memory_limit limit;

    struct zero__model model;
    struct zero__recipe recipe;
    struct zero__states states;
    struct zero__program *programs[2]; /* the one that runs, and the one before it */
    uint32_t optimizer;                /* enum zero__optimizer */
    zero_optimizer_fn callback;
    void *callback_arg;

    struct zero_device_ops dev_ops;
    struct zero_device *dev;
    char device_name[80];     /* as ZERO_DEVICE says it */
    uint32_t device_mem;      /* enum zero_mem: the kind of the device's memory */
    uint32_t device_kernels;  /* mask of enum zero_kernel */
    char device_pci[16];      /* PCI address; "": unknown, or the device has none */
    uint32_t device_sharers;  /* ranks that use the same device, as far as this rank can tell */
    uint32_t memory_nodes;    /* a bit for each memory node that ranks of any host may run on */
    struct zero_device *host; /* the host device, which updates states in host memory; NULL: the
                               * training device is the host, and updates them itself */
    struct zero_comm_ops comm_ops;
    struct zero_comm_ctx *ctx;
    const char *comm_name;
    struct zero_comm_caps caps;

    struct zero__slab slabs[ZERO__N_SLABS];
    struct zero__tier_store tiers[ZERO__N_TIERS];
    uint8_t **mapped; /* by segment: its parameters, all ranks' shards side by side; or NULL */
};

/* Host instructions can read and write the device's memory. */
static inline int zero__device_is_host(const struct zero__site *site)
{
    return site->device_mem == ZERO_MEM_HOST;
}

/* Bytes of the largest request to a store, in whole pages: at least one, see place/tiers.c. */
static inline uint64_t zero__io_most(const struct zero_store_info *info)
{
    return info->max_io - info->max_io % ZERO_BUFFER_ALIGN;
}

/* ---- address.c */

/* Address of bytes of a buffer, which is a home or a transient of the body. */
uint8_t *zero__address(const struct zero__site *site, const struct zero__body *b, uint32_t buffer,
                       uint64_t off);
/* Address of bytes of a home in memory; homes on the disk have none. */
uint8_t *zero__home_address(const struct zero__site *site, uint32_t id, uint64_t off);
/* Address of a segment's whole parameters, which lie in `buffer` or are mapped. */
uint8_t *zero__param_address(const struct zero__site *site, const struct zero__body *b,
                             uint32_t segment, uint32_t buffer);
/* A range of a slab, as collectives name it. */
struct zero_slice zero__slice(const struct zero__site *site, uint32_t slab, uint64_t off,
                              uint64_t len);
/* Offset of a buffer of the cpu tier in the memory that is registered with the disk's store. */
uint64_t zero__registered_offset(const struct zero__site *site, const struct zero__buffer *f);

/* ---- ranks.c */

/*
 * Collective: gathers `bytes` from every rank over the control channel. Returns the ranks' values
 * one behind the other, for the caller to free; or NULL with the error in *err.
 */
void *zero__ranks_ask(const struct zero__site *site, const void *mine, uint32_t bytes, int *err);
/*
 * Ranks that the oldest collective of a communicator waits for, `max` at most. Numbers from the
 * plugin that are no ranks are dropped.
 */
int zero__ranks_missing(const struct zero__site *site, struct zero_comm *comm, int32_t *whom,
                        uint32_t max);

#endif
