/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step on paper: a disk that a step waits for, and one that works beside computing; a fetch that
 * has to wait for its buffer; reads and writes that share the disk.
 */
#include "../tap.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "schedule/simulate.h"

#define UNITS 4
#define MIB (UINT64_C(1) << 20)

struct made {
    struct zero__model m;
    struct zero__states s;
    struct zero__recipe r;
    struct zero__program *p;
    struct zero__costs c;
};

/* Units of 8 MiB of bf16, of which `what` lies on the disk; no moments, nothing else is moved. */
static void make_steps(struct made *x, uint32_t what, uint64_t prefetch, uint32_t early,
                       uint32_t accum)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    struct zero__layout_params l = {1, 0, MIB};
    uint32_t id;

    *x = (struct made){.r = {.stage = 3, .ranks = 1, .accum = accum, .bucket_bytes = 64 * MIB,
                             .prefetch_bytes = prefetch, .retain_bytes = 0, .tile = 1 << 20,
                             .tiles = 4, .early = early, .halves = 1}};
    x->r.placed[what][ZERO__T_DISK] = ZERO__PLACE_PARTS;
    zero__model_add_group(&x->m, &g, &id);
    for (uint32_t u = 0; u < UNITS; u++) {
        char name[16];
        struct zero_param_desc d = {.size = sizeof d, .dtype = ZERO_BF16, .n_dims = 1,
                                    .dims = {4 * MIB}, .name = name};
        snprintf(name, sizeof name, "u%u", u);
        if (zero__model_add_unit(&x->m, name, &id) || zero__model_add_param(&x->m, u, &d, &id))
            bail(zero__error_text());
    }
    zero__model_default_order(&x->m, ZERO_TRAIN);
    zero__model_default_order(&x->m, ZERO_EVAL);
    if (zero__layout_build(&x->m, &l) || zero__states_build(&x->m, &x->r, &x->s) ||
        zero__program_compile(&x->m, &x->r, &x->s, 0, 1, &x->p) ||
        zero__costs_make(x->p, NULL, &x->c))
        bail(zero__error_text());
}

static void make(struct made *x, uint32_t what, uint64_t prefetch, uint32_t early)
{
    make_steps(x, what, prefetch, early, 1);
}

/*
 * Every use computes for so long, kernels take no time, the disk moves so many bytes a second, or
 * so many each way.
 */
static struct zero__simulated run(struct made *x, double use_s, double speed, int duplex)
{
    struct zero__simulated s;

    for (uint32_t k = ZERO__MICRO; k <= ZERO__LAST; k++) {
        const struct zero__body *b = &x->p->bodies[k];
        for (uint32_t i = 0; i < b->n_ops; i++)
            x->c.op_s[k][i] = b->ops[i].kind == ZERO__COMPUTE ? use_s : 0;
    }
    x->c.speeds.read = x->c.speeds.write = speed;
    x->c.speeds.both = duplex ? 2 * speed : speed;
    if (zero__simulate(x->p, &x->r, &x->c, &s))
        bail(zero__error_text());
    return s;
}

static void end(struct made *x)
{
    zero__costs_free(&x->c);
    zero__program_free(x->p);
    zero__states_free(&x->s);
    zero__model_free(&x->m);
}

static int near(double x, double y)
{
    return fabs(x - y) <= 0.02 * y + 1e-9;
}

static void parameters(void)
{
    const double unit_s = 1; /* to fetch one, with 8 MiB a second */
    struct made x;
    struct zero__simulated s;

    /* The first fetch has to wait for what the update has written of its unit, too. */
    make(&x, ZERO__P_PARAMETERS, 0, 0);
    s = run(&x, 1, 8.0 * MIB, 1);
    const double fetches = x.p->bodies[ZERO__LAST].in_queue[ZERO__Q_FETCH];
    ok(fetches >= 2 * UNITS - 1 && near(s.passes_s, 2 * UNITS + (fetches + 1) * unit_s),
       "without prefetching %g fetches are waited for: %g s", fetches, s.passes_s);
    s = run(&x, 1, 0, 1);
    ok(near(s.passes_s, 2 * UNITS), "a disk of unknown speed takes no time: %g s", s.passes_s);
    end(&x);

    make(&x, ZERO__P_PARAMETERS, 64 * MIB, 0);
    s = run(&x, 1, 16.0 * MIB, 1);
    ok(s.passes_s < 2 * UNITS + 2 * unit_s && s.passes_s >= 2 * UNITS,
       "with room to prefetch a faster disk works beside computing: %g s", s.passes_s);
    s = run(&x, 0.001, 8.0 * MIB, 1);
    ok(s.step_s > (2 * UNITS - 1) * unit_s, "a slow one is what a step waits for: %g s", s.step_s);
    end(&x);
}

