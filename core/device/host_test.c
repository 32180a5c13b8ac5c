/* SPDX-License-Identifier: Apache-2.0 */
/* Switching the test mode on, and what it found. */
#include "device/host_race.h"
#include "device/host_types.h"

#include <errno.h>

#include "base/status.h"

int zero__host_test_mode(struct zero_device *dev, uint64_t seed, uint32_t max_delay_us)
{
    int err = 0;

    pthread_mutex_lock(&dev->lock);
    if (dev->race || dev->streams) {
        err = zero__fail(-EBUSY, "host device: the test mode comes once, before the first stream");
    } else if (!(dev->race = race_create())) {
        err = zero__fail(-ENOMEM, "host device: no memory for the race detector");
    } else {
        dev->seed = seed;
        dev->max_delay_us = max_delay_us;
    }
    pthread_mutex_unlock(&dev->lock);
    return err;
}

int zero__host_races(struct zero_device *dev, char *text, size_t n)
{
    int count;

    pthread_mutex_lock(&dev->lock);
    count = dev->race ? race_count(dev->race, text, n)
                      : zero__fail(-EINVAL, "host device: the test mode is off");
    pthread_mutex_unlock(&dev->lock);
    return count;
}

uint64_t zero__host_race_size(struct zero_device *dev)
{
    uint64_t size;

    pthread_mutex_lock(&dev->lock);
    size = dev->race ? race_size(dev->race) : 0;
    pthread_mutex_unlock(&dev->lock);
    return size;
}
