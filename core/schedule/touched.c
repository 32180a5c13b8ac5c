/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/touched.h"

#include <errno.h>
#include <stdlib.h>

static int cut_compare(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Counts the borders in each slab; with room for them, writes them down as well. */
static void borders_add(struct zero__touched *t, const struct zero__states *s,
                        const struct zero__body *b, int write)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            struct zero__access x = zero__access_whole(op, &b->accesses[a]);
            const struct zero__buffer *f = zero__buffer_of(s, b, x.buffer);
            uint64_t first = f->offset + x.off;
            size_t *n = &t->slabs[zero__slab_of(f)].n_cuts;
            if (write) {
                t->slabs[zero__slab_of(f)].cuts[*n] = first;
                t->slabs[zero__slab_of(f)].cuts[*n + 1] = first + x.bytes;
            }
            *n += 2;
        }
    }
}

int zero__touched_make(struct zero__touched *t, const struct zero__states *s,
                       const struct zero__body *u, const struct zero__body *b)
{
    *t = (struct zero__touched){0};
    borders_add(t, s, u, 0);
    borders_add(t, s, b, 0);
    for (uint32_t i = 0; i < ZERO__N_SLABS; i++) {
        t->slabs[i].cuts = calloc(t->slabs[i].n_cuts + 1, sizeof *t->slabs[i].cuts);
        if (!t->slabs[i].cuts)
            return -ENOMEM;
        t->slabs[i].n_cuts = 0;
    }
    borders_add(t, s, u, 1);
    borders_add(t, s, b, 1);
    for (uint32_t i = 0; i < ZERO__N_SLABS; i++) {
        uint64_t *cuts = t->slabs[i].cuts;
        size_t n = 0, n_all = t->slabs[i].n_cuts;
        qsort(cuts, n_all, sizeof *cuts, cut_compare);
        for (size_t c = 0; c < n_all; c++)
            if (!n || cuts[c] != cuts[n - 1])
                cuts[n++] = cuts[c];
        t->slabs[i].n_cuts = n;
        t->slabs[i].cells = calloc(n + 1, sizeof *t->slabs[i].cells);
        if (!t->slabs[i].cells)
            return -ENOMEM;
    }
    return 0;
}

void zero__touched_free(struct zero__touched *t)
{
    for (uint32_t i = 0; i < ZERO__N_SLABS; i++) {
        free(t->slabs[i].cuts);
        free(t->slabs[i].cells);
    }
    *t = (struct zero__touched){0};
}

/* The first cell of the access and how many there are; none where it has no bytes. */
static struct zero__cell *cells_of(const struct zero__touched *t, const struct zero__buffer *f,
                                   const struct zero__access *x, size_t *n)
{
    const uint64_t *cuts = t->slabs[zero__slab_of(f)].cuts, first = f->offset + x->off;
    size_t low = 0, high = t->slabs[zero__slab_of(f)].n_cuts;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cuts[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; x->bytes && cuts[low + *n] < first + x->bytes;)
        ++*n;
    return &t->slabs[zero__slab_of(f)].cells[low];
}

void zero__touched_find(const struct zero__touched *t, const struct zero__buffer *f,
                        const struct zero__access *x, uint32_t last[ZERO__N_QUEUES])
{
    size_t n;
    const struct zero__cell *cells = cells_of(t, f, x, &n);

    for (const struct zero__cell *c = cells; c < cells + n; c++) {
        const uint32_t *found = x->write ? c->touched : c->wrote;
        for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
            if (found[q] > last[q])
                last[q] = found[q];
    }
}

void zero__touched_note(struct zero__touched *t, const struct zero__buffer *f,
                        const struct zero__access *x, uint32_t queue, uint32_t ordinal)
{
    size_t n;
    struct zero__cell *cells = cells_of(t, f, x, &n);

    for (struct zero__cell *c = cells; c < cells + n; c++) {
        c->touched[queue] = ordinal;
        if (x->write)
            c->wrote[queue] = ordinal;
    }
}
