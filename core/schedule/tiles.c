/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tile is a run of elements of the rank's part of one segment. Where its operands are:
 *
 *   on the device        used where they are, if its memory is the host's
 *   in the host's memory used where they are
 *   on the disk          fetched, and what has changed is written back
 *
 * Where the device has memory of its own (host_updates), tiles are updated by the host, in the
 * memory that they lie in (ZeRO-Offload, USENIX ATC 2021, section 3: gradients down, 16-bit
 * parameters up). Gradients are copied to the host, and parameters, too, and back: a step that is
 * skipped and the gaps between parameters leave them as they were, and they may be their own master
 * copy. The copies to the host run some tiles ahead, and those back behind, each in a queue of its
 * own, and the step's scalars are copied once.
 *
 * A tile's operands lie in slots: transients of the host that end with the tile, or pass on to the
 * next tile of equal size. So the memory planner sees one buffer for a slot, not one for each tile
 * that uses it, and the link pass makes the fetch of a tile wait for the tile that had the slot
 * before, because they share bytes.
 */
#include "schedule/tiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/moves.h"

enum { MASTER, MOMENTUM, VARIANCE, PARAM, GRAD, N_OPERANDS, N_STATES = PARAM };

struct tile {
    uint32_t unit, segment;
    uint64_t first, count;
    uint32_t host[N_OPERANDS]; /* slots, transients of the host; ZERO_NONE: it has none */
};

struct zero__tiles {
    const struct zero__model *m;
    const struct zero__recipe *r;
    const struct zero__states *s;
    const struct zero__brought *brought;
    struct tile *list;
    uint32_t given[N_OPERANDS]; /* the slot that was last given back; ZERO_NONE: it is in use */
    uint32_t n, capacity, fetched, downloaded, updated;
    uint8_t queue;    /* of updates */
    uint32_t scalars; /* that updates read; ZERO_NONE: not yet on the host */
};

static const struct {
    uint8_t memory_class, role;
} operands[N_OPERANDS] = {
    {ZERO_CLASS_MASTER, ZERO__R_MASTER},     {ZERO_CLASS_MOMENTUM, ZERO__R_MOMENTUM},
    {ZERO_CLASS_VARIANCE, ZERO__R_VARIANCE}, {ZERO_CLASS_PARAMETERS, ZERO__R_PARAM},
    {ZERO_CLASS_GRADIENTS, ZERO__R_GRAD},
};
/* In which an update's op names them. */
static const uint32_t order[N_OPERANDS] = {GRAD, PARAM, MASTER, MOMENTUM, VARIANCE};

static uint32_t state_home(const struct zero__states *s, uint32_t segment, uint32_t k)
{
    const struct zero__home *h = &s->homes[segment];
    const uint32_t ids[N_STATES] = {h->master, h->momentum, h->variance};

    return ids[k];
}

uint32_t zero__optimizer_tier(const struct zero__states *s, uint32_t segment)
{
    for (uint32_t k = 0; k < N_STATES; k++)
        if (state_home(s, segment, k) != ZERO_NONE)
            return s->buffers[state_home(s, segment, k)].tier;
    return ZERO__T_DEVICE;
}

/* Where a tile's operand lies: in its home, or where the update body has brought it. */
struct place {
    uint32_t id, tier; /* id: ZERO_NONE where there is no such operand */
    uint64_t off, bytes;
};

/* The tile's part of a buffer in which the rank's part begins at `first`. */
static struct place part_of(const struct tile *x, uint32_t id, uint32_t tier, uint64_t first,
                            uint64_t size)
{
    return (struct place){
        .id = id, .tier = tier, .off = first + x->first * size, .bytes = x->count * size};
}

static struct place param_of(const struct zero__tiles *t, const struct tile *x)
{
    const struct zero__part param = zero__parameter_of(t->m, t->r, t->s, x->segment);
    const uint64_t size = zero_dtype_bytes(t->m->segments[x->segment].dtype);
    const uint32_t brought = t->brought[x->segment].param;

