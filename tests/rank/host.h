/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that take themselves to be on several hosts. A host is a kernel and a network namespace;
 * the function below stands in for the C library's, so that a rank sees the namespace that it is
 * given, and so do its plugins where the test is linked with -export-dynamic.
 */
#ifndef ZERO_TESTS_RANK_HOST_H
#define ZERO_TESTS_RANK_HOST_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static _Thread_local int host_seen; /* 0: the real one */

__attribute__((visibility("default"))) int stat(const char *path, struct stat *st)
{
    int e = fstatat(AT_FDCWD, path, st, 0);

    if (!e && host_seen && strcmp(path, "/proc/self/ns/net") == 0)
        st->st_ino = (ino_t)host_seen;
    return e;
}

#endif