/* What a body moves to and from the disk; or only of sums that earlier micro-batches have left. */
static double disk_bytes(const struct made *x, uint32_t body, int sums)
{
    const struct zero__body *b = &x->p->bodies[body];
    double bytes = 0;

    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        if ((op->kind != ZERO__FETCH && op->kind != ZERO__WRITEBACK) ||
            (sums && !(op->flags & ZERO__OP_SUMS)))
            continue;
        for (uint32_t k = 0; k < op->n_accesses / 2; k++)
            bytes += (double)zero__whole_pages(
                b->accesses[op->first_access + 2 * k + (op->kind != ZERO__FETCH)].bytes);
    }
    return bytes;
}

/* Micro-batches: each computes, and the first finds no sums to read. */
static void micro_batches(void)
{
    const double speed = 8.0 * MIB;
    struct made x;
    struct zero__simulated s;

    make_steps(&x, ZERO__P_GRADIENTS, 64 * MIB, 0, 3);
    s = run(&x, 1, 0, 1);
    ok(near(s.passes_s, 3 * 2 * UNITS), "three micro-batches compute three times: %g s",
       s.passes_s);
    const double sums = disk_bytes(&x, ZERO__MICRO, 1),
                 all = 2 * disk_bytes(&x, ZERO__MICRO, 0) + disk_bytes(&x, ZERO__LAST, 0) +
                       disk_bytes(&x, ZERO__UPDATE_BODY, 0);
    s = run(&x, 0, speed, 0);
    ok(sums > 0.05 * all && near(s.step_s, (all - sums) / speed),
       "who waits for the disk alone waits for all of it but the first sums: %g s, %g with them",
       s.step_s, all / speed);
    end(&x);
}

/* What is done is forgotten: many of them take time, and no more memory than one. */
static void many_micro_batches(void)
{
    const uint32_t many = 1500;
    struct made x;
    struct zero__simulated s;

    make_steps(&x, ZERO__P_GRADIENTS, 64 * MIB, 0, 3);
    run(&x, 1, 8.0 * MIB, 1);
    long before = peak_kib();
    x.r.accum = many;
    s = run(&x, 1, 0, 1);
    long after = peak_kib();
    ok(near(s.passes_s, many * 2.0 * UNITS), "%u micro-batches: %g s", many, s.passes_s);
    ok(before > 0 && after < before + 4096, "%ld KiB are resident after them, %ld before", after,
       before);
    end(&x);
}

/* What the application does between its uses is hidden where they compute without it. */
static void streamed(void)
{
    struct made x;
    struct zero__simulated s;

    make(&x, ZERO__P_OPTIMIZER, 64 * MIB, 0);
    for (uint32_t i = 0; i < x.p->bodies[ZERO__LAST].n_ops; i++)
        x.c.gap_s[ZERO__LAST][i] = x.p->bodies[ZERO__LAST].ops[i].kind == ZERO__COMPUTE;
    s = run(&x, 1, 0, 1);
    ok(near(s.passes_s, 2 * 2 * UNITS), "the application computes and pauses in turn: %g s",
       s.passes_s);
    x.c.streamed = 1;
    s = run(&x, 1, 0, 1);
    ok(near(s.passes_s, 2 * UNITS + 1), "or at the same time, on a stream: %g s", s.passes_s);
    end(&x);
}

/*
 * What an update still writes goes on behind it. Without room to prefetch a unit is fetched,
 * updated and written, and only then the next one is fetched: of four of them an update waits for
 * the first three to be written. The next step's first use needs unit 0, whose fetch needs the
 * memory that unit 3 is written from, and waits.
 */
static void behind(void)
{
    const double fetch_s = 1, write_s = 4; /* of a unit */
    const double fetches = 2 * UNITS - 1;  /* the last unit stays from one pass to the other */
    const double gap_s = write_s + fetch_s + 2;
    struct made x;
    struct zero__simulated s;

    make(&x, ZERO__P_PARAMETERS, 0, 0);
    run(&x, 1, 8.0 * MIB / fetch_s, 1); /* of the costs */
    x.c.speeds.write = 8.0 * MIB / write_s;
    if (zero__simulate(x.p, &x.r, &x.c, &s))
        bail(zero__error_text());
    ok(near(s.update_s, UNITS * fetch_s + (UNITS - 1) * write_s),
       "an update waits for all that it writes but the last: %g s", s.update_s);
    ok(near(s.passes_s, write_s + fetches * fetch_s + 2 * UNITS),
       "which the next step's first use waits for: %g s", s.passes_s);
    for (uint32_t i = 0, first = 1; i < x.p->bodies[ZERO__LAST].n_ops && first; i++)
        if (x.p->bodies[ZERO__LAST].ops[i].kind == ZERO__COMPUTE) {
            x.c.gap_s[ZERO__LAST][i] = gap_s;
            first = 0;
        }
    if (zero__simulate(x.p, &x.r, &x.c, &s))
        bail(zero__error_text());
    ok(near(s.passes_s, gap_s + (fetches - 1) * fetch_s + 2 * UNITS),
       "beside what the application does meanwhile, if that takes longer: %g s", s.passes_s);
    end(&x);
}

