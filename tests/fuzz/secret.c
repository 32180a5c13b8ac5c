/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a job's secret, as a file has it. */
#define _GNU_SOURCE
#include "fuzz.h"

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
    int fd = memfd_create("secret", MFD_CLOEXEC);

    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size && !zero__secret_from_fd(fd, &secret))
        zero__secret_wipe(&secret);
    close(fd);
    return 0;
}
