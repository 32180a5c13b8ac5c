/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the disk, and the host memory that its bytes take. */
#include "place/placer.h"

#define DISK_MARGIN 100 /* a hundredth of what is free stays so: others write there, too */

uint64_t zero__checksum_bytes(const struct zero__placer *placer)
{
    uint64_t on_disk = placer->site->states.bytes[ZERO__T_DISK] +
                       placer->site->programs[0]->transient_bytes[ZERO__T_DISK];

    return zero__disk_beside(placer->site->tiers[ZERO__T_DISK].info.bytes_per_mib, on_disk);
}

uint64_t zero__disk_room(const struct zero__placer *placer)
{
    uint64_t room =
        placer->site->tiers[ZERO__T_DISK].info.capacity / (uint64_t)placer->site->local_ranks;

    return room - room / DISK_MARGIN;
}

int zero__disk_is_host(const struct zero__placer *placer)
{
    return (placer->site->tiers[ZERO__T_DISK].info.flags & ZERO_STORE_MEMORY) != 0;
}
