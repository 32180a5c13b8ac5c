/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model in the library's hands: a runtime with its units, parameters and regions, as the host
 * of the passes in network.h.
 */
#ifndef GPT2_SESSION_H
#define GPT2_SESSION_H

#include <signal.h>

#include <zero/zero.h>

#include "gpu/gpu.h"
#include "network.h"
#include "options.h"

struct gpt2_session {
    struct zero_runtime *rt;
    struct gpt2_shape shape;
    struct gpt2_host host;
    struct gpt2_gpu *gpu;               /* or NULL: the processor computes */
    void *stream;                       /* on which it computes, or NULL */
    uint32_t *units, *params, *regions; /* the library's numbers of ours */
    uint32_t groups[2];                 /* matrices, the rest */
    uint64_t saved_bytes;               /* of a block */
    bool backward;                      /* of the use that is held */
    uint64_t compute_ns, since_ns; /* time between acquire and release; of a GPU, and waiting */
    struct gpt2_initialiser *initialisers;
    const volatile sig_atomic_t *stop; /* not 0: the next acquire fails with -EINTR */
    const char *error;                 /* what went wrong, where only the program knows; or NULL */
};

/* Monotonic nanoseconds. */
uint64_t gpt2_now_ns(void);

/*
 * Creates a runtime with the settings of `o` and then those of `base` (NULL: none), which may also
 * say who the ranks are. Collective. Returns 0 or a negative errno with zero_last_error() set; the
 * caller closes the session either way.
 */
int gpt2_session_open(struct gpt2_session *s, const struct gpt2_options *o,
                      const struct zero_config *base);
/*
 * Chooses who computes, by the runtime's device. 0, or a negative errno with a sentence in `text`;
 * the other ranks do not know of it. Between open and commit.
 */
int gpt2_session_device(struct gpt2_session *s, const struct gpt2_options *o, char *text,
                        size_t bytes);
/* Registers the model and commits. Collective. */
int gpt2_session_commit(struct gpt2_session *s, const struct gpt2_options *o);
void gpt2_session_close(struct gpt2_session *s);

/* What the session itself knows of an error, "" where only zero_last_error() does. */
const char *gpt2_session_error(const struct gpt2_session *s);

/* What computes, for people: "OpenBLAS Zen", "cuBLAS 13.1 on the GPU". */
void gpt2_session_computes(const struct gpt2_session *s, char *text, size_t bytes);

/* An option of the library as a number. */
double gpt2_session_number(const struct gpt2_session *s, const char *option);

#endif
