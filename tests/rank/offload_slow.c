/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disks that are slow, or do nothing any more: the deadline is one of each request, and not of the
 * update that waits for many.
 */
#include "../tap.h"

#include <errno.h>
#include <unistd.h>

#include "folder.h"
#include "machine/clock.h"
#include "toy.h"

static char path[4096];

/* ZERO_TIMEOUT is for an op that does not end, not for all ops of an update together. */
static void slow(void)
{
    struct zero_setting s[] = {{"stage", "1"},
                               {"timeout", "3"},
                               {"offload", "optimizer:fault"},
                               {"fault_offload", "nvme"},
                               {"nvme_path", path},
                               {"tile_bytes", "32K"},
                               {"fault_io", "delay=2000:op=write:times=0"}};
    struct toy t = {.ranks = 1, .layers = 4, .steps = 1, .dtype = ZERO_F32, .width = 40000,
                    .settings = s, .n_settings = 7, .seed = 7};
    struct toy_result r;
    int err = toy_train(&t, &r);

    ok(!err && r.info.update_ns > 6 * UINT64_C(1000000000),
       "an update of %.1f s, each op of it within ZERO_TIMEOUT: %s", (double)r.info.update_ns / 1e9,
       err ? r.error : "it ends");
}

/* The same where one rank's disk is slow: the other waits for what it publishes, and is patient. */
static void slow_peer(const char *stage, uint32_t layers)
{
    static struct zero_setting s[] = {{"stage", NULL},
                                      {"timeout", "2"},
                                      {"offload", "optimizer:fault"},
                                      {"fault_offload", "nvme"},
                                      {"nvme_path", path},
                                      {"tile_bytes", "32K"},
                                      {"fault_io", "delay=1500:op=write:times=0"}};
    struct toy t = {.ranks = 2, .layers = layers, .steps = 1, .dtype = ZERO_F32, .width = 40000,
                    .settings = s, .n_settings = 7, .n_other = 1, .seed = 7};
    struct toy_result r;

    s[0].value = stage;
    int64_t began = zero__now_ns();
    int err = toy_train(&t, &r);
    double took = (double)(zero__now_ns() - began) / 1e9;
    ok(!err && took > 4, "stage %s: rank 0 waits for the disk of rank 1, %.1f s in all: %s", stage,
       took, err ? r.error : "it ends");
}

/* Writing never ends and nothing moves; what was read before, and has ended, does not excuse it. */
static void dead(void)
{
    struct zero_setting s[] = {{"stage", "1"},
                               {"timeout", "2"},
                               {"offload", "optimizer:fault"},
                               {"fault_offload", "nvme"},
                               {"nvme_path", path},
                               {"tile_bytes", "32K"},
                               {"offload_measure", "0"},
                               {"fault_io", "delay=60000:op=write:n=40:times=0"}};
    struct toy t = {.ranks = 1, .layers = 4, .steps = 9, .dtype = ZERO_F32, .width = 40000,
                    .settings = s, .n_settings = 8, .seed = 7};
    struct toy_result r;
    int64_t began = zero__now_ns();
    int err = toy_train(&t, &r);
    double took = (double)(zero__now_ns() - began) / 1e9;

    ok(err == -ETIMEDOUT && strstr(r.error, "2 s (ZERO_TIMEOUT)") && took > 2 && took < 30,
       "a disk that is dead for writing ends the job after ZERO_TIMEOUT, %.1f s in all: %s", took,
       r.error);
}

int main(void)
{
    folder_make("offload-slow", path);
    dead();
    slow();
    slow_peer("1", 3);
    slow_peer("3", 7);
    folder_end(path);
    done();
}
