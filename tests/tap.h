/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small TAP producer for one test program: plan() or done(), ok() and friends, skips with a
 * reason. Thread-safe counters are not needed: one thread reports.
 */
#ifndef ZERO_TESTS_TAP_H
#define ZERO_TESTS_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
    unsigned run, failed, planned;
} tap __attribute__((unused));

__attribute__((unused, format(printf, 1, 2))) static void diag(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("# ", stdout);
    vfprintf(stdout, fmt, ap);
    fputc('\n', stdout);
    fflush(stdout);
    va_end(ap);
}

/* For what a library would log. */
__attribute__((unused)) static void log_nothing(void *arg, int level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

/* The most memory that this process has had so far. */
__attribute__((unused)) static long peak_kib(void)
{
    struct rusage used;

    return getrusage(RUSAGE_SELF, &used) ? -1 : used.ru_maxrss;
}

/*
 * How much of what repeats itself in many variants is run: all of it (`make check-whole`), some of
 * each kind, or less of that where another job of scripts/check has run the rest.
 */
__attribute__((unused)) static bool is_whole(void)
{
    return getenv("ZERO_TEST_WHOLE") != NULL;
}

__attribute__((unused)) static bool is_short(void)
{
    return getenv("ZERO_TEST_SHORT") && !is_whole();
}

__attribute__((unused)) static void plan(unsigned n)
{
    tap.planned = n;
    printf("1..%u\n", n);
    fflush(stdout);
}

/* The whole program has nothing to test here: prints the reason and ends. */
__attribute__((unused)) static void skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    exit(0);
}

__attribute__((unused, format(printf, 4, 5))) static bool
tap_ok(bool good, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%sok %u - ", good ? "" : "not ", ++tap.run);
    vprintf(fmt, ap);
    fputc('\n', stdout);
    va_end(ap);
    if (!good) {
        tap.failed++;
        printf("#   failed at %s:%d\n", file, line);
    }
    fflush(stdout);
    return good;
}

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

#define is_int(got, want, ...)                                                                     \
    ({                                                                                             \
        long long tap_g = (long long)(got), tap_w = (long long)(want);                             \
        bool tap_good = ok(tap_g == tap_w, __VA_ARGS__);                                           \
        if (!tap_good)                                                                             \
            diag("got %lld, want %lld", tap_g, tap_w);                                             \
        tap_good;                                                                                  \
    })

#define is_str(got, want, ...)                                                                     \
    ({                                                                                             \
        const char *tap_g = (got), *tap_w = (want);                                                \
        bool tap_good = ok(tap_g && strcmp(tap_g, tap_w) == 0, __VA_ARGS__);                       \
        if (!tap_good)                                                                             \
            diag("got \"%s\", want \"%s\"", tap_g ? tap_g : "(null)", tap_w);                      \
        tap_good;                                                                                  \
    })

/* Good when text contains word; shows the text otherwise. */
#define has_str(text, word, ...)                                                                   \
    ({                                                                                             \
        const char *tap_t = (text), *tap_w = (word);                                               \
        bool tap_good = ok(tap_t && strstr(tap_t, tap_w), __VA_ARGS__);                            \
        if (!tap_good)                                                                             \
            diag("\"%s\" lacks \"%s\"", tap_t ? tap_t : "(null)", tap_w);                          \
        tap_good;                                                                                  \
    })

__attribute__((unused)) static void skip(const char *what, const char *reason)
{
    printf("ok %u - %s # SKIP %s\n", ++tap.run, what, reason);
    fflush(stdout);
}

__attribute__((unused, noreturn)) static void bail(const char *why)
{
    printf("Bail out! %s\n", why);
    fflush(stdout);
    _exit(1);
}

/* Ends the program: prints the plan if none was given; status 1 if anything failed. */
__attribute__((unused, noreturn)) static void done(void)
{
    if (!tap.planned)
        printf("1..%u\n", tap.run);
    fflush(stdout);
    exit(tap.failed || (tap.planned && tap.planned != tap.run));
}

#endif
