/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a job's secret, from a file and from a pipe. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job/secret.h"

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n"),
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\r\n"),
    {NULL, 0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero__secret secret = {.known = false};
    int fd = memfd_create("secret", MFD_CLOEXEC), ends[2];

    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size && !zero__secret_from_fd(fd, &secret))
        zero__secret_wipe(&secret);
    close(fd);
    if (pipe2(ends, O_CLOEXEC))
        return 0;
    bool written = write(ends[1], data, size < 4096 ? size : 4096) >= 0;
    close(ends[1]);
    if (written && !zero__secret_from_fd(ends[0], &secret))
        zero__secret_wipe(&secret);
    close(ends[0]);
    return 0;
}
