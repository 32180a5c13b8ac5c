/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/param.h"
#include "nvme.h"

static int paths(const struct zero__voice *voice, struct nvme_settings *s)
{
    /* That of large temporary files which are not to lie in memory. */
    const char *text = zero__param_text(voice, "nvme_path", "/var/tmp",
                                        "folders on local disks, separated by ':'; stores are "
                                        "striped over them, each has its own disk");

    if (!*text)
        return zero__say(voice, -EINVAL,
                         "no place for the tier nvme: ZERO_NVME_PATH is empty; set it to a folder "
                         "on a local disk, or to several on one disk each, separated by ':'");
    s->paths = strdup(text);
    if (!s->paths)
        return zero__say(voice, -ENOMEM, "no memory for the option nvme_path");
    for (char *at = s->paths, *end; at; at = end) {
        end = strchr(at, ':');
        if (end)
            *end++ = 0;
        if (!*at)
            return zero__say(voice, -EINVAL,
                             "ZERO_NVME_PATH is \"%s\": there is nothing before or after a ':'",
                             text);
        if (*at != '/')
            return zero__say(voice, -EINVAL,
                             "ZERO_NVME_PATH names \"%s\"; a folder is given from the root, "
                             "beginning with '/'",
                             at);
        if (s->n_paths == NVME_PATHS)
            return zero__say(voice, -EINVAL,
                             "ZERO_NVME_PATH names more than %d folders: leave some out",
                             NVME_PATHS);
        for (int i = 0; i < s->n_paths; i++)
            if (strcmp(s->path[i], at) == 0)
                return zero__say(voice, -EINVAL, "ZERO_NVME_PATH names %s twice", at);
        s->path[s->n_paths++] = at;
    }
    return 0;
}

int zero__nvme_settings(const struct zero__voice *voice, struct nvme_settings *settings)
{
    enum { AUTO, IO_URING, THREADS };
    struct nvme_settings s = {0};
    uint64_t depth;
    int engine, err = paths(voice, &s);

    if (!err)
        err = zero__param_number(voice, "nvme_depth", "16", 1, NVME_MAX_DEPTH,
                                 "transfers under way for each folder", &depth);
    if (!err)
        err = zero__param_word(voice, "nvme_engine", "auto", "auto|io_uring|threads",
                               "io_uring, threads, or auto: io_uring where the system allows it",
                               &engine);
    if (!err)
        err = zero__param_flag(voice, "nvme_checksum", "1",
                               "1: what is read is compared with a checksum of what was written",
                               &s.sums);
    if (!err)
        err = zero__param_flag(voice, "nvme_direct", "1",
                               "1: past the page cache, where the folder can", &s.direct);
    if (err) {
        zero__nvme_settings_free(&s);
        return err;
    }
    s.depth = (uint32_t)depth;
    s.uring_wanted = engine == IO_URING;
    s.uring = engine != THREADS;
    *settings = s;
    return 0;
}

void zero__nvme_settings_free(struct nvme_settings *settings)
{
    free(settings->paths);
    settings->paths = NULL;
}
