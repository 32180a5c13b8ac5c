/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body as text, a line per op: its index, queue and ordinal, kind, unit, what it reads (<) and
 * writes (>), and the ops it waits for, of this body or of the update before it. Buffers are named
 * class:segment; transient ones carry their place. The text is stable: tests compare it with golden
 * files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "schedule/program.h"

static void access_dump(FILE *f, const struct zero__model *m, const struct zero__states *s,
                        const struct zero__body *b, const struct zero__access *x)
{
    const struct zero__buffer *g = zero__buffer_of(s, b, x->buffer);

    fprintf(f, " %c%s", x->write ? '>' : '<', zero__class_name(g->memory_class));
    if (g->declared != ZERO_NONE)
        fprintf(f, ":%s", m->buffers[g->declared].name);
    else if (x->segment != ZERO_NONE)
        fprintf(f, ":%u", x->segment);
    if (g->tier != ZERO__T_DEVICE)
        fprintf(f, "/%s", zero__tier_name(g->tier));
    if (g->transient)
        fprintf(f, "@%" PRIu64, g->offset);
    if (x->bytes)
        fprintf(f, "[%" PRIu64 "+%" PRIu64 "]", x->off, x->bytes);
}

int zero__body_dump(const struct zero__model *m, const struct zero__states *s,
                    const struct zero__body *b, FILE *f)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        fprintf(f, "%4u %s", i, zero__queue_name(op->queue));
        if (op->ordinal)
            fprintf(f, "#%u", op->ordinal);
        fprintf(f, " %s", zero__op_name(op->kind));
        if (op->unit != ZERO_NONE)
            fprintf(f, " %s", m->units[op->unit].name);
        if (op->kind == ZERO__COMPUTE)
            fprintf(f, " %s%s%s", zero__pass_name(op->pass),
                    op->flags & ZERO__OP_FIRST ? " first" : "",
                    op->flags & ZERO__OP_LAST ? " last" : "");
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++)
            access_dump(f, m, s, b, &b->accesses[a]);
        for (uint32_t w = op->first_wait; w < op->first_wait + op->n_waits; w++)
            fprintf(f, " | %s%s#%u", b->waits[w].behind ? "update " : "",
                    zero__queue_name(b->waits[w].queue), b->waits[w].ordinal);
        if (op->wire_bytes)
            fprintf(f, " | wire %" PRIu64, op->wire_bytes);
        fputc('\n', f);
    }
    return ferror(f) ? -EIO : 0;
}
