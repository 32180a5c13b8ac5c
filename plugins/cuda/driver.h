/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the plugin uses, in declarations of its own: the plugin is
 * built without the toolkit's headers and linked with nothing, and finds libcuda.so.1 when it is
 * probed or opened. Names of values, layouts and symbols (with their versions) are the driver's
 * ABI.
 */
#ifndef ZERO_PLUGINS_CUDA_DRIVER_H
#define ZERO_PLUGINS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/voice.h"

typedef unsigned long long cuda_address; /* of a device */
typedef unsigned long long cuda_handle;  /* of physical memory */

struct cuda_context;
struct cuda_module;
struct cuda_function;
struct cuda_stream;
struct cuda_event;

enum cuda_result {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_DEINITIALIZED = 4,
    CUDA_STUB_LIBRARY = 34,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_INVALID_PTX = 218,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_CONTAINED = 226,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_ASSERT = 710,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_ILLEGAL_INSTRUCTION = 715,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_ADDRESS_SPACE = 717,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_TENSOR_MEMORY_LEAK = 721,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_COMPAT_NOT_SUPPORTED = 804,
    CUDA_CAPTURE_UNSUPPORTED = 900, /* from here to the next one all are of captures */
    CUDA_CAPTURE_WRONG_THREAD = 908,
    CUDA_UNKNOWN = 999,
};

enum cuda_attribute {
    CUDA_MULTIPROCESSORS = 16,
    CUDA_PCI_BUS = 33,
    CUDA_PCI_DEVICE = 34,
    CUDA_PCI_DOMAIN = 50,
    CUDA_CAPABILITY_MAJOR = 75,
    CUDA_CAPABILITY_MINOR = 76,
    CUDA_VIRTUAL_MEMORY = 102,
    CUDA_SHARES_BY_DESCRIPTOR = 103,
    CUDA_VIRTUAL_MEMORY_RDMA = 110,
};

enum {
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_CAPTURE_RELAXED = 2,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_HOST_PORTABLE = 1, /* cuMemHostAlloc and cuMemHostRegister alike */
    CUDA_HOST_DEVICE_MAP = 2,
    CUDA_ALLOCATION_PINNED = 1,
    CUDA_LOCATION_DEVICE = 1,
    CUDA_SHARE_DESCRIPTOR = 1,
    CUDA_GRANULARITY_RECOMMENDED = 1,
    CUDA_ACCESS_READ_WRITE = 3,
    CUDA_IPC_PEER_ACCESS = 1,
};

/* In the list of a launch's extras. */
#define CUDA_PARAMS_END ((void *)0)
#define CUDA_PARAMS_BUFFER ((void *)1)
#define CUDA_PARAMS_BYTES ((void *)2)

struct cuda_location {
    int type, id;
};

struct cuda_properties {
    int type, share; /* a CUDA_ALLOCATION_…, a CUDA_SHARE_… */
    struct cuda_location location;
    void *reserved;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char rest[4];
};

struct cuda_access {
    struct cuda_location location;
    int flags;
};

struct cuda_ipc {
    char bytes[64];
};

