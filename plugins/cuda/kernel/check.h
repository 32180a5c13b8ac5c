/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what a launch was given, before anything is planned; each says what is wrong. */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_CHECK_H
#define ZERO_PLUGINS_CUDA_KERNEL_CHECK_H

#include "../../common/voice.h"
#include "launch.h"

/* A launch of zero/device.h: the same refusals as the host device. */
int zero__cuda_launch_check(const struct zero__voice *voice, const struct zero_launch *l);

#endif
