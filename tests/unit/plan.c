/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's contract on small and random input: legal corner cases, refused input, no overlap
 * ever, the bound, alignment, determinism. */
#include "memory/plan.h"

#include <errno.h>

#include "../random.h"
#include "../tap.h"
#include "base/status.h"

#define SEED UINT64_C(20240607)

static void corner_cases(void)
{
    struct zero__plan_params params = {.align = 64};
    struct zero__plan_result r;
    struct zero__plan_buffer b[] = {
        {0, 0, 10, 7}, {100, 5, 5, 7}, {1, 0, 4, 7}, {64, 2, 6, 7}, {65, 4, 9, 7}, {64, 6, 7, 7},
    };
    uint32_t x, y;

    is_int(zero__plan_solve(NULL, 0, &params, &r), 0, "no buffers at all");
    is_int(r.height, 0, "need no memory");
    is_int(zero__plan_solve(b, 6, &params, &r), 0, "empty buffers and lifetimes are legal");
    is_int(b[0].offset + b[1].offset, 0, "and lie at 0");
    is_int(r.lower_bound, 192, "sizes count rounded up");
    is_int(r.height, 192, "one that starts when another ends takes its place");
    is_int(zero__plan_check(b, 6, &x, &y), 0, "nothing overlaps");
    b[3].offset = b[4].offset = 0;
    is_int(zero__plan_check(b, 6, &x, &y), -EEXIST, "the checker finds an overlap");
    ok((x == 3 && y == 4) || (x == 4 && y == 3), "and names the pair");
    b[3].offset = 0, b[2].offset = 0, b[4].offset = 64;
    is_int(zero__plan_check(b, 6, &x, &y), -EEXIST, "also of a partly shared life");
}

static void refused_input(void)
{
    struct zero__plan_params params = {.align = 48};
    struct zero__plan_result r = {.height = 5};
    struct zero__plan_buffer b[] = {{8, 0, 1, 3}, {8, 2, 1, 3}};

    is_int(zero__plan_solve(b, 1, &params, &r), -EINVAL, "an alignment that is no power of two");
    has_str(zero__error_text(), "48", "is named");
    params.align = 0;
    is_int(zero__plan_solve(b, 2, &params, &r), -EINVAL, "a life that ends before it starts");
    has_str(zero__error_text(), "buffer 1", "is named");
    b[1] = (struct zero__plan_buffer){UINT64_C(1) << 62, 2, 3, 3};
    is_int(zero__plan_solve(b, 2, &params, &r), -EOVERFLOW, "too many bytes");
    b[1].bytes = UINT64_MAX;
    params.align = 4096;
    is_int(zero__plan_solve(b, 2, &params, &r), -EOVERFLOW, "a size that rounds past 2^64");
    ok(b[0].offset == 3 && b[1].offset == 3 && r.height == 5, "a refusal changes nothing");
    b[1].first = b[1].last;
    is_int(zero__plan_solve(b, 2, &params, &r), 0, "unless the buffer never lives");
    is_int(r.lower_bound, 4096, "and then it does not count");
}

static void random_make(uint64_t *state, struct zero__plan_buffer *b, uint32_t n, uint32_t horizon)
{
    uint64_t shift = random_next(state) % 20;
    for (uint32_t i = 0; i < n; i++) {
        b[i].first = (uint32_t)(random_next(state) % horizon);
        uint32_t left = horizon - b[i].first;
        if (random_next(state) % 3)
            left = left < 8 ? left : 8;
        b[i].last = b[i].first + (uint32_t)(random_next(state) % (left + 1));
        b[i].bytes = random_next(state) % 1000 << random_next(state) % (shift + 1);
        b[i].offset = UINT64_MAX;
    }
}

/* The bound, computed the slow way. */
static uint64_t live_most(const struct zero__plan_buffer *b, uint32_t n, uint64_t align,
                          uint32_t horizon)
{
    uint64_t most = 0;
    for (uint32_t t = 0; t < horizon; t++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < n; i++)
            if (b[i].first <= t && t < b[i].last)
                live += (b[i].bytes + align - 1) / align * align;
        most = live > most ? live : most;
    }
    return most;
}

static void random_cases(uint64_t node_budget, const char *what)
{
    enum { ROUNDS = 300, MOST = 120 };
    static struct zero__plan_buffer b[MOST], again[MOST];
    uint64_t state = SEED;
    unsigned bad_rc = 0, bad_plan = 0, bad_bound = 0, bad_height = 0, bad_align = 0, differ = 0;

    for (int k = 0; k < ROUNDS; k++) {
        uint32_t n = (uint32_t)(random_next(&state) % MOST), x, y;
        uint32_t horizon = 1 + (uint32_t)(random_next(&state) % 80);
        uint64_t align = UINT64_C(1) << random_next(&state) % 10, top = 0;
        struct zero__plan_params params = {.align = align, .node_budget = node_budget};
        struct zero__plan_result r, r2;
        random_make(&state, b, n, horizon);
        memcpy(again, b, sizeof b);
        bad_rc += zero__plan_solve(b, n, &params, &r) != 0;
        bad_plan += zero__plan_check(b, n, &x, &y) != 0;
        for (uint32_t i = 0; i < n; i++) {
            bad_align += b[i].offset % align != 0;
            if (b[i].bytes && b[i].first < b[i].last) {
                uint64_t end = b[i].offset + (b[i].bytes + align - 1) / align * align;
                top = end > top ? end : top;
            }
        }
        bad_height += r.height != top || r.height < r.lower_bound;
        bad_bound += r.lower_bound != live_most(b, n, align, horizon);
        params.n_threads = 4;
        bad_rc += zero__plan_solve(again, n, &params, &r2) != 0;
        differ += memcmp(again, b, n * sizeof *b) != 0 || r2.nodes != r.nodes;
    }
    if (bad_rc + bad_plan + bad_bound + bad_height + bad_align + differ)
        diag("seed %" PRIu64, SEED);
    is_int(bad_rc, 0, "%s: %d random tasks are planned", what, ROUNDS);
    is_int(bad_plan, 0, "%s: without overlap", what);
    is_int(bad_bound, 0, "%s: with the right lower bound", what);
    is_int(bad_height, 0, "%s: and the height that the offsets show", what);
    is_int(bad_align, 0, "%s: every offset is aligned", what);
    is_int(differ, 0, "%s: the same with four threads", what);
}

int main(void)
{
    corner_cases();
    refused_input();
    random_cases(0, "greedy");
    random_cases(2000, "search");
    done();
}