/* X(member, symbol, parameters): every call, found when the library is opened. */
/* clang-format off */
#define ZERO__CUDA_CALLS(X)                                                                        \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(error_name, cuGetErrorName, (int error, const char **name))                                  \
    X(error_string, cuGetErrorString, (int error, const char **text))                              \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int index))                                           \
    X(device_name, cuDeviceGetName, (char *name, int bytes, int device))                           \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, int device))                             \
    X(context_retain, cuDevicePrimaryCtxRetain, (struct cuda_context **context, int device))       \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
    X(context_push, cuCtxPushCurrent_v2, (struct cuda_context *context))                           \
    X(context_pop, cuCtxPopCurrent_v2, (struct cuda_context **context))                            \
    X(memory_info, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total))                           \
    X(memory_alloc, cuMemAlloc_v2, (cuda_address *base, size_t bytes))                             \
    X(memory_free, cuMemFree_v2, (cuda_address base))                                              \
    X(memory_set, cuMemsetD8Async,                                                                 \
      (cuda_address base, unsigned char value, size_t bytes, struct cuda_stream *stream))          \
    X(copy, cuMemcpyAsync,                                                                         \
      (cuda_address dst, cuda_address src, size_t bytes, struct cuda_stream *stream))              \
    X(host_alloc, cuMemHostAlloc, (void **base, size_t bytes, unsigned flags))                     \
    X(host_free, cuMemFreeHost, (void *base))                                                      \
    X(host_register, cuMemHostRegister_v2, (void *base, size_t bytes, unsigned flags))             \
    X(host_unregister, cuMemHostUnregister, (void *base))                                          \
    X(range_reserve, cuMemAddressReserve,                                                          \
      (cuda_address *base, size_t bytes, size_t align, cuda_address wish,                          \
       unsigned long long zero))                                                                   \
    X(range_free, cuMemAddressFree, (cuda_address base, size_t bytes))                             \
    X(chunk_create, cuMemCreate,                                                                   \
      (cuda_handle *handle, size_t bytes, const struct cuda_properties *properties,                \
       unsigned long long zero))                                                                   \
    X(chunk_release, cuMemRelease, (cuda_handle handle))                                           \
    X(chunk_map, cuMemMap,                                                                         \
      (cuda_address base, size_t bytes, size_t off, cuda_handle handle, unsigned long long zero))  \
    X(chunk_unmap, cuMemUnmap, (cuda_address base, size_t bytes))                                  \
    X(chunk_access, cuMemSetAccess,                                                                \
      (cuda_address base, size_t bytes, const struct cuda_access *access, size_t n))               \
    X(chunk_granularity, cuMemGetAllocationGranularity,                                            \
      (size_t *bytes, const struct cuda_properties *properties, int which))                        \
    X(chunk_export, cuMemExportToShareableHandle,                                                  \
      (void *out, cuda_handle handle, int how, unsigned long long zero))                           \
    X(chunk_import, cuMemImportFromShareableHandle, (cuda_handle *handle, void *in, int how))      \
    X(ipc_get, cuIpcGetMemHandle, (struct cuda_ipc *ipc, cuda_address base))                       \
    X(ipc_open, cuIpcOpenMemHandle_v2, (cuda_address *base, struct cuda_ipc ipc, unsigned flags))  \
    X(ipc_close, cuIpcCloseMemHandle, (cuda_address base))                                         \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                \
    X(is_capturing, cuStreamIsCapturing, (struct cuda_stream *stream, int *status))                \
    X(stream_create, cuStreamCreate, (struct cuda_stream **stream, unsigned flags))                \
    X(stream_create_urgent, cuStreamCreateWithPriority,                                            \
      (struct cuda_stream **stream, unsigned flags, int priority))                                 \
    X(priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                        \
    X(stream_destroy, cuStreamDestroy_v2, (struct cuda_stream *stream))                            \
    X(stream_query, cuStreamQuery, (struct cuda_stream *stream))                                   \
    X(stream_wait, cuStreamWaitEvent,                                                              \
      (struct cuda_stream *stream, struct cuda_event *event, unsigned flags))                      \
    X(event_create, cuEventCreate, (struct cuda_event **event, unsigned flags))                    \
    X(event_destroy, cuEventDestroy_v2, (struct cuda_event *event))                                \
    X(event_record, cuEventRecord, (struct cuda_event *event, struct cuda_stream *stream))         \
    X(event_query, cuEventQuery, (struct cuda_event *event))                                       \
    X(module_load, cuModuleLoadData, (struct cuda_module **module, const void *image))             \
    X(module_unload, cuModuleUnload, (struct cuda_module *module))                                 \
    X(module_function, cuModuleGetFunction,                                                        \
      (struct cuda_function **function, struct cuda_module *module, const char *name))             \
    X(launch, cuLaunchKernel,                                                                      \
      (struct cuda_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       struct cuda_stream *stream, void **params, void **extra))                                   \
    X(call, cuLaunchHostFunc,                                                                      \
      (struct cuda_stream *stream, void (*fn)(void *arg), void *arg))
/* clang-format on */

/* The library, opened. Every call returns an enum cuda_result. */
struct cuda_driver {
    void *library;
    int version; /* 1000 * major + 10 * minor of the newest CUDA that it runs */
    int n_devices;
#define CALL(member, symbol, parameters) int(*member) parameters;
    ZERO__CUDA_CALLS(CALL)
#undef CALL
};

/*
 * Opens and initialises the driver; *out is all zeros after an error, of which the sentence says
 * what to do. The library itself stays loaded: it has threads and exit handlers of its own.
 */
int zero__cuda_driver_open(const struct zero__voice *voice, struct cuda_driver *out);

/* The errno that a result is told as. */
int zero__cuda_errno(int result);

/* Is a graph captured where a call cannot be part of one? */
bool zero__cuda_is_capture(int result);

/* Does every later call in this process's context fail, too? */
int zero__cuda_sticks(int result);

/* "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)" */
#define CUDA_ERROR_TEXT 192
const char *zero__cuda_text(const struct cuda_driver *driver, int result,
                            char text[CUDA_ERROR_TEXT]);

#endif
