/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of accesses against a model that forgets nothing: for random programs of a few streams,
 * the first race is found at the same access and byte, and the map stays small.
 */
#include "../random.h"
#include "../tap.h"

#include "device/race_map.h"

#define STREAMS 4u
#define BYTES 24u
#define LOG 400u
#define SEED UINT64_C(7)

struct entry {
    uint32_t stream, low, high;
    uint64_t time;
    bool write;
};

static struct entry entries[LOG];
static unsigned n_entries, n_reports;
static struct race_clock clocks[STREAMS];

static void count_report(void *arg, const struct race_access *old, bool old_write,
                         const struct race_access *now, bool now_write, uint64_t low, uint64_t high)
{
    (void)arg, (void)old, (void)old_write, (void)now, (void)now_write, (void)low, (void)high;
    n_reports++;
}

/* Whether the last entry conflicts with an earlier one that its stream does not know of. */
static bool races(void)
{
    const struct entry *e = &entries[n_entries - 1];

    for (const struct entry *f = entries; f < e; f++)
        if ((e->write || f->write) && f->low < e->high && e->low < f->high &&
            f->time > clocks[e->stream].at[f->stream])
            return true;
    return false;
}

/* Stream a learns what b has done so far. */
static void synchronise(uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        if (clocks[b].at[i] > clocks[a].at[i])
            clocks[a].at[i] = clocks[b].at[i];
    clocks[b].at[b]++;
}

/* One random program up to its first race: both must agree at each access. */
static bool agree(uint64_t *seed, unsigned *races_seen, uint64_t *largest)
{
    struct race_map *map = race_map_create();
    bool good = true, raced = false;

    n_entries = 0;
    memset(clocks, 0, sizeof clocks);
    for (uint32_t i = 0; i < STREAMS; i++)
        clocks[i].at[i] = 1;
    while (n_entries < LOG && good && !raced) {
        uint32_t s = (uint32_t)(random_next(seed) % STREAMS);
        uint32_t low = (uint32_t)(random_next(seed) % BYTES);
        struct entry e = {s, low, low + 1 + (uint32_t)(random_next(seed) % (BYTES - low)),
                          clocks[s].at[s], random_next(seed) % 3 == 0};

        if (random_next(seed) % 512 != 0) /* mostly in order, or programs would be short */
            for (uint32_t i = 0; i < STREAMS; i++)
                if (e.write || random_next(seed) % 64)
                    synchronise(s, i);
        e.time = clocks[s].at[s];
        entries[n_entries++] = e;
        n_reports = 0;
        race_map_access(map, 1000 + e.low, 1000 + e.high,
                        (struct race_access){.stream = s, .time = e.time}, e.write, &clocks[s],
                        count_report, NULL);
        raced = races();
        good = raced == (n_reports > 0);
        if (race_map_size(map) > *largest)
            *largest = race_map_size(map);
    }
    *races_seen += raced;
    race_map_destroy(map);
    return good;
}

static void forgetting(void)
{
    struct race_map *map = race_map_create();
    struct race_access a = {.stream = 0, .time = 1}, b = {.stream = 1, .time = 1};

    memset(clocks, 0, sizeof clocks);
    clocks[0].at[0] = clocks[1].at[1] = 1;
    n_reports = 0;
    race_map_access(map, 0, 100, a, true, &clocks[0], count_report, NULL);
    race_map_forget(map, 10, 90);
    race_map_access(map, 10, 90, b, true, &clocks[1], count_report, NULL);
    is_int(n_reports, 0, "memory given back has no past");
    race_map_access(map, 9, 10, b, false, &clocks[1], count_report, NULL);
    is_int(n_reports, 1, "its neighbour keeps its own");
    is_int(
        race_map_access(map, UINT64_MAX - 8, UINT64_MAX, a, true, &clocks[0], count_report, NULL),
        0, "the end of memory is no trouble");
    race_map_destroy(map);
}

int main(void)
{
    uint64_t seed = SEED, largest = 0;
    unsigned races_seen = 0, programs = 0;
    bool good = true;

    for (; programs < 3000 && good; programs++)
        good = agree(&seed, &races_seen, &largest);
    if (!ok(good, "the first race is found where it is"))
        diag("program %u, access %u, seed %" PRIu64, programs - 1, n_entries - 1, SEED);
    ok(races_seen > programs / 10 && races_seen < programs * 9 / 10, "with and without races");
    diag("%u of %u programs race, at most %" PRIu64 " entries", races_seen, programs, largest);
    ok(largest <= BYTES * (1 + STREAMS), "the map does not grow with time");
    forgetting();
    done();
}
