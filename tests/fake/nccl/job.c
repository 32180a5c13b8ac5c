/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that go on, as versions before 2.27 have them: the job of one is its thread's, which has no
 * other meanwhile, and is over with the next call that waits for the communicator. Asking how far
 * it is does not end it before 2.26.2, and a thread that has ended takes its job along.
 */
#include <pthread.h>
#include <stdlib.h>

#include "inside.h"

#define ENDED_BY_ASKING 22602

struct fake_thread {
    struct fake_thread *next;
    nccl_comm comm; /* whose call goes on */
    bool gone;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static struct fake_thread *threads; /* for good */

static void thread_goes(void *arg)
{
    struct fake_thread *t = arg;

    pthread_mutex_lock(&lock);
    t->gone = true;
    pthread_mutex_unlock(&lock);
}

static void key_make(void)
{
    pthread_key_create(&key, thread_goes);
}

static struct fake_thread *this_thread(void)
{
    struct fake_thread *t;

    pthread_once(&once, key_make);
    t = pthread_getspecific(key);
    if (t || !(t = calloc(1, sizeof *t)))
        return t;
    pthread_setspecific(key, t);
    pthread_mutex_lock(&lock);
    t->next = threads;
    threads = t;
    pthread_mutex_unlock(&lock);
    return t;
}

void fake_job_check(const char *name, nccl_comm c)
{
    const struct fake_thread *t = this_thread();

    pthread_mutex_lock(&lock);
    bool other = t && t->comm && t->comm != c;
    pthread_mutex_unlock(&lock);
    if (other && fake_nccl_version() < NCCL_2_27)
        fake_misuse("%s while a call of this thread with another communicator is not over", name);
}

void fake_job_begin(const char *name, nccl_comm c)
{
    struct fake_thread *t = this_thread();

    fake_job_check(name, c);
    pthread_mutex_lock(&lock);
    if (t)
        t->comm = c;
    c->job = t;
    pthread_mutex_unlock(&lock);
}

void fake_job_end(nccl_comm c, bool asks)
{
    bool gone = false;

    if (asks && fake_nccl_version() < ENDED_BY_ASKING)
        return;
    pthread_mutex_lock(&lock);
    if (c->job) {
        gone = c->job->gone && fake_nccl_version() < ENDED_BY_ASKING;
        if (c->job->comm == c)
            c->job->comm = NULL;
        c->job = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (gone)
        fake_misuse("the thread is gone that made a call with this communicator, which was not "
                    "over");
}
