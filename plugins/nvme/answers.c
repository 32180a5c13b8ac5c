/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a folder's file system answers at all. A file server that is gone, or a file system in
 * user space whose process is stuck, keeps whoever asks it in the kernel, without a deadline: so a
 * thread of its own asks first. What it asks with belongs to both, and to the thread alone when
 * nobody waits any more. (The core has the like in job/patient.h, which plugins do not see.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

#include "machine/thread.h"
#include "nvme.h"

struct question {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_answered, is_left; /* by the thread; by who asked */
    char folder[];
};

static void question_free(struct question *q)
{
    pthread_cond_destroy(&q->change);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

static void *ask(void *arg)
{
    struct question *q = arg;
    struct statfs fs;

    statfs(q->folder, &fs); /* whatever it says */
    pthread_mutex_lock(&q->lock);
    q->is_answered = true;
    bool is_left = q->is_left;
    pthread_cond_signal(&q->change);
    pthread_mutex_unlock(&q->lock);
    if (is_left)
        question_free(q);
    return NULL;
}

static struct question *question_make(const char *folder)
{
    struct question *q = calloc(1, sizeof *q + strlen(folder) + 1);

    if (!q)
        return NULL;
    strcpy(q->folder, folder);
    pthread_mutex_init(&q->lock, NULL);
    zero__cond_init(&q->change);
    return q;
}

int zero__nvme_folder_answers(const struct zero__voice *voice, const char *folder, int64_t ns)
{
    struct question *q = question_make(folder);
    const int64_t until = zero__deadline_ns(ns);
    pthread_t thread;
    int err = 0;

    if (!q || zero__thread_create(&thread, NULL, ask, q)) { /* then opening it finds out */
        if (q)
            question_free(q);
        return 0;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&q->lock);
    while (!q->is_answered && !err)
        err = zero__cond_until(&q->change, &q->lock, until);
    bool is_answered = q->is_answered;
    q->is_left = true;
    pthread_mutex_unlock(&q->lock);
    if (is_answered) {
        question_free(q);
        return 0;
    }
    return zero__say(voice, -ETIMEDOUT,
                     "the file system of %s (ZERO_NVME_PATH) has not answered within %.3g s: look "
                     "whether its server or process is still there, or name another folder",
                     folder, (double)ns / ZERO_SECOND);
}
