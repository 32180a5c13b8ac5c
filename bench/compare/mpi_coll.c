/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of an MPI library, one JSON record per size and dtype on rank 0:
 *
 *     mpi_coll NAME OP DTYPES BYTES REPS SECONDS CORES MEMORY PLACE
 *     mpi_coll openmpi all_gather f32,bf16 4096,1048576 11 0.3 2 again in
 *
 * A message is the full unsharded one; a reduce_scatter is called in all ways that there are, the
 * user takes the fastest one. Samples are taken as `zero bench coll` takes them: small
 * operations in a row of up to 16 MiB after a barrier, as slow as the slowest rank; ranks that
 * share cores begin late, so there a sample lasts from the first to begin to the last to end. REPS
 * samples, shorter rows and then fewer samples, an odd number and seven at least, where they would
 * take longer than SECONDS. PLACE is `in` or `out`: a user takes the faster one. MEMORY is
 * `again`, for the same bytes again and again, or `fresh`: each rank writes its part before each
 * operation, which is not timed. Buffers lie in huge pages where the system has them. With
 * COMPARE_SPOIL=1 in its environment the last rank changes an element of each result, to see the
 * check fail.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_REPS = 1000,
    LEAST_REPS = 7,
    MOST_IN_A_ROW = 256,
    BYTES_IN_A_ROW = 16 << 20,
    HUGE_PAGE = 2 << 20
};

/* An all_reduce has everybody's shard, too. */
enum call { BLOCK, LENGTHS, ALL, N_CALLS };

struct run {
    const char *name, *op, *dtype;
    int ranks, rank, in_place, cores, fresh;
    enum call call; /* of a reduce_scatter */
    int *lengths;
    size_t bytes; /* of the full message */
    size_t width; /* of an element */
    MPI_Datatype type;
    unsigned char *full, *other; /* the message, and a second buffer of its size */
};

/* Of a reduce_scatter; the others have one. */
static const char *call_name(const struct run *r)
{
    static const char *const names[N_CALLS] = {"block", "lengths", "all_reduce"};
    return strcmp(r->op, "reduce_scatter") == 0 ? names[r->call] : "";
}

static int count(const struct run *r)
{
    return (int)(r->bytes / r->width);
}

