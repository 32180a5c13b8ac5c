/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl and the driver: found at run time, so that the plugin loads where neither is. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nccl.h"

/* The library stays for good: threads of its own may run until the process ends. */
static void *file_open(const struct zero__voice *v, const char *path, const char *remedy)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!file) {
        const char *why = dlerror();
        bool names = strstr(why, path); /* it may name a library that the file needs instead */
        zero__say(v, -ENODEV, "%s%s%s: %s", names ? "" : path, names ? "" : ": ", why, remedy);
    }
    return file;
}

static int symbol_find(const struct zero__voice *v, void *file, const char *path, const char *name,
                       const char *remedy, void *to)
{
    void *symbol = dlsym(file, name);

    if (!symbol)
        return zero__say(v, -ENODEV, "%s has no %s: %s", path, name, remedy);
    memcpy(to, &symbol, sizeof symbol);
    return 0;
}

static void symbol_want(void *file, const char *name, void *to)
{
    void *symbol = dlsym(file, name);
    memcpy(to, &symbol, sizeof symbol);
}

void nccl_version_print(int version, char text[40])
{
    int old = version < 10000;

    snprintf(text, 40, "%d.%d.%d", version / (old ? 1000 : 10000), version / 100 % (old ? 10 : 100),
             version % 100);
}

static int version_check(const struct zero__voice *v, const char *path, struct nccl_library *nccl)
{
    int r = nccl->GetVersion(&nccl->version);
    char text[40];

    if (r != NCCL_OK)
        return zero__say(v, -ENODEV, "%s does not say its version (result %d): is it NCCL?", path,
                         r);
    if (nccl->version >= NCCL_2_18)
        return 0;
    nccl_version_print(nccl->version, text);
    return zero__say(v, -ENOTSUP,
                     "%s is NCCL %s, and 2.18 is the oldest that is taken: install a newer one "
                     "(libnccl2), name one with ZERO_NCCL_LIBRARY, or choose another transport "
                     "with ZERO_COMM",
                     path, text);
}

const char *nccl_path(const struct zero_host *host)
{
    return host->param(host->ctx, NCCL_NAME, "nccl_library", "libnccl.so.2",
                       "libnccl, by name or as a path");
}

int nccl_load(const struct zero_host *host, struct nccl_library *nccl)
{
    static const char old[] = "it is older than NCCL 2.18, or another library; install a newer one "
                              "(libnccl2), or name one with ZERO_NCCL_LIBRARY";
    const struct zero__voice v = {host, NCCL_NAME};
    const char *path = nccl_path(host);
    void *file = file_open(&v, path,
                           "install NCCL 2.18 or later (libnccl2), say where it is with "
                           "ZERO_NCCL_LIBRARY, or choose another transport with ZERO_COMM");
    int err = file ? 0 : -ENODEV;

    *nccl = (struct nccl_library){0};
    if (!err)
        err = symbol_find(&v, file, path, "ncclGetVersion", old, &nccl->GetVersion);
    if (!err)
        err = version_check(&v, path, nccl);
#define FIND(name, result, args) \
    if (!err)                    \
        err = symbol_find(&v, file, path, "nccl" #name, old, &nccl->name);
    NCCL_NEEDED(FIND)
#undef FIND
    if (err)
        return err;
#define WANT(name, result, args) symbol_want(file, "nccl" #name, &nccl->name);
    NCCL_WANTED(WANT)
#undef WANT
    return 0;
}

int cuda_fail(const struct zero__voice *v, const struct cuda_library *cuda, int result,
              const char *what)
{
    const char *text = NULL;

    if (cuda->GetErrorString(result, &text) != CUDA_OK || !text)
        text = "unknown error";
    return zero__say(v, result == CUDA_NO_DEVICE ? -ENODEV : -EIO, "%s: %s (CUDA error %d)", what,
                     text, result);
}

const char *cuda_path(const struct zero_host *host)
{
    return host->param(host->ctx, NCCL_NAME, "cuda_library", "libcuda.so.1",
                       "The NVIDIA driver's library, by name or as a path");
}

int cuda_load(const struct zero_host *host, struct cuda_library *cuda)
{
    const struct zero__voice v = {host, NCCL_NAME};
    const char *path = cuda_path(host);
    void *file = file_open(&v, path,
                           "NCCL needs an NVIDIA GPU and its driver; install the driver, or choose "
                           "another transport with ZERO_COMM");
    int err = file ? 0 : -ENODEV, r;

    *cuda = (struct cuda_library){0};
#define FIND(name, symbol, args) \
    if (!err)                    \
        err = symbol_find(&v, file, path, symbol, "is it the NVIDIA driver's?", &cuda->name);
    CUDA_NEEDED(FIND)
#undef FIND
    if (err)
        return err;
    r = cuda->Init(0);
    if (r == CUDA_OK)
        r = cuda->DeviceGetCount(&cuda->n_devices);
    if (r != CUDA_OK)
        return cuda_fail(&v, cuda, r,
                         "no GPU can be used (nvidia-smi says more; ZERO_COMM chooses another "
                         "transport)");
    if (cuda->n_devices == 0)
        return zero__say(&v, -ENODEV,
                         "the driver finds no GPU (does CUDA_VISIBLE_DEVICES hide it?): choose "
                         "another transport with ZERO_COMM");
    return 0;
}

static int errno_of(int result)
{
    switch (result) {
    case NCCL_BAD_ARGUMENT:
    case NCCL_BAD_USAGE:
        return -EINVAL;
    case NCCL_REMOTE_ERROR: /* a peer has ended, or the network to it */
        return -ECONNRESET;
    default:
        return -EIO;
    }
}

int nccl_describe(struct zero_comm_ctx *ctx, nccl_comm comm, int result, const char *what,
                  char text[NCCL_TEXT])
{
    const char *more = ctx->nccl.GetLastError(comm), *remedy = "";

    more = more ? more : "";
    if (strstr(more, "Duplicate GPU"))
        remedy = "; NCCL wants a GPU of its own for each rank: start fewer ranks, or take "
                 "ZERO_COMM=shm (for tests alone: another NCCL_HOSTID for each rank)";
    else if (result == NCCL_REMOTE_ERROR)
        remedy = "; a peer has ended, its own messages say why";
    else if (result == NCCL_CUDA_ERROR || result == NCCL_SYSTEM_ERROR)
        remedy = "; NCCL_DEBUG=WARN says more";
    else if (result == NCCL_INTERNAL_ERROR)
        remedy = "; NCCL_DEBUG=INFO says more, for a report to its makers";
    snprintf(text, NCCL_TEXT, "%.100s: %.80s%s%.160s%s", what, ctx->nccl.GetErrorString(result),
             *more ? "; its last warning: " : "", more, remedy);
    return errno_of(result);
}

int nccl_fail(struct zero_comm_ctx *ctx, nccl_comm comm, int result, const char *what)
{
    char text[NCCL_TEXT];
    int err = nccl_describe(ctx, comm, result, what, text);

    snprintf(ctx->said, sizeof ctx->said, "%s", text);
    return zero__say(&ctx->voice, err, "%s", text);
}
