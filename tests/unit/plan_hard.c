/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hard tasks with a known answer: a rectangle of time x memory is cut at random into buffers, so
 * the whole of it is a plan without a byte to spare; then buffers are dropped, shrunk or shortened.
 * Greedy passes miss these by 20 to 50 %.
 */
#include "../random.h"
#include "../tap.h"
#include "memory/plan.h"

#define SEED UINT64_C(424242)
#define MOST 5000
#define TIMES 1024
#define CAPACITY (UINT64_C(1) << 20)
#define UNIT UINT64_C(1024)

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    return random_next(state) % n;
}

struct task {
    struct zero__plan_buffer b[MOST];
    uint32_t n;
};

/* Cuts the largest of a few random pieces, over and over. */
static void task_cut(uint64_t *state, struct task *t, uint32_t n, uint32_t times, uint64_t unit)
{
    t->n = 1;
    t->b[0] = (struct zero__plan_buffer){CAPACITY, 0, times, 0};
    for (int tries = 0; t->n < n && tries < 100 * (int)n; tries++) {
        struct zero__plan_buffer *x = &t->b[random_below(state, t->n)];
        for (int k = 0; k < 3; k++) {
            struct zero__plan_buffer *y = &t->b[random_below(state, t->n)];
            if ((double)y->bytes * (y->last - y->first) > (double)x->bytes * (x->last - x->first))
                x = y;
        }
        struct zero__plan_buffer rest = *x;
        if (random_below(state, 2) && x->bytes > unit) {
            x->bytes = unit * (1 + random_below(state, x->bytes / unit - 1));
            rest.bytes -= x->bytes;
        } else if (x->last - x->first > 1) {
            x->last = x->first + 1 + (uint32_t)random_below(state, x->last - x->first - 1);
            rest.first = x->last;
        } else {
            continue;
        }
        t->b[t->n++] = rest;
    }
    for (uint32_t i = t->n; i > 1; i--) {
        uint32_t k = (uint32_t)random_below(state, i);
        struct zero__plan_buffer x = t->b[k];
        t->b[k] = t->b[i - 1];
        t->b[i - 1] = x;
    }
}

enum change { WHOLE, DROP, SHRINK, SHORTEN };

static void task_change(uint64_t *state, struct task *t, enum change change, uint64_t percent)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct zero__plan_buffer *x = &t->b[i];
        uint64_t part = random_below(state, percent + 1);
        if (change == DROP && random_below(state, 100) < percent)
            x->bytes = 0;
        if (change == SHRINK)
            x->bytes -= x->bytes * part / 100 / 512 * 512;
        if (change == SHORTEN)
            x->last -= (uint32_t)((x->last - x->first) * part / 100);
    }
}

static void task_try(const struct task *original, const char *what, uint64_t seed)
{
    static struct task t;
    struct zero__plan_params params = {
        .capacity = CAPACITY, .node_budget = 4000000, .n_threads = 2};
    struct zero__plan_result r = {0};
    uint32_t a, b;

    t = *original;
    bool good = zero__plan_solve(t.b, t.n, &params, &r) == 0 &&
                zero__plan_check(t.b, t.n, &a, &b) == 0 && r.height <= CAPACITY;
    ok(good, "%s: %u buffers, bound %.4f of the capacity, plan %.4f (%" PRIu64 " nodes, %s)", what,
       t.n, (double)r.lower_bound / (double)CAPACITY, (double)r.height / (double)CAPACITY, r.nodes,
       r.method);
    if (!good)
        diag("seed %" PRIu64, seed);
}

static void cuts(void)
{
    static const struct {
        const char *what;
        uint32_t n, times;
        enum change change;
        uint64_t percent;
    } kinds[] = {
        {"cut", 200, TIMES, WHOLE, 0},
        {"cut", 400, TIMES, WHOLE, 0},
        {"cut", 1000, 1 << 30, WHOLE, 0},
        {"cut", 4000, 1 << 30, WHOLE, 0},
        {"some dropped", 200, TIMES, DROP, 2},
        {"some dropped", 400, TIMES, DROP, 6},
        {"some shrunk", 200, TIMES, SHRINK, 1},
        {"some shrunk", 300, TIMES, SHRINK, 6},
        {"some shorter", 200, TIMES, SHORTEN, 2},
        {"some shorter", 200, TIMES, SHORTEN, 6},
    };
    static struct task t;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint64_t round = 0; round < 3; round++) {
            uint64_t state = SEED + 1000 * k + round;
            task_cut(&state, &t, kinds[k].n, kinds[k].times, UNIT);
            task_change(&state, &t, kinds[k].change, kinds[k].percent);
            task_try(&t, kinds[k].what, SEED + 1000 * k + round);
        }
    }
}

