/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this rank and of its peers. A region is what one exchange made of the ranks'
 * registrations; it has the same number on all of them, so that a rank can say "region 3, byte
 * 4096" and every peer finds it. Only memory of alloc() can be read by peers, so reg() takes parts
 * of it and nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../common/list.h"
#include "shm.h"

static struct zero_mr *mr_add(struct zero_comm_ctx *ctx, struct shm_segment *segment, uint64_t off,
                              uint64_t bytes, bool owns)
{
    struct zero_mr *mr = calloc(1, sizeof *mr);

    if (!mr)
        return NULL;
    mr->segment = segment;
    mr->off = off;
    mr->bytes = bytes;
    mr->owns = owns;
    mr->region = SHM_NO_REGION;
    mr->next = ctx->mrs;
    ctx->mrs = mr;
    return mr;
}

static void maps_drop(struct zero_mr *mr)
{
    while (mr->maps) {
        struct shm_map *map = mr->maps;
        mr->maps = map->next;
        munmap(map->base, map->bytes);
        free(map);
    }
}

static void peers_leave(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    for (int32_t p = 0; mr->peers && p < ctx->ranks; p++)
        if (p != ctx->rank)
            zero__segment_leave(mr->peers[p].segment);
    free(mr->peers);
    mr->peers = NULL;
}

int zero__shm_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    ZERO__UNLINK(&ctx->mrs, mr);
    if (mr->region != SHM_NO_REGION)
        ctx->regions[mr->region] = NULL;
    maps_drop(mr);
    if (mr->segment->device) /* collectives that failed may still be on their streams */
        zero__shm_queues_drain(ctx);
    peers_leave(ctx, mr);
    zero__segment_leave(mr->segment);
    free(mr);
    return 0;
}

static int kind_check(const struct zero_comm_ctx *ctx, const char *call, uint32_t mem)
{
    if (mem == ZERO_MEM_HOST || (ctx->device.takes && mem == ctx->device.mem))
        return 0;
    return zero__say(
        &ctx->voice, -ENOTSUP,
        "%s: memory kind %u, but shm has host memory%s: ask memory() for the kinds", call, mem,
        ctx->device.takes ? " and that of the device" : " only, since no device shares its own");
}

int zero__shm_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                    struct zero_mr **out)
{
    struct shm_segment *segment;
    struct zero_mr *mr;
    int err;

    err = kind_check(ctx, "alloc", mem);
    if (!err)
        err = mem == ZERO_MEM_HOST ? zero__segment_create(&ctx->voice, bytes, &segment)
                                   : zero__device_segment_create(ctx, bytes, &segment);
    if (err)
        return err;
    mr = mr_add(ctx, segment, 0, bytes, true);
    if (!mr) {
        zero__segment_leave(segment);
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    }
    *base = segment->base;
    *out = mr;
    return 0;
}

int zero__shm_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **out)
{
    struct zero_mr *slab, *mr;
    int err = kind_check(ctx, "reg", mem);

    if (err)
        return err;
    for (slab = ctx->mrs; slab; slab = slab->next) {
        uintptr_t first = (uintptr_t)slab->segment->base, p = (uintptr_t)base;
        if (slab->owns && !slab->segment->device == (mem == ZERO_MEM_HOST) && p >= first &&
            p - first <= slab->bytes && bytes <= slab->bytes - (p - first))
            break;
    }
    if (!slab)
        return zero__say(&ctx->voice, -ENOTSUP,
                         "reg: the memory at %p is not from this context's alloc(), so other ranks "
                         "cannot read it: allocate it there",
                         base);
    mr = mr_add(ctx, slab->segment, (uint64_t)((char *)base - slab->segment->base), bytes, false);
    if (!mr)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    atomic_fetch_add(&mr->segment->users, 1);
    *out = mr;
    return 0;
}

