# SPDX-License-Identifier: Apache-2.0
"""All that is compared."""
import collectives
import limits
import optimizer
import training


def all_parts(scale):
    return [*collectives.collectives(scale), *collectives.transports(scale),
            *optimizer.optimizer(scale), *training.steps(scale), *training.offload(scale),
            *limits.limits(scale)]
