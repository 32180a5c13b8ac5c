/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a folder's file system answers at all. A file server that is gone, or a file system in
 * user space whose process is stuck, keeps whoever asks it in the kernel, without a deadline: so a
 * thread of its own asks first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

#include "machine/clock.h"
#include "machine/patient.h"
#include "nvme.h"

static int ask(void *folder)
{
    struct statfs fs;

    statfs(folder, &fs); /* whatever it says */
    return 0;
}

int zero__nvme_folder_answers(const struct zero__voice *voice, const char *folder, int64_t ns)
{
    char *copy = strdup(folder);
    enum zero__patient answer = ZERO__PATIENT_IMPOSSIBLE; /* then opening it finds out */
    int err;

    if (copy)
        answer = zero__patient_call(zero__deadline_ns(ns), NULL, NULL, ask, copy, strlen(copy) + 1,
                                    &err);
    free(copy);
    if (answer != ZERO__PATIENT_LATE)
        return 0;
    return zero__say(voice, -ETIMEDOUT,
                     "the file system of %s (ZERO_NVME_PATH) has not answered within %.3g s: look "
                     "whether its server or process is still there, or name another folder",
                     folder, (double)ns / ZERO_SECOND);
}