    return brought == ZERO_NONE
               ? part_of(x, param.home, zero__tier_of(t->s, param.home), param.own_off, size)
               : part_of(x, brought, ZERO__T_DEVICE, param.own_off, size);
}

static struct place grad_of(const struct zero__tiles *t, const struct tile *x)
{
    const struct zero__gradient grad = zero__gradient_of(t->m, t->r, t->s, x->segment);
    const struct zero__brought *at = &t->brought[x->segment];

    return at->grad == ZERO_NONE
               ? part_of(x, grad.home, zero__tier_of(t->s, grad.home), grad.used_off, grad.size)
               : part_of(x, at->grad, ZERO__T_DEVICE, at->grad_off, grad.size);
}

static struct place place_of(const struct zero__tiles *t, const struct tile *x, uint32_t k)
{
    const uint64_t size =
        k == MASTER ? t->s->homes[x->segment].master_bytes : zero__moment_bytes(t->r);
    uint32_t id;

    if (k == PARAM)
        return param_of(t, x);
    if (k == GRAD)
        return grad_of(t, x);
    id = state_home(t->s, x->segment, k);
    return part_of(x, id, zero__tier_of(t->s, id), 0, size);
}

/* Of an operand on the disk whole pages are moved. */
static uint64_t head_of(const struct place *p)
{
    return p->off % ZERO_BUFFER_ALIGN;
}

static int is_fetched(const struct place *p)
{
    return p->id != ZERO_NONE && p->tier == ZERO__T_DISK;
}

static int segment_cut(struct zero__tiles *t, uint32_t unit, uint32_t segment)
{
    const struct zero__segment *g = &t->m->segments[segment];
    uint64_t count = t->s->homes[segment].state_whole ? g->padded : g->shard;

    for (uint64_t first = 0; first < count; first += t->r->tile) {
        uint64_t n = count - first < t->r->tile ? count - first : t->r->tile;
        if (zero__grow(&t->list, &t->capacity, t->n, sizeof *t->list))
            return zero__fail(-ENOMEM, "no memory for %u tiles", t->n);
        t->list[t->n++] = (struct tile){
            unit, segment, first, n, {ZERO_NONE, ZERO_NONE, ZERO_NONE, ZERO_NONE, ZERO_NONE}};
    }
    return 0;
}

int zero__tiles_create(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, const struct zero__brought *brought,
                       const uint32_t *units, uint32_t n_units, int early,
                       struct zero__tiles **out)
{
    struct zero__tiles *t = calloc(1, sizeof *t);
    int err = 0;

    if (!t)
        return zero__fail(-ENOMEM, "no memory for a step program");
    *t = (struct zero__tiles){.m = m, .r = r, .s = s, .brought = brought, .scalars = s->scalars};
    t->queue = early ? ZERO__Q_UPDATE : ZERO__Q_CPU;
    if (r->host_updates) {
        t->queue = ZERO__Q_HOST;
        t->scalars = ZERO_NONE;
    }
    memset(t->given, 0xff, sizeof t->given);
    for (uint32_t k = 0; k < n_units; k++) {
        uint32_t unit = units ? units[k] : k;
        FOR_TRAINABLE (m, unit, i)
            if (!err && zero__optimizer_tier(s, i) != ZERO__T_DEVICE &&
                s->homes[i].early == (uint32_t)early)
                err = segment_cut(t, unit, i);
    }
    if (err || !t->n) {
        zero__tiles_free(t);
        t = NULL;
    }
    if (!err)
        *out = t;
    return err;
}

void zero__tiles_free(struct zero__tiles *t)
{
    if (t)
        free(t->list);
    free(t);
}

/* An op that moves bytes: pairs of what is read and what is written follow. */
static void move_op(struct zero__body *b, uint32_t kind, uint32_t queue, uint32_t unit)
{
    struct zero__op op = {.kind = (uint8_t)kind,
                          .queue = (uint8_t)queue,
                          .unit = unit,
                          .flags = ZERO__OP_TILE};

    zero__body_op(b, &op);
}

