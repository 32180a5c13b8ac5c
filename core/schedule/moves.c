/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/moves.h"

void zero__moves_add(const struct zero__states *s, struct zero__moves *moves,
                     const struct zero__move *x)
{
    if (zero__tier_of(s, x->home) == ZERO__T_DEVICE)
        return;
    moves->host[moves->n] = ZERO_NONE;
    moves->list[moves->n++] = *x;
}

uint32_t zero__host_buffer(struct zero__body *b, uint32_t memory_class, uint32_t segment,
                           uint64_t bytes)
{
    uint32_t id = zero__body_buffer(b, memory_class, segment, ZERO_NONE, bytes);

    zero__body_at(b, id)->tier = ZERO__T_CPU;
    return id;
}

/* Bytes of the home in front of the move, in its first page. */
static uint64_t head_of(const struct zero__move *x)
{
    return x->home_off % ZERO_BUFFER_ALIGN;
}

static uint64_t pages_of(const struct zero__move *x)
{
    return zero__whole_pages(head_of(x) + x->bytes);
}

/* Transients for what passes through the host. Returns how many. */
static uint32_t host_open(const struct zero__states *s, struct zero__moves *moves,
                          struct zero__body *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < moves->n; i++) {
        const struct zero__move *x = &moves->list[i];
        int is_param = s->buffers[x->home].memory_class == ZERO_CLASS_PARAMETERS;
        if (zero__tier_of(s, x->home) != ZERO__T_DISK)
            continue;
        moves->host[i] = zero__host_buffer(b, is_param ? ZERO_CLASS_GATHERED : ZERO_CLASS_BUCKETS,
                                           x->segment, pages_of(x));
        n++;
    }
    return n;
}

/* The op between the disk and the host. */
static void disk_op(struct zero__moves *moves, int fetches, struct zero__body *b)
{
    struct zero__op op = {.kind = fetches ? ZERO__FETCH : ZERO__WRITEBACK,
                          .queue = fetches ? ZERO__Q_FETCH : ZERO__Q_WRITEBACK,
                          .flags = (uint8_t)(fetches ? moves->flags : 0),
                          .unit = moves->unit};

    zero__body_op(b, &op);
    for (uint32_t i = 0; i < moves->n; i++) {
        const struct zero__move *x = &moves->list[i];
        uint64_t off = x->home_off - head_of(x), bytes = pages_of(x);
        if (moves->host[i] == ZERO_NONE)
            continue;
        if (fetches)
            zero__body_pair(b, x->segment, x->home, off, bytes, moves->host[i], 0, bytes);
        else
            zero__body_pair(b, x->segment, moves->host[i], 0, bytes, x->home, off, bytes);
    }
}

static void copy_op(uint32_t queue, const struct zero__moves *moves, struct zero__body *b)
{
    struct zero__op op = {.kind = ZERO__COPY,
                          .queue = (uint8_t)queue,
                          .flags = (uint8_t)(queue == ZERO__Q_LOAD ? moves->flags : 0),
                          .unit = moves->unit};

    zero__body_op(b, &op);
}

void zero__moves_load(const struct zero__states *s, struct zero__moves *moves, struct zero__body *b)
{
    uint32_t began = b->n_ops, marked;

    if (!moves->n)
        return;
    if (host_open(s, moves, b))
        disk_op(moves, 1, b);
    copy_op(ZERO__Q_LOAD, moves, b);
    for (uint32_t i = 0; i < moves->n; i++) {
        const struct zero__move *x = &moves->list[i];
        struct zero__buffer *to = zero__body_at(b, x->buffer);
        int is_home = moves->host[i] == ZERO_NONE;
        if (to->first == began)
            to->first = b->n_ops - 1;
        zero__body_pair(b, x->segment, is_home ? x->home : moves->host[i],
                        is_home ? x->home_off : head_of(x), x->bytes, x->buffer, x->buffer_off,
                        x->bytes);
    }
    marked = b->n_ops;
    zero__moves_free(moves, &marked, b);
}

void zero__moves_store(const struct zero__states *s, struct zero__moves *moves,
                       struct zero__body *b)
{
    uint32_t n;

    if (!moves->n)
        return;
    n = host_open(s, moves, b);
    copy_op(ZERO__Q_STORE, moves, b);
    for (uint32_t i = 0; i < moves->n; i++) {
        const struct zero__move *x = &moves->list[i];
        const struct zero__buffer *from = zero__body_at(b, x->buffer);
        int is_home = moves->host[i] == ZERO_NONE;
        uint64_t off = x->buffer_off - (is_home ? 0 : head_of(x)), bytes = x->bytes;
        if (!is_home)
            bytes = from->bytes - off < pages_of(x) ? from->bytes - off : pages_of(x);
        zero__body_pair(b, x->segment, x->buffer, off, bytes, is_home ? x->home : moves->host[i],
                        is_home ? x->home_off : 0, bytes);
    }
    if (n)
        disk_op(moves, 0, b);
}

void zero__moves_free(struct zero__moves *moves, uint32_t *marked, struct zero__body *b)
{
    for (uint32_t i = 0; i < moves->n; i++) {
        if (moves->host[i] != ZERO_NONE)
            zero__body_end(b, marked, moves->unit, moves->host[i]);
        moves->host[i] = ZERO_NONE;
    }
}
