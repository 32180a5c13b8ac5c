/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program to run, and says why it cannot be run before any rank is started. */
#include "config.h"

#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/path.h"

static bool runnable(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* In one folder of PATH; an empty one is the working folder. */
static bool in_folder(const char *folder, size_t len, const char *prog, char *path, size_t room)
{
    int n = len ? snprintf(path, room, "%.*s/%s", (int)len, folder, prog)
                : snprintf(path, room, "./%s", prog);
    return n > 0 && (size_t)n < room && runnable(path);
}

static bool in_path(const char *prog, char *path, size_t room)
{
    const char *p = getenv("PATH");

    for (p = p ? p : "/usr/local/bin:/usr/bin:/bin";; p++) {
        size_t len = strcspn(p, ":");
        if (in_folder(p, len, prog, path, room))
            return true;
        p += len;
        if (!*p)
            return false;
    }
}

static bool beside_us(const char *prog, char *path, size_t room)
{
    char own[4096], *slash = tool_own_path(own, sizeof own) ? strrchr(own, '/') : NULL;

    return slash && in_folder(own, (size_t)(slash - own), prog, path, room);
}

static int why_not(const char *prog, const char *path)
{
    struct stat st;

    if (stat(path, &st))
        fprintf(stderr, "zero run: %s: %s\n", prog, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        fprintf(stderr, "zero run: %s is not a program%s\n", prog,
                S_ISDIR(st.st_mode) ? " but a folder" : "");
    else
        fprintf(stderr,
                "zero run: %s is not executable: try chmod +x, or name its interpreter "
                "before it\n",
                prog);
    return -1;
}

int run_find(const char *prog, char *path, size_t room)
{
    bool ours = strncmp(prog, "zero-", 5) == 0;

    if (strchr(prog, '/')) {
        if (strlen(prog) >= room) {
            fprintf(stderr, "zero run: the program's path is longer than %zu bytes\n", room - 1);
            return -1;
        }
        strcpy(path, prog);
        return runnable(path) ? 0 : why_not(prog, path);
    }
    if ((ours && beside_us(prog, path, room)) || in_path(prog, path, room) ||
        beside_us(prog, path, room))
        return 0;
    if (in_folder("", 0, prog, path, room))
        fprintf(stderr, "zero run: %s is not in PATH, but in this folder: write ./%s\n", prog,
                prog);
    else if (access(prog, F_OK) == 0)
        return why_not(prog, prog);
    else
        fprintf(stderr,
                "zero run: %s not found in PATH or beside this program: check the name, or give "
                "its path\n",
                prog);
    return -1;
}