static void operate(struct run *r)
{
    const int n = count(r), shard = n / r->ranks;
    unsigned char *mine = r->full + (size_t)r->rank * (size_t)shard * r->width;

    if (strcmp(r->op, "all_gather") == 0) {
        if (r->in_place)
            MPI_Allgather(MPI_IN_PLACE, 0, r->type, r->full, shard, r->type, MPI_COMM_WORLD);
        else
            MPI_Allgather(mine, shard, r->type, r->other, shard, r->type, MPI_COMM_WORLD);
    } else if (strcmp(r->op, "reduce_scatter") == 0 && r->call != ALL) {
        const void *from = r->in_place ? MPI_IN_PLACE : r->full;
        void *to = r->in_place ? r->full : r->other;
        if (r->call == BLOCK)
            MPI_Reduce_scatter_block(from, to, shard, r->type, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Reduce_scatter(from, to, r->lengths, r->type, MPI_SUM, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(r->in_place ? MPI_IN_PLACE : r->full, r->in_place ? r->full : r->other, n,
                      r->type, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* ---- Check ----------------------------------------------------------------------------------- */

/* Small whole numbers, exact in every dtype. */
static float input(int rank, size_t i)
{
    return (float)((i + (size_t)rank) % 5);
}

static void store(const struct run *r, unsigned char *to, size_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t upper = (uint16_t)(bits >> 16);
    if (r->width == 4)
        memcpy(to + i * 4, &x, 4);
    else
        memcpy(to + i * 2, &upper, 2);
}

static float load(const struct run *r, const unsigned char *from, size_t i)
{
    uint16_t upper = 0;
    float x;
    if (r->width == 4) {
        memcpy(&x, from + i * 4, 4);
    } else {
        memcpy(&upper, from + i * 2, 2);
        const uint32_t bits = (uint32_t)upper << 16;
        memcpy(&x, &bits, 4);
    }
    return x;
}

static void spoil(const struct run *r, unsigned char *got, size_t first)
{
    const char *wanted = getenv("COMPARE_SPOIL");

    if (wanted && strcmp(wanted, "1") == 0 && r->rank == r->ranks - 1)
        store(r, got, first, load(r, got, first) + 1);
}

/* One operation on known values; true if all ranks got what they should. */
static int correct(struct run *r)
{
    const size_t n = (size_t)count(r), shard = n / (size_t)r->ranks;
    const int gather = strcmp(r->op, "all_gather") == 0;
    const int scatter = strcmp(r->op, "reduce_scatter") == 0;
    const size_t results = scatter ? shard : n;
    int good = 1, all;

    for (size_t i = 0; i < n; i++)
        store(r, r->full, i, input(r->rank, i));
    memset(r->other, 0, r->bytes);
    operate(r);
    unsigned char *got = r->in_place ? r->full : r->other;
    spoil(r, got, scatter && r->call == ALL ? (size_t)r->rank * shard : 0);
    for (size_t i = 0; i < results; i++) {
        const size_t at = scatter ? (size_t)r->rank * shard + i : i;
        const size_t there = scatter && r->call == ALL ? at : i;
        float want = 0;
        for (int k = 0; k < r->ranks && !gather; k++)
            want += input(k, at);
        if (gather)
            want = input((int)(at / shard), at);
        if (load(r, got, there) != want)
            good = 0;
    }
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Of one sample; the clock is the same for all ranks, which run on one machine. */
struct moments {
    double start, end, elapsed;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * Numbers, since some machines move zeros faster: so small ones that large messages, which are not
 * repeated often, can be summed up in place without an end.
 */
static void fill(struct run *r)
{
    const size_t n = (size_t)count(r);

    for (size_t i = 0; i < n; i++)
        store(r, r->full, i, (float)(i * 2654435761u >> 8 & 0xffffff) * 0x1p-124f + 0x1p-100f);
    memcpy(r->other, r->full, r->bytes);
}

/* What this rank contributes, a number in each type. */
static void refresh(struct run *r)
{
    const size_t shard = (size_t)(count(r) / r->ranks) * r->width;

    if (strcmp(r->op, "all_gather") == 0)
        memset(r->full + (size_t)r->rank * shard, 0x3c, shard);
    else
        memset(r->full, 0x3c, r->bytes);
}

static struct moments sample(struct run *r, int in_a_row)
{
    struct moments m;

    if (r->fresh)
        refresh(r);
    MPI_Barrier(MPI_COMM_WORLD);
    m.start = now();
    for (int i = 0; i < in_a_row; i++)
        operate(r);
    m.end = now();
    m.elapsed = m.end - m.start;
    return m;
}

/* Seconds of n samples, of an operation each. */
static void durations(const struct run *r, const struct moments *mine, int n, int in_a_row,
                      double *seconds)
{
    const int shared = r->ranks > r->cores;

    for (int i = 0; i < n; i++) {
        struct moments all;
        MPI_Allreduce(&mine[i].start, &all.start, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&mine[i].end, &all.end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&mine[i].elapsed, &all.elapsed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        seconds[i] = (shared ? all.end - all.start : all.elapsed) / in_a_row;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between two values where it has to be, as tools/bench/measure/stats.c does it. */
static double quantile(const double *x, int n, double q)
{
    const double at = q * (n - 1);
    const int i = (int)at;

    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

static void measure(struct run *r, int reps, double seconds)
{
    static struct moments mine[MAX_REPS];
    static double all[MAX_REPS];
    const int good = correct(r);

    fill(r);
    sample(r, 2);
    mine[0] = sample(r, 2);
    durations(r, mine, 1, 2, all);
    const double rows = seconds / all[0], most = rows / reps;
    int in_a_row = BYTES_IN_A_ROW / r->bytes < MOST_IN_A_ROW ? (int)(BYTES_IN_A_ROW / r->bytes)
                                                              : MOST_IN_A_ROW;
    in_a_row = in_a_row > most ? (int)most : in_a_row;
    in_a_row = in_a_row < 1 || r->fresh ? 1 : in_a_row;
    int n = reps * in_a_row > rows ? (int)(rows / in_a_row) : reps;
    n = n < LEAST_REPS ? LEAST_REPS : n - 1 + n % 2; /* one is the median */
    for (int i = 0; i < n; i++)
        mine[i] = sample(r, in_a_row);
    durations(r, mine, n, in_a_row, all);
    if (r->rank != 0)
        return;
    qsort(all, (size_t)n, sizeof *all, by_value);
    const double median = quantile(all, n, 0.5);
    const double spread = (quantile(all, n, 0.9) - quantile(all, n, 0.1)) / median;
    printf("{\"bench\":\"coll\",\"op\":\"%s\",\"comm\":\"%s\",\"ranks\":%d,\"bytes\":%zu,"
           "\"dtype\":\"%s\",\"place\":\"%s\",\"call\":\"%s\",\"samples\":%d,\"median_s\":%.9g,"
           "\"spread\":%.4g,\"bandwidth_GBps\":%.4g,\"check\":\"%s\"}\n",
           r->op, r->name, r->ranks, r->bytes, r->dtype, r->in_place ? "in" : "out", call_name(r),
           n, median, spread, (double)r->bytes / median * 1e-9, good ? "ok" : "wrong");
    fflush(stdout);
}

/* The type to hand over; false where the library has none that it can add up. */
static int choose_type(struct run *r)
{
    r->width = strcmp(r->dtype, "f32") == 0 ? 4 : 2;
    r->type = MPI_FLOAT;
    if (r->width == 4)
        return 1;
    r->type = MPI_UINT16_T; /* enough to move it */
#ifdef MPIX_BFLOAT16
    r->type = MPIX_BFLOAT16;
    return 1;
#endif
    return strcmp(r->op, "all_gather") == 0;
}

static size_t mapped(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
}

/*
 * NULL where there is none. Not from the heap, where what was in use before comes back in small
 * pages, in part: a gather of 4 MiB took twice as long in them.
 */
static void *memory(size_t bytes, char **whole)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS;
    char *at = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, how, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    *whole = at;
    at += (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    madvise(at, mapped(bytes) - HUGE_PAGE, MADV_HUGEPAGE); /* small pages do, too */
    return at;
}

static void measure_sizes(struct run *r, const char *sizes, int reps, double seconds)
{
    for (const char *at = sizes; *at;) {
        char *end;
        r->bytes = strtoull(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
        if (r->bytes < r->width * (size_t)r->ranks || (*end && *end != ','))
            return;
        char *whole[2];
        r->full = memory(r->bytes, &whole[0]);
        r->other = memory(r->bytes, &whole[1]);
        if (!r->full || !r->other)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int k = 0; k < r->ranks; k++)
            r->lengths[k] = count(r) / r->ranks;
        const int calls = strcmp(r->op, "reduce_scatter") == 0 ? N_CALLS : 1;
        for (int i = 0; i < calls; i++) {
            r->call = (enum call)i;
            measure(r, reps, seconds);
        }
        munmap(whole[0], mapped(r->bytes));
        munmap(whole[1], mapped(r->bytes));
    }
}

int main(int argc, char **argv)
{
    struct run r = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    r.lengths = calloc((size_t)r.ranks, sizeof *r.lengths);
    if (argc != 10 || !r.lengths) {
        if (r.rank == 0)
            fprintf(stderr,
                    "usage: mpi_coll NAME OP DTYPES BYTES REPS SECONDS CORES MEMORY PLACE\n");
        MPI_Finalize();
        return 2;
    }
    r.cores = atoi(argv[7]);
    r.fresh = strcmp(argv[8], "fresh") == 0;
    r.in_place = strcmp(argv[9], "in") == 0;
    int reps = atoi(argv[5]);
    reps = reps < LEAST_REPS ? LEAST_REPS : reps > MAX_REPS ? MAX_REPS : reps;
    r.name = argv[1];
    r.op = argv[2];
    for (char *dtype = strtok(argv[3], ","); dtype; dtype = strtok(NULL, ",")) {
        r.dtype = dtype;
        if (choose_type(&r))
            measure_sizes(&r, argv[4], reps, atof(argv[6]));
        else if (r.rank == 0)
            printf("{\"bench\":\"coll\",\"op\":\"%s\",\"comm\":\"%s\",\"dtype\":\"%s\","
                   "\"missing\":\"no type for it\"}\n",
                   r.op, r.name, r.dtype);
    }
    free(r.lengths);
    MPI_Finalize();
    return 0;
}
