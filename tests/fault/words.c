/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plugins/common/param.h"

static const struct {
    const char *name;
    int err;
} errors[] = {
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EINTR", EINTR},
    {"EIO", EIO},
    {"EAGAIN", EAGAIN},
    {"ENOMEM", ENOMEM},
    {"EBUSY", EBUSY},
    {"ENODEV", ENODEV},
    {"EINVAL", EINVAL},
    {"ENOSPC", ENOSPC},
    {"EROFS", EROFS},
    {"EPIPE", EPIPE},
    {"EPROTO", EPROTO},
    {"EBADMSG", EBADMSG},
    {"ENOTSUP", ENOTSUP},
    {"ENETDOWN", ENETDOWN},
    {"ECONNRESET", ECONNRESET},
    {"ECONNABORTED", ECONNABORTED},
    {"ETIMEDOUT", ETIMEDOUT},
    {"ECANCELED", ECANCELED},
    {"EHOSTUNREACH", EHOSTUNREACH},
};

bool zero__fault_errno(const char *text, uint64_t *x)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(text, errors[i].name) == 0) {
            *x = (uint64_t)errors[i].err;
            return true;
        }
    return zero__digits_read(text, NULL, 1, 4095, x);
}

int zero__fault_word(const char *word, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return -1;
}

const char *zero__fault_words(char *text, zero__fault_reader *action, zero__fault_reader *key,
                              void *arg)
{
    const char *wrong = NULL;
    bool first = true;

    for (char *rest = text, *word; !wrong && (word = strsep(&rest, ":")); first = false) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = 0;
        if (!*word)
            wrong = first && !rest ? "it is empty" : "nothing stands before or after a colon";
        else
            wrong = (first ? action : key)(arg, word, value);
    }
    return wrong;
}

int zero__fault_list(const struct zero__voice *v, const char *variable, const char *text,
                     const char *help, zero__fault_one *one, void *faults)
{
    const char *at = text;
    int n = 0;

    while (*at || at != text) {
        size_t len = strcspn(at, ",");
        char copy[FAULT_TEXT], limit[64];
        const char *wrong = limit;

        snprintf(limit, sizeof limit, "it has more than %d characters", FAULT_TEXT - 1);
        if (n == FAULT_MOST)
            return zero__say(v, -EINVAL,
                             "%s has more than %d faults: leave some out, or try them in several "
                             "runs",
                             variable, FAULT_MOST);
        if (len < sizeof copy) {
            memcpy(copy, at, len);
            copy[len] = 0;
            wrong = one(faults, n, copy);
        }
        if (wrong)
            return zero__say(v, -EINVAL, "%s: \"%.*s\": %s; %s", variable,
                             (int)(len < 200 ? len : 200), at, wrong, help);
        n++;
        if (!at[len])
            break;
        at += len + 1;
    }
    return n;
}
