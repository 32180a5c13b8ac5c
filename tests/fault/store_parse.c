/* SPDX-License-Identifier: Apache-2.0 */
/* ZERO_FAULT_IO as faults; the language is in store.h. */
#include <string.h>

#include "plugins/common/io.h"
#include "plugins/common/param.h"
#include "store.h"

static const char *const actions[STORE_N_ACTIONS] = {"delay",   "cut",  "slow",  "busy",
                                                     "reorder", "drop", "error", "kill"};

static const char *read_action(void *arg, const char *word, const char *value)
{
    struct store_fault *f = arg;
    int a = zero__fault_word(word, actions, STORE_N_ACTIONS);

    if (a < 0)
        return "there is no such action: delay, cut, slow, busy, reorder, drop, error or kill";
    f->action = (enum store_action)a;
    switch (f->action) {
    case STORE_DELAY:
        return value && zero__digits_read(value, NULL, 0, FAULT_DELAY_MOST_MS, &f->value)
                   ? NULL
                   : "delay wants milliseconds";
    case STORE_CUT:
        return value && zero__digits_read(value, NULL, 1, UINT64_MAX / 2, &f->value)
                   ? NULL
                   : "cut wants bytes";
    case STORE_SLOW:
        return value && zero__digits_read(value, NULL, 1, UINT32_MAX, &f->value)
                   ? NULL
                   : "slow wants bytes a second";
    case STORE_ERROR:
        return value && zero__fault_errno(value, &f->value) ? NULL : "error wants an errno";
    default:
        return value ? "this action takes no value" : NULL;
    }
}

static const char *read_key(void *arg, const char *key, const char *value)
{
    struct store_fault *f = arg;

    if (!value)
        return "a key wants a value";
    if (strcmp(key, "op") == 0) {
        for (uint32_t op = ZERO_IO_READ; op <= ZERO_IO_SYNC; op++)
            if (strcmp(value, zero__io_name(op)) == 0)
                f->op = op;
        return f->op ? NULL : "op is read, write or sync";
    }
    if (strcmp(key, "n") == 0)
        return zero__digits_read(value, NULL, 1, UINT32_MAX, &f->first) ? NULL
                                                                        : "n is a number from 1";
    if (strcmp(key, "every") == 0)
        return zero__digits_read(value, NULL, 1, UINT32_MAX, &f->every)
                   ? NULL
                   : "every is a number from 1";
    if (strcmp(key, "times") == 0)
        return zero__digits_read(value, NULL, 0, UINT32_MAX, &f->times) ? NULL
                                                                        : "times is a number";
    return "keys are op, n, every and times";
}

static const char *read_fault(void *faults, int i, char *text)
{
    struct store_fault *f = (struct store_fault *)faults + i;
    const char *why;

    *f = (struct store_fault){.first = 1, .every = 1, .times = 1};
    why = zero__fault_words(text, read_action, read_key, f);
    if (!why && f->action == STORE_DROP) {
        if (f->op && f->op != ZERO_IO_WRITE)
            return "drop is for writes";
        f->op = ZERO_IO_WRITE;
    }
    return why;
}

int zero__store_faults(const struct zero__voice *voice, const char *text,
                       struct store_fault faults[FAULT_MOST], int *n)
{
    int found = zero__fault_list(voice, "ZERO_FAULT_IO", text,
                                 "zero-plugin(7) has the whole language", read_fault, faults);

    if (found < 0)
        return found;
    *n = found;
    return 0;
}
