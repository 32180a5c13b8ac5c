/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: levels by component, one write per message, nothing that forges a line. */
#define _GNU_SOURCE
#include "../tap.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"

static char seen[8192];
static int seen_level;

static void sink(void *arg, int level, const char *line)
{
    ++*(int *)arg;
    seen_level = level;
    snprintf(seen, sizeof seen, "%s", line);
}

static void levels(void)
{
    struct zero__log log = {0};
    char why[128];

    is_int(zero__log_levels(&log, "", why, sizeof why), 0, "an empty text is fine");
    ok(zero__log_shows(&log, ZERO_LOG_WARN, "shm") && !zero__log_shows(&log, ZERO_LOG_INFO, "shm"),
       "and means warnings");
    is_int(zero__log_levels(&log, "debug,comm:trace,shm:none", why, sizeof why), 0, "exceptions");
    ok(zero__log_shows(&log, ZERO_LOG_DEBUG, "engine"), "the level of all");
    ok(!zero__log_shows(&log, ZERO_LOG_TRACE, "engine"), "and no more");
    ok(zero__log_shows(&log, ZERO_LOG_TRACE, "comm"), "a component with more");
    ok(!zero__log_shows(&log, ZERO_LOG_ERROR, "shm"), "a component that is silent");
    ok(!zero__log_shows(NULL, ZERO_LOG_ERROR, "shm"), "no log, no line");
    is_int(zero__log_levels(&log, "loud", why, sizeof why), -EINVAL, "an unknown level");
    has_str(why, "\"loud\"", "is named");
    ok(zero__log_shows(&log, ZERO_LOG_TRACE, "comm"), "and the old levels stay");
    is_int(zero__log_levels(&log, ":debug", why, sizeof why), -EINVAL, "an empty component");
    is_int(zero__log_levels(&log,
                            "a:info,b:info,c:info,d:info,e:info,f:info,g:info,h:info,i:info,"
                            "j:info,k:info,l:info,m:info,n:info,o:info,p:info,q:info",
                            why, sizeof why),
           -EINVAL, "too many components");
}

static void lines(void)
{
    int n = 0;
    struct zero__log log = {sink, &n, 1, ZERO_LOG_INFO, 0, {{"", 0}}, NULL};
    char large[9000];

    errno = ENOENT;
    zero__log(&log, ZERO_LOG_INFO, "shm", "cannot open %s: %m", "x");
    is_str(seen, "zero: rank 1: shm: cannot open x: No such file or directory", "a line");
    is_int(errno, ENOENT, "errno is kept");
    is_int(seen_level, ZERO_LOG_INFO, "with its level");
    zero__log(&log, ZERO_LOG_DEBUG, "shm", "not shown");
    is_int(n, 1, "what is not shown is not sent");
    zero__log(&log, ZERO_LOG_WARN, "plan", "a\nb\n");
    is_str(seen, "zero: rank 1: plan: a\nzero: rank 1: plan: b", "every line has the prefix");
    zero__log(&log, ZERO_LOG_WARN, "plan", "a\033[2Jb\r");
    is_str(seen, "zero: rank 1: plan: a?[2Jb?", "control characters do not get through");
    zero__log(&log, ZERO_LOG_WARN, "plan", "a\tb\xc2\x9b" "2J\x7f\xc2\xa9");
    is_str(seen, "zero: rank 1: plan: a b??2J?\xc2\xa9",
           "nor those of two bytes, as others do; a tab is a blank");
    log.rank = -1;
    zero__log(&log, ZERO_LOG_WARN, "plan", "%s", "");
    is_str(seen, "zero: plan: ", "an empty message without a rank");
    memset(large, '\n', sizeof large - 1);
    large[sizeof large - 1] = 0;
    zero__log(&log, ZERO_LOG_WARN, "plan", "%s", large);
    ok(strlen(seen) < sizeof seen, "a message of many lines is cut");
}

/* Without a sink a message is one write() to standard error: a pipe in packet mode shows it. */
static void standard_error(void)
{
    struct zero__log log = {.rank = 0, .level = ZERO_LOG_INFO};
    int fds[2], saved = dup(STDERR_FILENO);
    char text[256];

    if (saved < 0 || pipe2(fds, O_DIRECT) < 0)
        bail("no pipe");
    dup2(fds[1], STDERR_FILENO);
    zero__log(&log, ZERO_LOG_INFO, "job", "one\ntwo");
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(fds[0], text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    is_str(text, "zero: rank 0: job: one\nzero: rank 0: job: two\n", "one write for a message");
}

int main(void)
{
    levels();
    lines();
    standard_error();
    done();
}
