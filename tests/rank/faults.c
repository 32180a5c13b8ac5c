/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults injected into jobs: killed, stopped, and straying ranks, at the start, in every kind of
 * operation, at the end. Nothing hangs, no number is wrong, and the others name the rank in time.
 *
 *     faults                          60 of them and 12 from outside, as TAP (make check)
 *     faults --seeds A-B --state F    those; results go to F, and what is in F is not run again
 *     faults --seed N                 one, and what every rank said
 *
 * make check-faults runs a thousand and prints a table.
 */
#include "ranks.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "comm.h"
#include "faults.h"

#define BRIEF (2 * FAULTS_KINDS) /* every kind twice, with two transports where it can be */
#define BRIEF_OUTSIDE 12           /* every kind, mostly during steps */
#define MOST (2 * FAULTS_OUTSIDE)
#define KILL_P99_MS 250 /* from a rank's death to the last other rank's error */
#define KILL_MOST_MS 1000
#define ENOUGH 200 /* faults, for a quantile */

/* Short waits where there are many; else the heartbeat that users have. */
static const struct faults_times brief_times = {3, "1"}, full_times = {5, NULL};

static bool has_plugin(const char *name)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char file[4096];

    snprintf(file, sizeof file, "%s/.libs/zero-comm-%s.so", build ? build : ".", name);
    return access(file, R_OK) == 0;
}

/* Libraries of networks are not made for the thread sanitizer, so it sees shm only. */
#ifdef __SANITIZE_THREAD__
#define WHY_NOT "its library is not for the thread sanitizer"
#else
#define WHY_NOT "the plugin was not built: its library is missing"
#endif

static bool can_use(const char *comm)
{
#ifdef __SANITIZE_THREAD__
    if (strcmp(comm, "shm") != 0)
        return false;
#endif
    return has_plugin(comm);
}

static void print_repeat(unsigned seed)
{
    diag("again: tests/rank/faults --seed %u", seed);
}

static void brief(void)
{
    struct faults_verdict v;
    struct faults_case c;

    for (unsigned i = 0; i < BRIEF + BRIEF_OUTSIDE; i++) {
        unsigned seed = i < BRIEF ? i : FAULTS_OUTSIDE + i - BRIEF;
        char what[192];
        faults_draw(seed, &c);
        snprintf(what, sizeof what, "seed %u: %s, stage %s, %d ranks%s: %s", seed,
                 faults_comms[c.comm].name, c.stage, c.ranks, c.large ? ", large messages" : "",
                 c.fault);
        if (!can_use(faults_comms[c.comm].plugin)) {
            skip(what, WHY_NOT);
            continue;
        }
        faults_run(&c, &brief_times, &v);
        if (!ok(faults_good(&v), "%s: rank %d is named, after %d ms", what, c.victim, v.ms)) {
            diag("%s", v.why);
            print_repeat(seed);
        }
    }
    done();
}

/* ---- Many ------------------------------------------------------------------------------------ */

struct many {
    unsigned first, last;
    const char *state;
    struct faults_verdict *all;
    bool *known, fresh; /* fresh: the file begins anew */
};

/* When what is tried was built: results of another build say nothing about this one. */
static int64_t built_ns(void)
{
    static const char *const plugins[] = {"fault", "shm", "ucx", "ofi"};
    const char *build = getenv("ZERO_TEST_BUILD");
    int64_t newest = 0;

    for (int i = -1; i < 4; i++) {
        char file[4096] = "/proc/self/exe";
        struct stat st;
        if (i >= 0)
            snprintf(file, sizeof file, "%s/.libs/zero-comm-%s.so", build ? build : ".",
                     plugins[i]);
        if (!stat(file, &st) && st.st_mtim.tv_sec * INT64_C(1000000000) > newest)
            newest = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    }
    return newest;
}

