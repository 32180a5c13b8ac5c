/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a runtime: table, sources, lookup. Sources, the stronger first: settings of the
 * program (API), ZERO_* environment, configuration file, default. A bad value in any of them is an
 * error that names where it stands; a name that nobody knows is warned about by
 * zero__options_finish(), after the plugins have said which names are theirs.
 *
 * After loading, the table's values do not change (except by zero__options_choose()) and may be
 * read by any thread; parameters of plugins are guarded by a lock.
 */
#ifndef ZERO_BASE_OPTIONS_H
#define ZERO_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <zero/zero.h>

struct zero__log;
struct zero__memory_limit;
struct zero__options;

enum zero__option_id {
#define ZERO__OPTION(id, ...) ZERO__OPT_##id,
#include "base/options_table.h"
#undef ZERO__OPTION
    ZERO__N_OPTIONS
};

/* Indexes of the values of CHOICE options, in the order of the table. */
enum zero__numerics { ZERO__NUMERICS_ORDERED, ZERO__NUMERICS_RELAXED };
enum zero__reduce_at { ZERO__REDUCE_AUTO, ZERO__REDUCE_MICRO, ZERO__REDUCE_BOUNDARY };
enum zero__map { ZERO__MAP_AUTO, ZERO__MAP_NEVER, ZERO__MAP_ALWAYS };
enum zero__update_at { ZERO__UPDATE_END, ZERO__UPDATE_BACKWARD };
enum zero__optimizer { ZERO__ADAMW, ZERO__ADAM, ZERO__SGD, ZERO__CALLBACK };
enum zero__rendezvous_how { ZERO__RENDEZVOUS_AUTO, ZERO__RENDEZVOUS_UNIX, ZERO__RENDEZVOUS_TCP };

/* Reads all sources. -EINVAL for a bad value; the caller ends *options with ..._free(). */
int zero__options_load(const struct zero_setting *settings, uint32_t n_settings,
                       struct zero__options **options);
void zero__options_free(struct zero__options *options);

/* INT, BYTES, BOOL, CHOICE (index). */
int64_t zero__option_int(const struct zero__options *options, enum zero__option_id id);
/* BYTES that cannot be negative. */
uint64_t zero__option_bytes(const struct zero__options *options, enum zero__option_id id);
/* REAL; words as the table says (loss_scale: 0 is dynamic). */
double zero__option_real(const struct zero__options *options, enum zero__option_id id);
/* REAL that is seconds, in nanoseconds. */
int64_t zero__option_ns(const struct zero__options *options, enum zero__option_id id);
/* ZERO_LOG and ZERO_MEMORY_LIMIT, which loading has checked. */
void zero__option_levels(const struct zero__options *options, struct zero__log *log);
void zero__option_limit(const struct zero__options *options, struct zero__memory_limit *limit);
/* Any type, as it was written. */
const char *zero__option_text(const struct zero__options *options, enum zero__option_id id);
/* By lower-case name, parameters of plugins included; NULL: unknown. */
const char *zero__option_find(const struct zero__options *options, const char *name);
/* The same: where the value comes from, as in a listing. */
const char *zero__option_source(const struct zero__options *options, const char *name);

/* The variable of an option, "ZERO_NAME", by its lower-case name. Returns text. */
const char *zero__option_variable(const char *name, char *text, size_t bytes);
/*
 * What a user writes to give an option, by its lower-case name, a value: "ZERO_NAME=VALUE", or,
 * since settings of the program are stronger, "name=value (the program sets it)". Returns text.
 */
const char *zero__option_how(const struct zero__options *options, const char *name,
                             const char *value, char *text, size_t bytes);
/* Does the program itself set it, so that no variable has an effect? */
int zero__option_is_programs(const struct zero__options *options, const char *name);

/*
 * Records what the runtime made of an option that leaves the choice to it (comm, threads …), for
 * listings; `text` must be a valid value. One thread, before others read the option.
 */
int zero__options_choose(struct zero__options *options, enum zero__option_id id, const char *text);

/*
 * The value of a plugin's own option, from the same sources, or dflt; `owner` and `help` are kept
 * for listings. The string lives as long as the options. Any thread. NULL without memory.
 */
const char *zero__options_param(struct zero__options *options, const char *owner, const char *name,
                                const char *dflt, const char *help);

/* May a plugin still ask for an option of that name: nvme_path, where nvme was not loaded? */
struct zero__option_others {
    bool (*has)(void *arg, const char *name);
    void *arg;
};

/*
 * Logs what was found while loading and names that nobody knows, with the nearest known one (on
 * rank 0; debug elsewhere). Call it once plugins have registered theirs, also on the way out of a
 * failure: then not all_loaded, and only names near a known one are told of, for the others may
 * belong to a plugin that was not reached. What `others` (NULL: nobody) have is not unknown.
 * -EINVAL if the program itself passed an unknown name. Later calls do nothing.
 */
int zero__options_finish(struct zero__options *options, const struct zero__log *log,
                         bool all_loaded, const struct zero__option_others *others);

/* One line of a listing; strings live as long as the options. */
struct zero__option_row {
    const char *name, *value, *default_value;
    const char *source; /* "default", "environment", "file zero.conf:3", "program", "chosen" */
    const char *group, *help;
    char allowed[128]; /* "" of a parameter: its plugin knows */
};

/* The index-th option, plugins' parameters last; -ENOENT beyond the end. */
int zero__options_row(const struct zero__options *options, uint32_t index,
                      struct zero__option_row *row);

#endif
