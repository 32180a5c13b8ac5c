/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan that does not fit is refused with settings that would make it fit: each of them does, and
 * the bits are the same.
 */
#include "../tap.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"

#define MOST_OTHER 7
#define PROGRAMS " (the program sets it)"

static char path[4096];

/* Variables, but those that `programs` names, which the program sets. */
struct job {
    const char *stage, *offload, *limit, *bucket, *prefetch;
    int ranks;
    const char *programs;
};

struct said {
    pthread_mutex_t lock;
    char text[4096];
};

/* Any rank's that has a table. */
static void failed(int rank, int err, const char *error, void *arg)
{
    struct said *said = arg;

    (void)rank, (void)err, (void)error;
    pthread_mutex_lock(&said->lock);
    if (strstr(zero_last_error(), "what would make it fit"))
        snprintf(said->text, sizeof said->text, "%s", zero_last_error());
    pthread_mutex_unlock(&said->lock);
}

static void variable_set(const char *name, const char *value)
{
    char variable[64];

    snprintf(variable, sizeof variable, "ZERO_%s", name);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

/* other: set as well, or otherwise; a name with ZERO_ is a variable. */
static int run(const struct job *j, const struct zero_setting *other, uint32_t n_other,
               struct said *said, struct toy_result *r)
{
    const struct zero_setting all[] = {
        {"stage", j->stage},         {"offload", j->offload},         {"memory_limit", j->limit},
        {"bucket_bytes", j->bucket}, {"prefetch_bytes", j->prefetch}, {"tile_bytes", "256K"},
        {"nvme_checksum", NULL}};
    struct zero_setting s[8 + MOST_OTHER] = {{"timeout", "20"}};
    struct toy t = {.ranks = j->ranks,
                    .layers = 6,
                    .steps = 2,
                    .dtype = ZERO_BF16,
                    .width = 20000,
                    .settings = s,
                    .n_settings = 1,
                    .failed = failed,
                    .arg = said,
                    .seed = 7};

    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        int programs = j->programs && strstr(j->programs, all[i].name);
        variable_set(all[i].name, programs ? NULL : all[i].value);
        if (programs)
            s[t.n_settings++] = all[i];
    }
    for (uint32_t i = 0; i < n_other; i++) {
        uint32_t at = 0;
        if (!strncmp(other[i].name, "ZERO_", 5)) {
            variable_set(other[i].name + 5, other[i].value);
            continue;
        }
        while (at < t.n_settings && strcmp(s[at].name, other[i].name) != 0)
            at++;
        s[at] = other[i];
        t.n_settings += at == t.n_settings;
    }
    return toy_train(&t, r);
}

/* "ZERO_NAME=VALUE name=value (the program sets it)" as settings, in its own bytes. */
static uint32_t settings_read(char *text, struct zero_setting *s)
{
    uint32_t n = 0;
    char *rest, *word;

    while ((word = strstr(text, PROGRAMS)))
        memset(word, ' ', strlen(PROGRAMS));
    word = strtok_r(text, " ", &rest);
    for (; word && n < MOST_OTHER; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (!value)
            return 0;
        *value = 0;
        s[n++] = (struct zero_setting){word, value + 1};
    }
    return n;
}

/* words: what is among the remedies. */
static void refused(const struct job *j, const char *words)
{
    struct said said = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct zero_setting other[MOST_OTHER];
    struct toy_result r, free_r;
    struct job unlimited = *j;
    char all[4096];

    unlimited.limit = "";
    int err = run(&unlimited, NULL, 0, &said, &free_r);
    is_int(err, 0, "without a limit there is room");
    err = run(j, NULL, 0, &said, &r);
    char *told = strstr(said.text, "what would make it fit: ");
    ok(err == -ENOMEM && told && strstr(told, words),
       "%s in \"%s\" is refused, and \"%s\" helps%s%s", j->limit, j->offload, words,
       j->programs ? "; the program sets " : "", j->programs ? j->programs : "");
    diag("%s", said.text);
    if (!told)
        return;
    told += strlen("what would make it fit: ");
    told[strcspn(told, "\n")] = 0;
    snprintf(all, sizeof all, "%s", told);
    for (char *next, *one = all; one; one = next) {
        char text[sizeof all];
        next = strstr(one, "; or ");
        if (next)
            *next = 0, next += strlen("; or ");
        snprintf(text, sizeof text, "%s", one);
        uint32_t n = settings_read(text, other);
        err = n ? run(j, other, n, &said, &r) : -EINVAL;
        ok(!err && r.agree && r.hash == free_r.hash, "with %s it fits, and the bits are the same",
           one);
        if (err)
            diag("%s", r.error);
    }
}

int main(void)
{
    folder_make("remedy", path);
    setenv("ZERO_NVME_PATH", path, 1); /* a setting would be unknown where nothing lies there */
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* nobody can make it */
    refused(&(struct job){"2", "", "device:2800K", "64M", "128M", 2, NULL},
            "ZERO_OFFLOAD=optimizer:cpu");
    refused(&(struct job){"0", "", "device:3600K", "64M", "128M", 2, NULL}, "ZERO_STAGE=");
    refused(&(struct job){"3", "", "device:2300K", "64M", "128M", 2, NULL},
            "ZERO_MEMORY_LIMIT=device:");
    refused(&(struct job){"3", "", "device:3100K", "64M", "128M", 2, NULL}, "ZERO_PREFETCH_BYTES=");
    refused(&(struct job){"0", "optimizer:cpu", "cpu:2M", "64M", "128M", 1, NULL}, "ZERO_OFFLOAD=");
    refused(&(struct job){"0", "optimizer:nvme", "cpu:1040K", "64M", "128M", 1, NULL},
            "ZERO_TILE_BYTES=");
    refused(&(struct job){"2", "auto", "device:900K,cpu:1500K", "64M", "128M", 2, NULL}, "ZERO_");
    refused(&(struct job){"2", "optimizer:cpu", "device:1200K,cpu:1240K", "64M", "128M", 2, NULL},
            "ZERO_");
    refused(&(struct job){"2", "auto", "device:64K,cpu:64K", "64M", "128M", 1, NULL},
            "ZERO_MEMORY_LIMIT=device:");
    /* Where nothing is enough: the least that was found. */
    refused(&(struct job){"0", "", "device:64K", "64M", "128M", 2, NULL},
            "; or ZERO_MEMORY_LIMIT=device:");
    /* What the program sets no variable changes. */
    refused(&(struct job){"0", "", "device:3600K", "64M", "128M", 2, "stage"},
            "; or stage=3" PROGRAMS "; or ZERO_MEMORY_LIMIT=");
    refused(&(struct job){"3", "", "device:2300K", "64M", "128M", 2, "memory_limit offload"},
            "memory_limit=device:");
    refused(&(struct job){"2", "optimizer:cpu", "device:1200K,cpu:1240K", "64M", "128M", 2,
                          "stage offload bucket_bytes"},
            PROGRAMS);
    refused(&(struct job){"0", "optimizer:nvme", "cpu:1040K", "64M", "128M", 1,
                          "stage offload memory_limit bucket_bytes prefetch_bytes tile_bytes"},
            "tile_bytes=");
    rmdir(path);
    done();
}
