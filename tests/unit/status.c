/* SPDX-License-Identifier: Apache-2.0 */
/* The error sentence: recorded once, prefixed on the way up, apart for each thread. */
#include "../tap.h"

#include <pthread.h>

#include <zero/zero.h>

#include "base/checked.h"
#include "base/status.h"

static void *other_thread(void *text)
{
    snprintf(text, 64, "%s", zero_last_error());
    return NULL;
}

int main(void)
{
    char text[64];
    pthread_t t;
    uint64_t r = 7;

    is_int(zero__fail(-EINVAL, "stage %d is unknown", 7), -EINVAL, "fail returns the code");
    is_str(zero_last_error(), "stage 7 is unknown", "and records the sentence");
    zero__fail(-EINVAL, "%s again", zero_last_error());
    is_str(zero_last_error(), "stage 7 is unknown again", "the old sentence may be an argument");
    is_int(zero__while(-EIO, "commit"), -EIO, "while passes the code on");
    is_str(zero_last_error(), "commit: stage 7 is unknown again", "and prefixes the sentence");
    is_int(zero__unsaid(-EIO, "pigeon"), -EIO, "what has a sentence keeps it");
    is_str(zero_last_error(), "commit: stage 7 is unknown again", "as it is");
    zero__unsay();
    is_int(zero__unsaid(-EIO, "pigeon"), -EIO, "what has none passes the code on, too");
    is_str(zero_last_error(), "pigeon did not say why", "and tells who said nothing");
    pthread_create(&t, NULL, other_thread, text);
    pthread_join(t, NULL);
    is_str(text, "no error", "another thread has a sentence of its own");

    is_int(zero__mul(UINT64_MAX, 2, &r), -EOVERFLOW, "an overflow is an error");
    is_int(r, 7, "and leaves the output alone");
    is_int(zero__round_up(65, 64, &r), 0, "rounding up");
    is_int(r, 128, "gives the next multiple");
    is_int(zero__round_up(UINT64_MAX - 1, 64, &r), -EOVERFLOW, "rounding may overflow too");
    done();
}
