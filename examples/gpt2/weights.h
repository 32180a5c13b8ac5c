/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as a file: eight bytes with the length of a JSON object, the object, which names every
 * tensor with its shape and place, then the fp32 values in order of registration. This is the
 * safetensors format, which many tools read. Memory is bounded whatever the model.
 */
#ifndef GPT2_WEIGHTS_H
#define GPT2_WEIGHTS_H

#include "session.h"

/*
 * Rank 0 writes the file under another name first, so that an error loses nothing. Collective.
 * 0 or a negative errno with the sentence in `text`, on all ranks alike.
 */
int gpt2_weights_save(struct gpt2_session *s, const char *path, char *text, size_t bytes);

/* Before training, rank 0 alone: may a file be made there? Likewise. */
int gpt2_weights_try(const char *path, char *text, size_t bytes);

/* Every rank reads the file; shapes and names must be the model's. Collective, as above. */
int gpt2_weights_load(struct gpt2_session *s, const char *path, char *text, size_t bytes);

#endif
