/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: lines, comments, errors with line numbers, and garbage. */
#include "../tap.h"

#include <errno.h>

#include "base/config_file.h"
#include "base/status.h"

static int parse(const char *text, struct zero__config_file *f)
{
    return zero__config_parse("x.conf", text, strlen(text), f);
}

static void refuse(const char *text, const char *sentence)
{
    struct zero__config_file f = {0};
    is_int(parse(text, &f), -EINVAL, "refused");
    has_str(zero__error_text(), sentence, "%s", sentence);
    ok(f.lines == NULL, "nothing is left");
}

static void lines(void)
{
    struct zero__config_file f = {0};

    is_int(parse("", &f), 0, "an empty file");
    is_int(f.n_lines, 0, "says nothing");
    zero__config_close(&f);
    is_int(parse("# c\r\n stage =  3 \r\ncomm=/a#b # c\nlog =\n\n\nlr=1 =2", &f), 0, "a file");
    is_int(f.n_lines, 4, "four settings");
    is_str(f.lines[0].name, "stage", "a name");
    is_str(f.lines[0].value, "3", "a value without blanks");
    is_int(f.lines[0].line, 2, "its line");
    is_str(f.lines[1].value, "/a#b", "# inside a word is no comment");
    is_str(f.lines[2].value, "", "an empty value");
    is_str(f.lines[3].value, "1 =2", "the first = counts; the last line needs no end");
    is_int(f.lines[3].line, 7, "empty lines count");
    zero__config_close(&f);

    refuse("stage = 3\nstage 4\n", "x.conf:2: \"stage 4\" is not of the form name = value");
    refuse("ZERO_STAGE = 3\n", "x.conf:1: \"ZERO_STAGE\" is no name of an option");
    refuse("= 3\n", "x.conf:1: \"\" is no name");
    refuse("a = 1\nb = 2\na = 3\n", "x.conf:3: a is set a second time; the first is in line 1");
    is_int(zero__config_parse("x.conf", "a = 1\nb = \0\n", 12, &f), -EINVAL, "a zero byte");
    has_str(zero__error_text(), "x.conf:2", "has a line");
    char *large = calloc(1, ZERO__CONFIG_BYTES + 1);
    is_int(zero__config_parse("x.conf", large, ZERO__CONFIG_BYTES + 1, &f), -EINVAL, "too large");
    char *at = large;
    for (int i = 0; i <= ZERO__CONFIG_LINES; i++)
        at += sprintf(at, "n%d=1\n", i);
    is_int(parse(large, &f), -EINVAL, "too many settings");
    free(large);
}

static void garbage(void)
{
    static const char letters[] = "ab_9= \t#\n\r\"\\\0Z\xff";
    unsigned seed = 7, bad = 0;

    for (unsigned i = 0; i < 50000 && !bad; i++) {
        char text[64];
        size_t n = (unsigned)rand_r(&seed) % sizeof text;
        for (size_t j = 0; j < n; j++)
            text[j] = letters[(unsigned)rand_r(&seed) % (sizeof letters - 1)];
        struct zero__config_file f = {0};
        int err = zero__config_parse("x.conf", text, n, &f);
        if (err && strncmp(zero__error_text(), "x.conf:", 7) != 0)
            bad++;
        for (unsigned j = 0; j < f.n_lines; j++)
            if (!*f.lines[j].name || strpbrk(f.lines[j].name, " =#\n") ||
                strchr(f.lines[j].value, '\n') || f.lines[j].line < 1)
                bad++;
        if (bad)
            diag("seed 7, round %u: %s", i, zero__error_text());
        zero__config_close(&f);
    }
    is_int(bad, 0, "50,000 garbage files");
}

int main(void)
{
    lines();
    garbage();
    done();
}
