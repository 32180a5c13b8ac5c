/* SPDX-License-Identifier: Apache-2.0 */
/* ZERO_FAULT_IO as faults; the language is in store.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/io.h"
#include "store.h"

static const char *const actions[STORE_N_ACTIONS] = {"delay",   "cut",  "slow",  "busy",
                                                     "reorder", "drop", "error", "kill"};

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *x)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < least || n > most)
        return false;
    *x = n;
    return true;
}

static bool error_number(const char *text, uint64_t *x)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC},       {"EAGAIN", EAGAIN},
                 {"EINTR", EINTR}, {"ETIMEDOUT", ETIMEDOUT}, {"ENOMEM", ENOMEM},
                 {"EROFS", EROFS}, {"ENODEV", ENODEV},       {"EBADMSG", EBADMSG}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *x = (uint64_t)names[i].number;
            return true;
        }
    return number(text, 1, 4095, x);
}

/* NULL, or what is wrong. */
static const char *read_action(struct store_fault *f, const char *word, const char *value)
{
    int a = 0;

    while (a < STORE_N_ACTIONS && strcmp(word, actions[a]) != 0)
        a++;
    if (a == STORE_N_ACTIONS)
        return "there is no such action: delay, cut, slow, busy, reorder, drop, error or kill";
    f->action = (enum store_action)a;
    switch (f->action) {
    case STORE_DELAY:
        return value && number(value, 0, 3600000, &f->value) ? NULL : "delay wants milliseconds";
    case STORE_CUT:
        return value && number(value, 1, UINT64_MAX / 2, &f->value) ? NULL : "cut wants bytes";
    case STORE_SLOW:
        return value && number(value, 1, UINT32_MAX, &f->value) ? NULL
                                                                : "slow wants bytes a second";
    case STORE_ERROR:
        return value && error_number(value, &f->value) ? NULL : "error wants an errno";
    default:
        return value ? "this action takes no value" : NULL;
    }
}

static const char *read_key(struct store_fault *f, const char *key, const char *value)
{
    if (!value)
        return "a key wants a value";
    if (strcmp(key, "op") == 0) {
        for (uint32_t op = ZERO_IO_READ; op <= ZERO_IO_SYNC; op++)
            if (strcmp(value, zero__io_name(op)) == 0)
                f->op = op;
        return f->op ? NULL : "op is read, write or sync";
    }
    if (strcmp(key, "n") == 0)
        return number(value, 1, UINT32_MAX, &f->first) ? NULL : "n is a number from 1";
    if (strcmp(key, "every") == 0)
        return number(value, 1, UINT32_MAX, &f->every) ? NULL : "every is a number from 1";
    if (strcmp(key, "times") == 0)
        return number(value, 0, UINT32_MAX, &f->times) ? NULL : "times is a number";
    return "keys are op, n, every and times";
}

static const char *read_fault(struct store_fault *f, char *text)
{
    const char *why = NULL;
    bool first = true;

    *f = (struct store_fault){.first = 1, .every = 1, .times = 1};
    for (char *rest = text, *word; !why && (word = strsep(&rest, ":")); first = false) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = 0;
        if (!*word)
            why = first ? "an action is missing" : "nothing stands before or after a colon";
        else
            why = first ? read_action(f, word, value) : read_key(f, word, value);
    }
    if (!why && f->action == STORE_DROP) {
        if (f->op && f->op != ZERO_IO_WRITE)
            return "drop is for writes";
        f->op = ZERO_IO_WRITE;
    }
    return why;
}

int zero__store_faults(const struct zero__voice *voice, const char *text,
                       struct store_fault faults[STORE_FAULTS], int *n)
{
    char one[128];

    for (*n = 0; *text || *n; ++*n) {
        size_t len = strcspn(text, ",");
        const char *why;
        if (*n == STORE_FAULTS || len >= sizeof one)
            return zero__say(voice, -EINVAL,
                             "ZERO_FAULT_IO has more than %d faults, or one of %zu "
                             "characters or more",
                             STORE_FAULTS, sizeof one);
        memcpy(one, text, len);
        one[len] = 0;
        why = read_fault(&faults[*n], one);
        if (why)
            return zero__say(voice, -EINVAL,
                             "ZERO_FAULT_IO: \"%.*s\": %s; zero-plugin(7) has the whole language",
                             (int)len, text, why);
        if (!text[len]) {
            ++*n;
            break;
        }
        text += len + 1;
    }
    return 0;
}