/* Nothing has ended since the transient did: if it goes on, no moment is fuller for that. */
static int just_ended(const struct zero__body *b, const struct zero__buffer *f)
{
    uint32_t i = f->last + 1;

    while (i < b->n_ops && b->ops[i].kind != ZERO__FREE)
        i++;
    return i >= b->n_ops;
}

/* A slot for an operand of a tile: the last one that was given back, or a new one. */
static uint32_t slot_take(struct zero__tiles *t, const struct tile *x, uint32_t k, uint64_t bytes,
                          struct zero__body *b)
{
    const uint32_t given = t->given[k];

    t->given[k] = ZERO_NONE;
    if (given != ZERO_NONE) {
        struct zero__buffer *f = zero__body_at(b, given);
        if (f->bytes == bytes && just_ended(b, f)) {
            f->segment = x->segment;
            return given;
        }
    }
    return zero__host_buffer(b, operands[k].memory_class, x->segment, bytes);
}

static void slots_give(struct zero__tiles *t, const struct tile *x, struct zero__body *b)
{
    uint32_t marked = b->n_ops;

    for (uint32_t i = 0; i < N_OPERANDS; i++) {
        uint32_t k = order[i];
        if (x->host[k] == ZERO_NONE)
            continue;
        zero__body_end(b, &marked, x->unit, x->host[k]);
        t->given[k] = x->host[k];
    }
}

static void fetch(struct zero__tiles *t, struct tile *x, struct zero__body *b)
{
    int n = 0;

    /* Buffers live from this op on, so they come before it. */
    for (uint32_t k = 0; k < N_OPERANDS; k++) {
        struct place p = place_of(t, x, k);
        if (!is_fetched(&p))
            continue;
        x->host[k] = slot_take(
            t, x, k, k < N_STATES ? p.bytes : zero__whole_pages(head_of(&p) + p.bytes), b);
        n++;
    }
    if (!n)
        return;
    move_op(b, ZERO__FETCH, ZERO__Q_FETCH, x->unit);
    for (uint32_t k = 0; k < N_OPERANDS; k++) {
        struct place p = place_of(t, x, k);
        uint64_t head = head_of(&p), bytes = head + p.bytes;
        if (is_fetched(&p))
            zero__body_pair(b, x->segment, p.id, p.off - head, bytes, x->host[k], 0, bytes);
    }
}

static void fetch_up_to(struct zero__tiles *t, uint32_t n, struct zero__body *b)
{
    while (t->fetched < n && t->fetched < t->n)
        fetch(t, &t->list[t->fetched++], b);
}

/* What has changed; it begins at a page. */
static void writeback(const struct zero__tiles *t, const struct tile *x, struct zero__body *b)
{
    int n = 0;

    for (uint32_t k = 0; k < GRAD; k++) {
        struct place p = place_of(t, x, k);
        if (!is_fetched(&p))
            continue;
        if (n++ == 0)
            move_op(b, ZERO__WRITEBACK, ZERO__Q_WRITEBACK, x->unit);
        zero__body_pair(b, x->segment, x->host[k], 0, p.bytes, p.id, p.off, p.bytes);
    }
}

static void update_op(const struct zero__tiles *t, const struct tile *x, struct zero__body *b)
{
    struct zero__op op = {.kind = ZERO__UPDATE,
                          .queue = t->queue,
                          .unit = x->unit,
                          .flags = ZERO__OP_TILE,
                          .first = x->first};

    zero__body_op(b, &op);
    zero__body_access(b, t->scalars, ZERO_NONE, ZERO__R_SRC, 0, 0, sizeof(struct zero_scalars));
    for (uint32_t i = 0; i < N_OPERANDS; i++) {
        uint32_t k = order[i];
        struct place p = place_of(t, x, k);
        if (p.id == ZERO_NONE)
            continue;
        if (x->host[k] != ZERO_NONE)
            p = (struct place){
                .id = x->host[k], .off = is_fetched(&p) ? head_of(&p) : 0, .bytes = p.bytes};
        zero__body_access(b, p.id, x->segment, operands[k].role, k != GRAD, p.off, p.bytes);
    }
}

