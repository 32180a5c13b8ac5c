/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden programs: the text of every body of a small fixed model, for each stage and for what
 * changes a program, against tests/data/golden/NAME.txt. After a wanted change of the passes
 *
 *     ZERO_TEST_REGENERATE=1 make check TESTS=tests/unit/golden
 *
 * writes the files anew, and `git diff tests/data/golden` shows what the change does to a step.
 */
#include "../tap.h"

#include "base/status.h"
#include "program_check.h"
#include "schedule/program.h"

enum {
    TIED = 1 << 0,       /* the embedding is used again as the last layer */
    PERSISTENT = 1 << 1, /* the blocks' small parameters stay whole */
    RECOMPUTE = 1 << 2,  /* blocks run forward again in front of their backward */
    SMALL_BUCKETS = 1 << 3,
    NO_PREFETCH = 1 << 4,
    RETAIN = 1 << 5,
    ACTIVATIONS = 1 << 6, /* the blocks' are activations, not buffers */
    HALVES = 1 << 7,      /* masters in two halves, moments in bf16 */
    EARLY = 1 << 8,       /* updates beside the backward pass */
    BY_HOST = 1 << 9,     /* which updates states outside a device with memory of its own */
    MAPPED = 1 << 10,     /* shards side by side: nothing is gathered */
};

struct golden {
    const char *name;
    uint32_t stage, ranks, rank, accum, boundary, flags;
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
};

static const struct golden table[] = {
    {"stage0", 0, 2, 0, 1, 1, 0, {{0}}},
    {"stage1", 1, 2, 0, 1, 1, 0, {{0}}},
    {"stage2", 2, 2, 0, 1, 0, 0, {{0}}},
    {"stage3", 3, 2, 0, 1, 0, 0, {{0}}},
    {"stage3-rank1", 3, 2, 1, 1, 0, 0, {{0}}},
    {"stage3-mapped", 3, 2, 0, 1, 0, MAPPED, {{0}}},
    {"stage3-alone", 3, 1, 0, 1, 0, 0, {{0}}},
    {"stage0-accum3-boundary", 0, 2, 0, 3, 1, 0, {{0}}},
    {"stage1-accum3-micro", 1, 2, 0, 3, 0, 0, {{0}}},
    {"stage2-accum3-boundary", 2, 2, 0, 3, 1, 0, {{0}}},
    {"stage3-accum3-micro", 3, 2, 0, 3, 0, 0, {{0}}},
    {"stage1-tied", 1, 2, 0, 1, 1, TIED, {{0}}},
    {"stage3-tied", 3, 2, 0, 1, 0, TIED, {{0}}},
    {"stage3-tied-retain", 3, 2, 0, 1, 0, TIED | RETAIN, {{0}}},
    {"stage3-persistent", 3, 2, 0, 1, 0, PERSISTENT, {{0}}},
    {"stage3-recompute", 3, 2, 0, 1, 0, RECOMPUTE, {{0}}},
    {"stage2-small-buckets", 2, 2, 0, 1, 0, SMALL_BUCKETS, {{0}}},
    {"stage3-no-prefetch", 3, 2, 0, 1, 0, NO_PREFETCH, {{0}}},
    {"stage2-optimizer-cpu", 2, 2, 1, 1, 0, 0, {[ZERO__P_OPTIMIZER] = {0, 1000, 0}}},
    {"stage3-optimizer-disk", 3, 2, 0, 1, 0, 0, {[ZERO__P_OPTIMIZER] = {0, 0, 1000}}},
    {"stage1-optimizer-disk-halves", 1, 2, 1, 1, 1, HALVES, {[ZERO__P_OPTIMIZER] = {0, 0, 1000}}},
    {"stage1-optimizer-split", 1, 2, 0, 3, 1, 0, {[ZERO__P_OPTIMIZER] = {300, 300, 400}}},
    {"stage3-parameters-disk", 3, 2, 1, 1, 0, 0, {[ZERO__P_PARAMETERS] = {0, 0, 1000}}},
    {"stage1-parameters-cpu",
     1,
     2,
     0,
     1,
     1,
     0,
     {[ZERO__P_PARAMETERS] = {0, 1000, 0}, [ZERO__P_OPTIMIZER] = {0, 1000, 0}}},
    {"stage3-update-backward", 3, 2, 1, 1, 0, EARLY, {[ZERO__P_OPTIMIZER] = {0, 0, 1000}}},
    {"stage1-accum3-update-backward",
     1,
     2,
     0,
     3,
     0,
     EARLY,
     {[ZERO__P_PARAMETERS] = {0, 1000, 0},
      [ZERO__P_GRADIENTS] = {0, 1000, 0},
      [ZERO__P_OPTIMIZER] = {300, 700, 0}}},
    {"stage2-optimizer-cpu-by-host", 2, 2, 1, 1, 0, BY_HOST, {[ZERO__P_OPTIMIZER] = {0, 1000, 0}}},
    {"stage3-update-backward-by-host",
     3,
     2,
     1,
     1,
     0,
     EARLY | BY_HOST | HALVES,
     {[ZERO__P_OPTIMIZER] = {0, 500, 500}}},
    {"stage2-gradients-disk",
     2,
     2,
     1,
     1,
     0,
     0,
     {[ZERO__P_GRADIENTS] = {0, 0, 1000}, [ZERO__P_OPTIMIZER] = {0, 0, 1000}}},
    {"stage0-accum3-gradients-cpu", 0, 2, 0, 3, 0, 0, {[ZERO__P_GRADIENTS] = {0, 1000, 0}}},
    {"stage1-accum3-gradients-disk", 1, 2, 1, 3, 1, 0, {[ZERO__P_GRADIENTS] = {0, 0, 1000}}},
    {"stage2-activations-device", 2, 2, 0, 1, 0, ACTIVATIONS, {{0}}},
    {"stage2-activations-cpu", 2, 2, 0, 1, 0, ACTIVATIONS, {[ZERO__P_ACTIVATIONS] = {0, 1000, 0}}},
    {"stage3-activations-disk", 3, 2, 0, 1, 0, ACTIVATIONS, {[ZERO__P_ACTIVATIONS] = {0, 0, 1000}}},
    {"stage3-activations-disk-no-prefetch",
     3,
     2,
     1,
     1,
     0,
     ACTIVATIONS | NO_PREFETCH,
     {[ZERO__P_ACTIVATIONS] = {0, 0, 1000}}},
    {"stage1-all-disk",
     1,
     2,
     0,
     3,
     1,
     ACTIVATIONS,
     {[ZERO__P_OPTIMIZER] = {0, 0, 1000}, [ZERO__P_ACTIVATIONS] = {0, 0, 1000}}},
};

