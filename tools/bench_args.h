/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options that several commands have. `tool` is what stands after "zero" in a sentence on
 * standard error, "bench coll" or "check comm"; each function returns true, or false after one.
 */
#ifndef ZERO_TOOLS_BENCH_ARGS_H
#define ZERO_TOOLS_BENCH_ARGS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* A whole number from least to most. */
bool bench_number(const char *tool, const char *option, const char *text, uint64_t least,
                  uint64_t most, uint64_t *out);
/* The same, of those that fit: most is at most UINT_MAX. */
bool bench_unsigned(const char *tool, const char *option, const char *text, uint64_t least,
                    uint64_t most, unsigned *out);
/* The same with the units K, M and G of 1000 ("100M parameters") or of 1024 (bytes). */
bool bench_count(const char *tool, const char *option, const char *text, uint64_t unit,
                 uint64_t least, uint64_t most, uint64_t *out);
/* f32, bf16 or f16 (fp32 and fp16 too). */
bool bench_dtype(const char *tool, const char *option, const char *text, uint32_t *out);
const char *bench_dtype_name(uint32_t dtype);

#define BENCH_MAX_SIZES 64u

/* Sizes in bytes: "4K:64M" with a factor between neighbours, "1M", and lists of these. */
bool bench_sizes(const char *tool, const char *option, const char *text, uint64_t factor,
                 uint64_t sizes[BENCH_MAX_SIZES], unsigned *n);

/*
 * Says what is wrong where getopt_long() returned c, '?' or ':', or, -1, where it stopped;
 * returns 2. opterr is 0, and what begins with ':' or "+:" are the short options.
 */
int bench_bad_option(const char *tool, const struct option *longs, int c, char **argv);

#endif
