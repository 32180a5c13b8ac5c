/* SPDX-License-Identifier: Apache-2.0 */
/* See select.h. */
#include "select.h"

#include <string.h>

#include "watch.h"

int check_parse(const char *tool, struct check_select *s, const struct tool_arg *own,
                uint64_t least_timeout_s, void (*help)(FILE *f), int argc, char **argv)
{
    const struct tool_arg args[] = {
        *own,
        TOOL_ARG("case", TEXT, &s->only),
        TOOL_ARG("repeat", WHOLE, &s->repeat, TOOL_RANGE(1, 1000000)),
        TOOL_ARG("seed", WHOLE, &s->seed, TOOL_RANGE(0, UINT32_MAX)),
        TOOL_ARG("huge", ON, &s->huge),
        TOOL_ARG("timeout", WHOLE, &s->timeout_s, TOOL_RANGE(least_timeout_s, 1000000)),
        TOOL_ARG("list", ON, &s->list),
    };

    *s = (struct check_select){.only = "", .seed = 1, .repeat = 1, .timeout_s = CHECK_WATCH_S};
    int status = tool_args(tool, args, sizeof args / sizeof *args, TOOL_WORDS, help, argc, argv);
    return status >= 0 || s->list ? status : tool_plugin(tool, argc, argv, &s->plugin);
}

bool check_chosen(const struct check_select *s, const char *name)
{
    return strstr(name, s->only);
}

int check_ready(const char *tool, const struct check_select *s, const void *cases,
                size_t size_of_case, unsigned *n)
{
    unsigned chosen = 0;

    for (const char *at = cases, *name; (name = *(const char *const *)at); at += size_of_case) {
        if (s->list)
            puts(name);
        chosen += check_chosen(s, name);
    }
    if (s->list)
        return 0;
    if (!chosen) {
        fprintf(stderr, "zero %s: no case has \"%s\" in its name: see --list\n", tool, s->only);
        return 2;
    }
    *n = chosen;
    return -1;
}
