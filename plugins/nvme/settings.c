/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvme.h"

static const char *param(const struct zero__voice *voice, const char *key, const char *dflt,
                         const char *help)
{
    return voice->host->param(voice->host->ctx, voice->plugin, key, dflt, help);
}

static int flag(const struct zero__voice *voice, const char *key, const char *name,
                const char *help, bool *on)
{
    const char *text = param(voice, key, "1", help);

    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return zero__say(voice, -EINVAL, "%s is %s: give 0 or 1", name, text);
    *on = *text == '1';
    return 0;
}

static int paths(const struct zero__voice *voice, struct nvme_settings *s)
{
    /* That of large temporary files which are not to lie in memory. */
    const char *text = param(voice, "nvme_path", "/var/tmp",
                             "folders on local disks, separated by ':'; stores are striped over "
                             "them, each has its own disk");

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
            return zero__say(voice, -EINVAL, "ZERO_NVME_PATH names more than %d folders",
                             NVME_PATHS);
        for (int i = 0; i < s->n_paths; i++)
            if (strcmp(s->path[i], at) == 0)
                return zero__say(voice, -EINVAL, "ZERO_NVME_PATH names %s twice", at);
        s->path[s->n_paths++] = at;
    }
    return 0;
}

static int depth(const struct zero__voice *voice, struct nvme_settings *s)
{
    const char *text = param(voice, "nvme_depth", "16", "transfers under way for each folder");
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || n < 1 || n > NVME_MAX_DEPTH)
        return zero__say(voice, -EINVAL, "ZERO_NVME_DEPTH is \"%s\"; it is a number from 1 to %u",
                         text, NVME_MAX_DEPTH);
    s->depth = (uint32_t)n;
    return 0;
}

static int engine(const struct zero__voice *voice, struct nvme_settings *s)
{
    const char *text = param(voice, "nvme_engine", "auto",
                             "io_uring, threads, or auto: io_uring where the system allows it");

    s->uring_wanted = strcmp(text, "io_uring") == 0;
    s->uring = s->uring_wanted || strcmp(text, "auto") == 0;
    if (s->uring || strcmp(text, "threads") == 0)
        return 0;
    return zero__say(voice, -EINVAL, "ZERO_NVME_ENGINE is \"%s\"; it is auto, io_uring or threads",
                     text);
}

int zero__nvme_settings(const struct zero__voice *voice, struct nvme_settings *settings)
{
    struct nvme_settings s = {0};
    int err = paths(voice, &s);

    if (!err)
        err = depth(voice, &s);
    if (!err)
        err = engine(voice, &s);
    if (!err)
        err = flag(voice, "nvme_checksum", "ZERO_NVME_CHECKSUM",
                   "1: what is read is compared with a checksum of what was written", &s.sums);
    if (!err)
        err = flag(voice, "nvme_direct", "ZERO_NVME_DIRECT",
                   "1: past the page cache, where the folder can", &s.direct);
    if (err)
        zero__nvme_settings_free(&s);
    else
        *settings = s;
    return err;
}

void zero__nvme_settings_free(struct nvme_settings *settings)
{
    free(settings->paths);
    settings->paths = NULL;
}
