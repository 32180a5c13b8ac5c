/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libcuda.so.1 and says what is wrong where that fails. */
#include "config.h"

#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

#ifndef ZERO_CUDA_TOOLKIT
#define ZERO_CUDA_TOOLKIT 0 /* of the compiler that made the kernels, as in cuda_driver.version */
#endif

int zero__cuda_errno(int result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return 0;
    case CUDA_INVALID_VALUE:
    case CUDA_INVALID_HANDLE:
        return -EINVAL;
    case CUDA_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_NO_DEVICE:
    case CUDA_INVALID_DEVICE:
    case CUDA_STUB_LIBRARY:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
    case CUDA_COMPAT_NOT_SUPPORTED:
        return -ENODEV;
    case CUDA_DEVICE_UNAVAILABLE:
        return -EBUSY;
    case CUDA_INVALID_IMAGE:
    case CUDA_NO_BINARY_FOR_GPU:
    case CUDA_INVALID_PTX:
    case CUDA_UNSUPPORTED_PTX_VERSION:
    case CUDA_NOT_SUPPORTED:
        return -ENOTSUP;
    case CUDA_NOT_PERMITTED:
        return -EPERM;
    case CUDA_NOT_READY:
        return -EINPROGRESS;
    default:
        return zero__cuda_is_capture(result) ? -EINVAL : -EIO;
    }
}

bool zero__cuda_is_capture(int result)
{
    return result >= CUDA_CAPTURE_UNSUPPORTED && result <= CUDA_CAPTURE_WRONG_THREAD;
}

int zero__cuda_sticks(int result)
{
    switch (result) {
    case CUDA_DEINITIALIZED:
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_LAUNCH_TIMEOUT:
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK:
    case CUDA_UNKNOWN:
        return 1;
    default:
        return 0;
    }
}

const char *zero__cuda_text(const struct cuda_driver *d, int result, char text[CUDA_ERROR_TEXT])
{
    const char *name = NULL, *what = NULL;

    if (d->error_name)
        d->error_name(result, &name);
    if (d->error_string)
        d->error_string(result, &what);
    if (name)
        snprintf(text, CUDA_ERROR_TEXT, "%s%s%s%s", name, what ? " (" : "", what ? what : "",
                 what ? ")" : "");
    else
        snprintf(text, CUDA_ERROR_TEXT, "CUDA error %d", result);
    return text;
}

static int symbols_find(const struct zero__voice *voice, struct cuda_driver *d)
{
    const char *missing = NULL;
    void *symbol;

/* ISO C has no cast from void * to a function. */
#define FIND(member, name, parameters)          \
    symbol = dlsym(d->library, #name);          \
    memcpy(&d->member, &symbol, sizeof symbol); \
    if (!symbol && !missing)                    \
        missing = #name;
    ZERO__CUDA_CALLS(FIND)
#undef FIND
    return missing ? zero__say(voice, -ENODEV,
                               LIBRARY " has no %s: the NVIDIA driver is too old; install one for "
                                       "CUDA %d or later",
                               missing, ZERO_CUDA_TOOLKIT ? ZERO_CUDA_TOOLKIT / 1000 : 12)
                   : 0;
}

static int init_failed(const struct zero__voice *voice, const struct cuda_driver *d, int result)
{
    char text[CUDA_ERROR_TEXT];
    const char *remedy = "look at the output of nvidia-smi and of dmesg";

    switch (result) {
    case CUDA_NO_DEVICE:
        remedy = "nvidia-smi lists the GPUs of this machine; CUDA_VISIBLE_DEVICES may hide them, "
                 "and a container has to be given them";
        break;
    case CUDA_STUB_LIBRARY:
        remedy =
            "the " LIBRARY " that was found is the toolkit's stub for linking: take its folder "
            "out of LD_LIBRARY_PATH";
        break;
    case CUDA_SYSTEM_DRIVER_MISMATCH:
        remedy = LIBRARY " is of another version than the kernel's driver, as after an update: "
                         "restart the machine, or reload the driver";
        break;
    case CUDA_COMPAT_NOT_SUPPORTED:
        remedy =
            "the compatibility library that was found does not support this GPU: take it out of "
            "LD_LIBRARY_PATH";
        break;
    case CUDA_SYSTEM_NOT_READY:
        remedy =
            "start the services that it needs (nvidia-fabricmanager on machines with NVSwitch)";
        break;
    case CUDA_UNKNOWN:
        remedy =
            "the files /dev/nvidia* have to be there and readable (nvidia-modprobe makes them)";
        break;
    }
    return zero__say(voice, -ENODEV, "the NVIDIA driver does not start: %s: %s",
                     zero__cuda_text(d, result, text), remedy);
}

static int init(const struct zero__voice *voice, struct cuda_driver *d)
{
    int result = d->init(0);

    if (result)
        return init_failed(voice, d, result);
    result = d->driver_version(&d->version);
    if (!result)
        result = d->device_count(&d->n_devices);
    if (!result && d->n_devices < 1)
        result = CUDA_NO_DEVICE;
    if (result)
        return init_failed(voice, d, result);
    if (d->version / 1000 < ZERO_CUDA_TOOLKIT / 1000)
        return zero__say(voice, -ENOTSUP,
                         "the NVIDIA driver is for CUDA %d.%d and older, and the kernels were made "
                         "by CUDA %d.%d: install a driver for CUDA %d or later, or build libzero "
                         "with a toolkit of CUDA %d",
                         d->version / 1000, d->version % 1000 / 10, ZERO_CUDA_TOOLKIT / 1000,
                         ZERO_CUDA_TOOLKIT % 1000 / 10, ZERO_CUDA_TOOLKIT / 1000,
                         d->version / 1000);
    return 0;
}

int zero__cuda_driver_open(const struct zero__voice *voice, struct cuda_driver *out)
{
    struct cuda_driver d = {.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    int err;

    *out = (struct cuda_driver){0};
    if (!d.library) {
        const char *why = dlerror();
        return zero__say(voice, -ENODEV,
                         "no NVIDIA driver: %s: install the driver (nvidia-smi shows whether it "
                         "works); in a container, start it with the GPUs",
                         why ? why : LIBRARY " cannot be loaded");
    }
    err = symbols_find(voice, &d);
    if (!err)
        err = init(voice, &d);
    if (!err)
        *out = d;
    return err;
}
