/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank waits in zero_barrier() while the other one goes on to the next step and waits for it
 * there: the crash reports say of each what it was at.
 */
#include "../tap.h"

#include <dirent.h>

#include "folder.h"
#include "toy.h"

#define RANKS 2

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    (void)info, (void)arg;
    if (rank == 1 && step == 1)
        zero_barrier(rt);
}

/* The report of a rank, and its name; it is removed. */
static void take(const char *folder, int rank, char *text, size_t room)
{
    char end[32], path[4096 + 300] = "";
    DIR *dir = opendir(folder);
    struct dirent *d;

    text[0] = 0;
    snprintf(end, sizeof end, "-%04d.jsonl", rank);
    while (dir && (d = readdir(dir)))
        if (strstr(d->d_name, end))
            snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    if (dir)
        closedir(dir);
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    text[fread(text, 1, room - 1, f)] = 0;
    fclose(f);
    unlink(path);
}

static void show(const char *folder, char *text, size_t room)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char command[8192];

    snprintf(command, sizeof command, "%s/zero report crash %s 2>&1", build ? build : ".", folder);
    FILE *f = popen(command, "r");
    text[f ? fread(text, 1, room - 1, f) : 0] = 0;
    if (f)
        pclose(f);
}

int main(void)
{
    static char folder[4096], shown[8192], text[RANKS][1 << 20];
    const struct zero_setting s[] = {
        {"stage", "3"}, {"map", "0"}, {"timeout", "5"}, {"join_timeout", "60"},
        {"crash_dir", folder}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 5, .dtype = ZERO_F32, .width = 500,
                    .settings = s, .n_settings = 5, .seed = 11, .stepped = stepped,
                    .log = log_nothing};
    struct toy_result r;

    folder_make("crash-control", folder);
    alarm(100);
    ok(toy_train(&t, &r) != 0, "the job fails: %s", r.error);
    show(folder, shown, sizeof shown);
    for (int i = 0; i < RANKS; i++)
        take(folder, i, text[i], sizeof text[i]);
    has_str(text[1], "\"queue\": \"control\", \"number\": 1, \"kind\": \"zero_barrier()\"",
            "rank 1 was in zero_barrier()");
    ok(text[0][0] && !strstr(text[0], "\"control\""), "and rank 0 was not");
    has_str(shown, "zero_barrier(), for ", "zero report crash shows it");
    diag("%s", shown);
    folder_end(folder);
    done();
}