/* Neither the plan nor the effort may depend on who was faster. */
static void threads(void)
{
    static struct task t, other;
    struct zero__plan_params params = {.capacity = CAPACITY, .node_budget = 300000};
    unsigned differ = 0, hard = 0;

    for (uint64_t round = 0; round < 6; round++) {
        uint64_t state = SEED + 77 * round;
        struct zero__plan_result one, some;
        task_cut(&state, &t, 300, TIMES, UNIT);
        task_change(&state, &t, round % 2 ? DROP : SHRINK, 5);
        for (uint32_t i = 0; i < t.n; i++)
            t.b[i].offset = 0;
        other = t;
        params.n_threads = 1;
        differ += zero__plan_solve(t.b, t.n, &params, &one) != 0;
        params.n_threads = 3;
        differ += zero__plan_solve(other.b, other.n, &params, &some) != 0;
        differ += memcmp(t.b, other.b, t.n * sizeof *t.b) != 0;
        differ += one.nodes != some.nodes || one.height != some.height;
        hard += one.nodes > 10000;
    }
    if (!is_int(differ, 0, "one thread and three make the same plans with the same effort"))
        diag("seed %" PRIu64, SEED);
    ok(hard > 0, "also where that takes effort (%u of 6 times)", hard);
}

/* A file of lines id,first,last,bytes, with the capacity in its name. */
static bool file_read(const char *path, struct task *t)
{
    FILE *f = fopen(path, "re");
    char line[256];
    unsigned first, last;
    unsigned long long bytes;

    t->n = 0;
    if (!f || !fgets(line, sizeof line, f) || strncmp(line, "id,lower,upper,size", 19) != 0) {
        if (f)
            fclose(f);
        return false;
    }
    while (t->n < MOST && fgets(line, sizeof line, f))
        if (sscanf(line, "%*[^,],%u,%u,%llu", &first, &last, &bytes) == 3)
            t->b[t->n++] = (struct zero__plan_buffer){bytes, first, last, 0};
    fclose(f);
    return true;
}

/* A published task, if it is at hand: within the capacity, or nearly at the bound where none is
 * known. */
static void file_try(const char *folder, const char *name, bool has_capacity)
{
    static struct task t;
    char path[8192];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!file_read(path, &t)) {
        skip(name, "no data folder beside the checkout");
        return;
    }
    if (has_capacity) {
        task_try(&t, name, 0);
        return;
    }
    struct zero__plan_params params = {.node_budget = 4000000, .n_threads = 2};
    struct zero__plan_result r = {0};
    uint32_t a, b;
    is_int(zero__plan_solve(t.b, t.n, &params, &r), 0, "%s: %u buffers", name, t.n);
    is_int(zero__plan_check(t.b, t.n, &a, &b), 0, "%s: no overlap", name);
    double ratio = (double)r.height / (double)r.lower_bound;
    ok(ratio <= 1.001, "%s: plan / bound = %.6f (%s)", name, ratio, r.method);
}

int main(void)
{
    const char *data = getenv("ZERO_TEST_DATA"), *top = getenv("ZERO_TEST_TOP");
    char folder[4096], name[64];

    cuts();
    threads();
    if (data)
        snprintf(folder, sizeof folder, "%s", data);
    else
        snprintf(folder, sizeof folder, "%s/../shared/data", top ? top : ".");
    for (char c = 'A'; c <= 'E'; c++) {
        snprintf(name, sizeof name, "minimalloc/%c.1048576.csv", c);
        file_try(folder, name, true);
    }
    file_try(folder, "idealloc/G_1.csv", false);
    file_try(folder, "idealloc/resnet50.csv", false);
    done();
}