/* Joins the memory of every peer, as the notices say; of a device, as it was handed over. */
static int peers_join(struct zero_comm_ctx *ctx, struct zero_mr *mr, const struct shm_notice *all,
                      const struct zero_device_share *shares)
{
    for (int32_t p = 0; p < ctx->ranks; p++) {
        struct shm_peer *peer = &mr->peers[p];
        int err;

        if (p == ctx->rank) {
            *peer = (struct shm_peer){mr->segment, mr->off, mr->bytes};
            continue;
        }
        if (all[p].bytes > INT64_MAX || all[p].off > INT64_MAX)
            return zero__say(&ctx->voice, -EPROTO, "rank %d announced a region of %llu bytes", p,
                             (unsigned long long)all[p].bytes);
        uint64_t end = all[p].off + all[p].bytes;
        err = mr->segment->device
                  ? zero__device_segment_join(ctx, p, &shares[p], end, &peer->segment)
                  : zero__segment_join(&ctx->voice, p, &all[p].memory, end, false, &peer->segment);
        if (err)
            return err;
        peer->off = all[p].off;
        peer->bytes = all[p].bytes;
    }
    return 0;
}

static int regions_grow(struct zero_comm_ctx *ctx)
{
    struct zero_mr **more =
        realloc(ctx->regions, (ctx->n_regions + (size_t)1) * sizeof *ctx->regions);

    if (!more)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a region");
    ctx->regions = more;
    return 0;
}

/* All ranks see all kinds, so that they fail alike. */
static int kinds_compare(const struct zero_comm_ctx *ctx, const struct shm_notice *all)
{
    for (int32_t p = 1; p < ctx->ranks; p++)
        if (all[p].mem != all[0].mem)
            return zero__say(&ctx->voice, -EPROTO,
                             "exchange: rank %d has memory of kind %u, and rank 0 of kind %u: a "
                             "region is of one kind on all ranks",
                             p, all[p].mem, all[0].mem);
    return 0;
}

/* With room for what is found: how peers find this rank's memory. */
static int exchange_prepare(struct zero_comm_ctx *ctx, struct zero_mr *mr, bool room,
                            struct shm_notice *mine, struct zero_device_share *share)
{
    struct shm_device *d = mr->segment->device;
    int err;

    mine->mem = d ? d->mem : ZERO_MEM_HOST;
    if (!room)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for an exchange");
    if (mr->region != SHM_NO_REGION)
        return zero__say(&ctx->voice, -EINVAL, "exchange: this registration was exchanged before");
    err = regions_grow(ctx);
    if (err)
        return err;
    return d ? d->ops->share(d->dev, mr->segment->base, share)
             : zero__segment_address(mr->segment, &mine->memory);
}

/* With the notices of all ranks: their memory. */
static int exchange_join(struct zero_comm_ctx *ctx, struct zero_mr *mr,
                         const struct zero_device_share *share, struct zero_device_share *shares)
{
    int err;

    if (!mr->segment->device)
        return peers_join(ctx, mr, ctx->notices, NULL);
    err = zero__parcels_swap(ctx, ctx->table.turn, share, shares);
    if (err)
        return err;
    err = peers_join(ctx, mr, ctx->notices, shares);
    zero__parcels_close(shares, ctx->ranks);
    return err;
}

int zero__shm_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    struct shm_notice mine = {.call = SHM_CALL_EXCHANGE, .off = mr->off, .bytes = mr->bytes};
    struct shm_peer *peers = calloc((size_t)ctx->ranks, sizeof *peers);
    struct zero_device_share *shares = calloc((size_t)ctx->ranks, sizeof *shares);
    struct zero_device_share share = {.size = sizeof share, .fd = -1};
    int err;

    mine.status = exchange_prepare(ctx, mr, peers && shares, &mine, &share);
    err = zero__board_gather(ctx, &ctx->table, &mine, ctx->notices);
    if (!err)
        err = kinds_compare(ctx, ctx->notices);
    if (err)
        goto end;
    mr->peers = peers;
    peers = NULL;
    mine.status = exchange_join(ctx, mr, &share, shares);
    err = zero__board_gather(ctx, &ctx->table, &mine, ctx->notices);
    if (err) {
        peers_leave(ctx, mr);
        goto end;
    }
    mr->region = ctx->n_regions++;
    ctx->regions[mr->region] = mr;