/*
 * Beside the backward pass, with 16 tiles of 2 MiB, four a unit, four at a time in memory. The
 * first four are fetched when the forward pass is over, UNITS seconds; a tile is written when its
 * unit's gradient is there, and the fourth one after it is fetched when that is done.
 */
static void early(void)
{
    const uint32_t tiles = 4 * UNITS;
    struct made x;
    struct zero__simulated s;

    make(&x, ZERO__P_OPTIMIZER, 64 * MIB, 1);
    /* A tile each way in 0.1 s: five of them, in which a unit is written and the next one fetched,
     * end within a use; of the last unit, all is written behind its use. */
    s = run(&x, 1, 20.0 * MIB, 1);
    ok(near(s.passes_s, 2 * UNITS + 4 * 0.1) && near(s.update_s, 0),
       "of what a fast disk does the last unit's writes are left behind: %g s", s.passes_s);
    /* In 1 s: the uses end long before; reading never stops, and the last tile is written. */
    s = run(&x, 1, 2.0 * MIB, 1);
    ok(near(s.passes_s, UNITS + tiles + 1) && near(s.update_s, 0),
       "a slow one reads all of it behind the forward pass: %g s", s.passes_s);
    end(&x);
    make(&x, ZERO__P_OPTIMIZER, 64 * MIB, 0);
    s = run(&x, 1, 2.0 * MIB, 1);
    ok(near(s.passes_s, 2 * UNITS) && near(s.update_s, tiles),
       "an update at the end reads all of it, and leaves its last tile's write to the next pass: "
       "%g s", s.update_s);
    end(&x);
}

/* Figures may have come from a file. */
static void nonsense(void)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e-300, 5e-324};
    struct made x;
    struct zero__simulated s;
    int all = 1;

    make(&x, ZERO__P_PARAMETERS, 64 * MIB, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double *const figures[] = {&x.c.speeds.read, &x.c.speeds.write, &x.c.speeds.both};
        for (int k = 0; k < 3; k++) {
            run(&x, 1, 8.0 * MIB, 1); /* sets all figures */
            *figures[k] = bad[i];
            all &= !zero__simulate(x.p, &x.r, &x.c, &s) && near(s.step_s, 2 * UNITS);
        }
        run(&x, bad[i], 8.0 * MIB, 1);
        for (uint32_t k = 0; k < x.p->bodies[ZERO__LAST].n_ops; k++)
            x.c.gap_s[ZERO__LAST][k] = bad[i];
        x.c.end_s = bad[i];
        all &= !zero__simulate(x.p, &x.r, &x.c, &s) && isfinite(s.step_s) && s.step_s < 100;
        for (uint32_t k = 0; k < x.p->bodies[ZERO__LAST].n_ops; k++)
            x.c.gap_s[ZERO__LAST][k] = 0;
        x.c.end_s = 0;
    }
    ok(all, "what is no speed or no time takes none");
    end(&x);
}

static void update(void)
{
    struct made x;
    struct zero__simulated s;

    make(&x, ZERO__P_OPTIMIZER, 64 * MIB, 0);
    s = run(&x, 1, 8.0 * MIB, 0);
    double moved = 0;
    const struct zero__body *b = &x.p->bodies[ZERO__UPDATE_BODY];
    for (uint32_t i = 0; i < b->n_ops; i++)
        if (b->ops[i].kind == ZERO__FETCH)
            for (uint32_t k = 0; k < b->ops[i].n_accesses / 2; k++)
                moved += 2 * (double)b->accesses[b->ops[i].first_access + 2 * k].bytes;
    ok(moved > 0 && near(s.passes_s, 2 * UNITS), "what an update moves is not in the passes: %g",
       s.passes_s);
    ok(s.update_s < moved / (8.0 * MIB) && s.update_s > 0.7 * moved / (8.0 * MIB),
       "an update takes what it moves, but for the last tiles, written behind it: %g of %g s",
       s.update_s, moved / (8.0 * MIB));
    x.c.end_s = 3;
    struct zero__simulated later = run(&x, 1, 8.0 * MIB, 0);
    ok(near(later.step_s, s.step_s + 3), "what the application does before it asks counts: %g s",
       later.step_s);
    end(&x);

    make(&x, ZERO__P_OPTIMIZER, 64 * MIB, 1);
    struct zero__simulated beside = run(&x, 4, 8.0 * MIB, 0);
    ok(near(beside.passes_s + beside.update_s, beside.step_s) && beside.step_s > 8 * UNITS &&
           beside.step_s < 8 * UNITS + s.update_s / 2,
       "beside the backward pass it costs what the last units need: %g s instead of %g",
       beside.step_s, 8 * UNITS + s.update_s);
    end(&x);
}

int main(void)
{
    parameters();
    nonsense();
    micro_batches();
    many_micro_batches();
    streamed();
    behind();
    early();
    update();
    done();
}