#define BLOCKS 3u
#define UNITS (BLOCKS + 2)

static void param_add(struct zero__model *m, uint32_t unit, const char *suffix, uint32_t flags,
                      uint64_t rows, uint64_t columns)
{
    char name[64];
    uint32_t id;

    snprintf(name, sizeof name, "%s.%s", m->units[unit].name, suffix);
    struct zero_param_desc d = {.size = sizeof d,
                                .name = name,
                                .dtype = ZERO_BF16,
                                .n_dims = 2,
                                .dims = {rows, columns},
                                .flags = flags};
    if (zero__model_add_param(m, unit, &d, &id))
        bail(zero__error_text());
}

static void activation_add(struct zero__model *m, const char *name, uint32_t from, uint32_t to)
{
    uint32_t id;
    struct zero_buffer_desc d = {.size = sizeof d,
                                 .name = name,
                                 .bytes = 10000,
                                 .memory_class = ZERO_CLASS_ACTIVATIONS,
                                 .from_unit = from,
                                 .to_unit = to,
                                 .to_pass = ZERO_BACKWARD};
    if (zero__model_add_buffer(m, &d, &id))
        bail(zero__error_text());
}

/* One that may leave the device. */
static void kept_add(struct zero__model *m, const char *name, uint32_t unit)
{
    uint32_t id;
    struct zero_activation_desc d = {.size = sizeof d,
                                     .name = name,
                                     .bytes = 10000,
                                     .from_unit = unit,
                                     .to_unit = unit,
                                     .to_pass = ZERO_BACKWARD};
    if (zero__model_add_activation(m, &d, &id))
        bail(zero__error_text());
}

static void order_set(struct zero__model *m, uint32_t flags)
{
    struct zero_use uses[4 * UNITS];
    uint32_t n = 0;

    for (uint32_t u = 0; u < UNITS; u++)
        uses[n++] = (struct zero_use){u, ZERO_FORWARD};
    if (flags & TIED)
        uses[n++] = (struct zero_use){0, ZERO_FORWARD};
    zero__model_set_order(m, ZERO_EVAL, uses, n);
    if (flags & TIED)
        uses[n++] = (struct zero_use){0, ZERO_BACKWARD};
    for (uint32_t u = UNITS; u-- > 0;) {
        if ((flags & RECOMPUTE) && u >= 1 && u <= BLOCKS)
            uses[n++] = (struct zero_use){u, ZERO_FORWARD};
        uses[n++] = (struct zero_use){u, ZERO_BACKWARD};
    }
    zero__model_set_order(m, ZERO_TRAIN, uses, n);
}