static void state_read(struct many *m)
{
    FILE *f = fopen(m->state, "r");
    struct faults_verdict v;
    long long built = 0;
    char line[2048];
    unsigned seed;

    if (f && (!fgets(line, sizeof line, f) || sscanf(line, "built %lld", &built) != 1 ||
              built != built_ns())) {
        printf("%s is of another build: all anew\n", m->state);
        fclose(f);
        f = NULL;
    }
    m->fresh = !f;
    while (f && fgets(line, sizeof line, f))
        if (faults_read_line(line, &seed, &v) && seed >= m->first && seed <= m->last) {
            m->all[seed] = v;
            m->known[seed] = true;
        }
    if (f)
        fclose(f);
}

static int run_many(struct many *m)
{
    unsigned n = 0, bad = 0;
    FILE *f;

    m->all = calloc(m->last + 1, sizeof *m->all);
    m->known = calloc(m->last + 1, sizeof *m->known);
    if (!m->all || !m->known)
        bail("no memory");
    state_read(m);
    f = fopen(m->state, m->fresh ? "w" : "a");
    if (f && m->fresh)
        fprintf(f, "built %" PRId64 "\n", built_ns());
    if (!f) {
        fprintf(stderr, "faults: cannot write to %s: %s\n", m->state, strerror(errno));
        return 2;
    }
    for (unsigned seed = m->first; seed <= m->last; seed++) {
        struct faults_case c;
        faults_draw(seed, &c);
        if (m->known[seed] || !can_use(faults_comms[c.comm].plugin))
            continue;
        faults_run(&c, &full_times, &m->all[seed]);
        m->known[seed] = true;
        faults_print_line(f, &c, &m->all[seed]);
    }
    fclose(f);
    faults_print_table(stdout, m->all, m->known, m->last + 1);
    for (unsigned seed = m->first; seed <= m->last; seed++) {
        n += m->known[seed];
        if (!m->known[seed] || faults_good(&m->all[seed]))
            continue;
        bad++;
        printf("seed %u is bad; %s tells why, and again: tests/rank/faults --seed %u\n", seed,
               m->state, seed);
    }
    int p99 = faults_kill_ms(m->all, m->known, m->last + 1, 99),
        most = faults_kill_ms(m->all, m->known, m->last + 1, 100);
    bool slow = n >= ENOUGH && (p99 > KILL_P99_MS || most > KILL_MOST_MS);
    printf("killed ranks: p99 %d ms, most %d ms; promised are %d and %d%s\n", p99, most,
           KILL_P99_MS, KILL_MOST_MS, slow ? ": BROKEN" : "");
    unsigned left_out = m->last - m->first + 1 - n;
    if (left_out)
        printf("%u were not run: their plugins were not built\n", left_out);
    printf("%u of %u faults were borne as promised\n", n - bad, m->last - m->first + 1);
    return bad || slow || left_out;
}

static int run_one(unsigned seed)
{
    struct faults_verdict v;
    struct faults_case c;

    faults_draw(seed, &c);
    if (!can_use(faults_comms[c.comm].plugin)) {
        fprintf(stderr, "faults: the plugin %s was not built\n", faults_comms[c.comm].plugin);
        return 2;
    }
    faults_run(&c, &full_times, &v);
    faults_print_line(stdout, &c, &v);
    puts(faults_good(&v) ? "good" : "bad");
    return !faults_good(&v);
}

static bool number(const char *text, const char **end, unsigned *x)
{
    char *stop;
    unsigned long n = strtoul(text, &stop, 10);

    if (*text < '0' || *text > '9' || n >= MOST)
        return false;
    *x = (unsigned)n;
    *end = stop;
    return true;
}

int main(int argc, char **argv)
{
    struct many m = {.last = 999, .state = "check-faults.state"};
    const char *end = "";
    bool many = false;
    unsigned seed;

    comm_require("fault");
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--seed") == 0 && number(value, &end, &seed) && !*end)
            return run_one(seed);
        if (strcmp(argv[i], "--state") == 0 && *value)
            m.state = value;
        else if (strcmp(argv[i], "--seeds") != 0 || !number(value, &end, &m.first) || *end != '-' ||
                 !number(end + 1, &end, &m.last) || *end || m.first > m.last) {
            fprintf(stderr, "usage: faults [--seed N | --seeds A-B [--state FILE]]\n");
            return 2;
        }
        many = true;
    }
    if (many)
        return run_many(&m);
    brief();
}