/* What lies on the device: copied to the host that updates it, or the parameters back. */
static void copy(struct zero__tiles *t, struct tile *x, int back, struct zero__body *b)
{
    struct place param = param_of(t, x), grad = grad_of(t, x);
    int copies_param = param.tier == ZERO__T_DEVICE;
    int copies_grad = grad.tier == ZERO__T_DEVICE && !back;

    if (!t->r->host_updates || (!copies_param && !copies_grad))
        return;
    if (copies_grad)
        x->host[GRAD] = slot_take(t, x, GRAD, grad.bytes, b);
    if (copies_param && !back)
        x->host[PARAM] = slot_take(t, x, PARAM, param.bytes, b);
    move_op(b, ZERO__COPY, back ? ZERO__Q_RETURN : ZERO__Q_STORE, x->unit);
    if (copies_grad)
        zero__body_pair(b, x->segment, grad.id, grad.off, grad.bytes, x->host[GRAD], 0, grad.bytes);
    if (copies_param && !back)
        zero__body_pair(b, x->segment, param.id, param.off, param.bytes, x->host[PARAM], 0,
                        param.bytes);
    if (copies_param && back)
        zero__body_pair(b, x->segment, x->host[PARAM], 0, param.bytes, param.id, param.off,
                        param.bytes);
}

/* The gradient is reduced, and what has to be brought to the device is there. */
static int is_ready(const struct zero__tiles *t, const struct tile *x)
{
    const struct zero__brought *at = &t->brought[x->segment];

    return at->param != ZERO__TO_BRING && at->grad != ZERO__TO_BRING;
}

static void download_up_to(struct zero__tiles *t, uint32_t n, struct zero__body *b)
{
    while (t->downloaded < n && t->downloaded < t->n &&
           (t->downloaded == t->updated || is_ready(t, &t->list[t->downloaded])))
        copy(t, &t->list[t->downloaded++], 0, b);
}

/* The step's scalars, which the device has made, where the host can read them. */
static void scalars_open(struct zero__tiles *t, struct zero__body *b)
{
    const uint64_t bytes = sizeof(struct zero_scalars);

    if (t->scalars != ZERO_NONE)
        return;
    t->scalars = zero__host_buffer(b, ZERO_CLASS_OTHER, ZERO_NONE, bytes);
    move_op(b, ZERO__COPY, ZERO__Q_STORE, ZERO_NONE);
    zero__body_pair(b, ZERO_NONE, t->s->scalars, 0, bytes, t->scalars, 0, bytes);
}

static void scalars_close(const struct zero__tiles *t, struct zero__body *b)
{
    uint32_t marked = b->n_ops;

    if (t->scalars != t->s->scalars && t->updated == t->n)
        zero__body_end(b, &marked, ZERO_NONE, t->scalars);
}

static void update(struct zero__tiles *t, struct tile *x, struct zero__body *b)
{
    update_op(t, x, b);
    copy(t, x, 1, b);
    writeback(t, x, b);
    slots_give(t, x, b);
}

void zero__tiles_begin(struct zero__tiles *t, struct zero__body *b)
{
    if (t)
        fetch_up_to(t, t->r->tiles, b);
}

void zero__tiles_update(struct zero__tiles *t, uint32_t unit, struct zero__body *b)
{
    while (t && t->updated < t->n && t->list[t->updated].unit == unit) {
        scalars_open(t, b);
        download_up_to(t, t->updated + 1 + t->r->tiles, b);
        update(t, &t->list[t->updated], b);
        t->updated++;
        fetch_up_to(t, t->updated + t->r->tiles, b); /* into the place that has become free */
        scalars_close(t, b);
    }
}
