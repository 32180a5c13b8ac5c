/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's seeds as they are, which must reach what they are for, then mutations of them: bits
 * flipped, bytes set to values that matter, pieces cut, doubled and exchanged. Prints the number of
 * the input when one kills the program, so that it can be run alone: PROGRAM NUMBER.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/random.h"
#include "tests/tap.h"

#define INPUTS 20000u
#define MOST 32768u

static volatile unsigned long current;

static void died(int number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "Bail out! input %lu: signal %d\n", current, number);

    if (write(1, text, (size_t)n) < 0)
        _exit(98);
    signal(number, SIG_DFL);
    raise(number);
}

static unsigned count_seeds(void)
{
    unsigned n = 0;

    while (fuzz_seeds[n].size)
        n++;
    return n;
}

static size_t mutate(uint8_t *x, size_t n, uint64_t *random)
{
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '=', '-', '9', ' '};
    size_t at = n ? random_next(random) % n : 0;
    size_t len = n - at ? random_next(random) % (n - at) + 1 : 0;

    switch (random_next(random) % 7) {
    case 0:
        if (n)
            x[at] ^= (uint8_t)(1u << random_next(random) % 8);
        return n;
    case 1:
        if (n)
            x[at] = telling[random_next(random) % sizeof telling];
        return n;
    case 2:
        if (n)
            x[at] = (uint8_t)random_next(random);
        return n;
    case 3: /* cut */
        memmove(x + at, x + at + len, n - at - len);
        return n - len;
    case 4: /* double */
        if (n + len > MOST)
            return n;
        memmove(x + at + len, x + at, n - at);
        return n + len;
    case 5: /* end here */
        return at;
    default: /* eight bytes of one value: a length or a count */
        for (size_t i = 0; i < 8 && at + i < n; i++)
            x[at + i] = telling[random_next(random) % 5];
        return n;
    }
}

static void try_input(unsigned long number)
{
    uint64_t random = number * 77 + 5;
    const struct fuzz_seed *seed = &fuzz_seeds[random_next(&random) % count_seeds()];
    size_t n = seed->size < MOST ? seed->size : MOST;
    uint8_t *x = malloc(MOST), *exact;

    if (!x)
        bail("no memory");
    memcpy(x, seed->data, n);
    for (unsigned k = (unsigned)(random_next(&random) % 8); k; k--)
        n = mutate(x, n, &random);
    exact = malloc(n ? n : 1); /* so that a sanitizer sees reading beyond the end */
    if (!exact)
        bail("no memory");
    memcpy(exact, x, n);
    current = number;
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    free(x);
}

int main(int argc, char **argv)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};

    for (unsigned i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], died);
    if (argc == 2) {
        try_input(strtoul(argv[1], NULL, 0));
        return 0;
    }
    alarm(120);
    for (unsigned i = 0; i < count_seeds(); i++) {
        current = i;
        bool holds = fuzz_seed_holds(&fuzz_seeds[i]);
        ok(holds, "seed %u reaches 0x%x: 0x%x", i, fuzz_seeds[i].reaches, fuzz_reached);
    }
    for (unsigned long i = 0; i < INPUTS; i++) {
        if (i % 1000 == 0)
            alarm(120);
        try_input(i);
    }
    ok(true, "%u inputs", INPUTS);
    done();
}