static void model_make(struct zero__model *m, uint32_t flags)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    static const char *const names[UNITS] = {"embed", "block0", "block1", "block2", "norm"};
    uint32_t id;

    zero__model_add_group(m, &g, &id);
    for (uint32_t u = 0; u < UNITS; u++) {
        zero__model_add_unit(m, names[u], &id);
        if (u == 0)
            param_add(m, u, "tokens", 0, 256, 40);
        if (u == 0)
            param_add(m, u, "positions", ZERO_PARAM_FROZEN, 20, 40);
        if (u >= 1 && u <= BLOCKS)
            param_add(m, u, "w", 0, 40, 120);
        if (u >= 1)
            param_add(m, u, "scale", flags & PERSISTENT ? ZERO_PARAM_PERSISTENT : 0, 1, 40);
    }
    for (uint32_t u = 1; u <= BLOCKS; u++)
        if (flags & ACTIVATIONS)
            kept_add(m, names[u], u);
        else
            activation_add(m, names[u], u, u);
    activation_add(m, "logits", UNITS - 1, UNITS - 1);
    order_set(m, flags);
}

/* The bodies as text; the caller frees it. */
static char *program_text(const struct golden *g)
{
    struct zero__model m = {0};
    struct zero__states s = {0};
    struct zero__recipe r = {.stage = g->stage,
                             .ranks = g->ranks,
                             .rank = g->rank,
                             .accum = g->accum,
                             .boundary = g->boundary,
                             .n_moments = 2,
                             .early = (g->flags & EARLY) != 0,
                             .host_updates = (g->flags & BY_HOST) != 0,
                             .halves = (g->flags & HALVES) != 0,
                             .state_dtype = g->flags & HALVES ? ZERO_BF16 : ZERO_F32,
                             .bucket_bytes = g->flags & SMALL_BUCKETS ? 4096 : 1 << 20,
                             .prefetch_bytes = g->flags & NO_PREFETCH ? 0 : 20000,
                             .retain_bytes = g->flags & RETAIN ? 1 << 20 : 0,
                             .map_bytes = g->flags & MAPPED ? 128 : 0,
                             .tile = 2048,
                             .tiles = 3};
    struct zero__layout_params layout = {.ranks = g->ranks};
    struct zero__program *p;
    char *text = NULL;

    size_t bytes;

    memcpy(r.placed, g->placed, sizeof g->placed);
    model_make(&m, g->flags);
    if (zero__layout_build(&m, &layout) || zero__states_build(&m, &r, &s) ||
        zero__program_compile(&m, &r, &s, 0, 1, &p)) /* no search: places that stay as they are */
        bail(zero__error_text());
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        bail("no memory for the text");
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        if (t == ZERO__T_DEVICE || s.bytes[t] || p->transient_bytes[t])
            fprintf(f, "%s%sstates %" PRIu64 " transients %" PRIu64 "\n",
                    t ? zero__tier_name(t) : "", t ? " " : "", s.bytes[t], p->transient_bytes[t]);
    for (uint32_t b = 0; b < ZERO__N_BODIES; b++) {
        if (!p->bodies[b].n_ops)
            continue;
        fprintf(f, "body %s: wire %" PRIu64 "\n", zero__body_name(b), p->bodies[b].wire_bytes);
        zero__body_dump(&m, &s, &p->bodies[b], f);
        is_int(program_check(&s,
                             zero__body_follows(&r, b) ? &p->bodies[ZERO__UPDATE_BODY] : NULL,
                             &p->bodies[b]),
               0, "%s, %s: the checker agrees", g->name, zero__body_name(b));
    }
    fclose(f);
    zero__program_free(p);
    zero__states_free(&s);
    zero__model_free(&m);
    return text;
}

static char *file_read(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = fopen(path, "r");

    if (!f)
        return NULL;
    if (getdelim(&text, &bytes, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

static void first_difference(const char *want, const char *got)
{
    unsigned line = 1;

    while (*want && *got) {
        size_t n = strcspn(want, "\n"), m = strcspn(got, "\n");
        if (n != m || memcmp(want, got, n))
            break;
        want += n + (want[n] == '\n'), got += m + (got[m] == '\n');
        line++;
    }
    diag("line %u", line);
    diag("want: %.*s", (int)strcspn(want, "\n"), want);
    diag("got:  %.*s", (int)strcspn(got, "\n"), got);
}

static void one(const struct golden *g, const char *top, int regenerate)
{
    char path[4096], *got = program_text(g);

    snprintf(path, sizeof path, "%s/tests/data/golden/%s.txt", top, g->name);
    if (regenerate) {
        FILE *f = fopen(path, "w");
        ok(f && fputs(got, f) >= 0 && fclose(f) == 0, "wrote %s", path);
        free(got);
        return;
    }
    char *want = file_read(path);
    if (!ok(want && strcmp(want, got) == 0, "%s is the golden program", g->name)) {
        if (want)
            first_difference(want, got);
        diag("%s; a wanted change: ZERO_TEST_REGENERATE=1", path);
    }
    free(want);
    free(got);
}

int main(void)
{
    const char *top = getenv("ZERO_TEST_TOP"), *regenerate = getenv("ZERO_TEST_REGENERATE");

    if (!top)
        bail("ZERO_TEST_TOP is not set: run this test by make check");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        one(&table[i], top, regenerate && *regenerate);
    done();
}