end:
    zero__parcels_close(&share, 1);
    free(shares);
    free(peers);
    return err;
}

char *zero__region_at(const struct zero_comm_ctx *ctx, uint32_t region, int32_t rank, uint64_t off,
                      uint64_t len)
{
    const struct zero_mr *mr = region < ctx->n_regions ? ctx->regions[region] : NULL;
    const struct shm_peer *peer = mr ? &mr->peers[rank] : NULL;

    if (!peer || off > peer->bytes || len > peer->bytes - off)
        return NULL;
    return peer->segment->base + peer->off + off;
}

bool zero__region_is_elsewhere(const struct zero_comm_ctx *ctx, uint32_t region, bool on_device)
{
    const struct zero_mr *mr = region < ctx->n_regions ? ctx->regions[region] : NULL;

    return mr && !mr->segment->device == on_device;
}

/* Lays the ranks' parts into the reserved range `base`. */
static int map_parts(struct zero_comm_ctx *ctx, const struct zero_mr *mr, uint64_t off,
                     uint64_t len, char *base)
{
    for (int32_t p = 0; p < ctx->ranks; p++) {
        const struct shm_peer *peer = &mr->peers[p];
        int prot = p == ctx->rank ? PROT_READ | PROT_WRITE : PROT_READ;

        if (off > peer->bytes || len > peer->bytes - off)
            return zero__say(&ctx->voice, -ERANGE,
                             "map: bytes %llu + %llu lie outside rank %d's %llu",
                             (unsigned long long)off, (unsigned long long)len, p,
                             (unsigned long long)peer->bytes);
        if (mmap(base + (uint64_t)p * len, len, prot, MAP_SHARED | MAP_FIXED, peer->segment->fd,
                 (off_t)(peer->off + off)) == MAP_FAILED)
            return zero__say(&ctx->voice, -errno, "map: cannot map %llu bytes of rank %d: %m",
                             (unsigned long long)len, p);
    }
    return 0;
}

static int map_make(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                    void **base)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes;
    int err;

    if (mr->region == SHM_NO_REGION)
        return zero__say(&ctx->voice, -EINVAL, "map: the region was not exchanged");
    if (mr->segment->device)
        return zero__say(&ctx->voice, -ENOTSUP, "map: memory of a device lies where that put it");
    if (len == 0 || off % page || len % page || mr->off % page ||
        __builtin_mul_overflow(len, (uint64_t)ctx->ranks, &bytes) || bytes > INT64_MAX)
        return zero__say(&ctx->voice, -EINVAL, "map: bytes %llu + %llu are not whole pages",
                         (unsigned long long)off, (unsigned long long)len);
    *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*base == MAP_FAILED)
        return zero__say(&ctx->voice, -ENOMEM, "map: no room for %llu bytes of addresses",
                         (unsigned long long)bytes);
    err = map_parts(ctx, mr, off, len, *base);
    if (err)
        munmap(*base, bytes);
    return err;
}

int zero__shm_map(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                  void **out)
{
    struct shm_notice mine = {.call = SHM_CALL_MAP, .off = off, .bytes = len};
    struct shm_map *map = calloc(1, sizeof *map);
    int err;

    if (!map)
        mine.status = zero__say(&ctx->voice, -ENOMEM, "no memory for a map");
    else
        mine.status = map_make(ctx, mr, off, len, &map->base);
    err = zero__board_gather(ctx, &ctx->table, &mine, ctx->notices);
    if (map && !mine.status) {
        map->bytes = len * (uint64_t)ctx->ranks;
        map->next = mr->maps;
        mr->maps = map;
        if (!err)
            *out = map->base; /* else it goes with the region */
    } else {
        free(map);
    }
    return err;
}
