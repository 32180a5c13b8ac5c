/* SPDX-License-Identifier: Apache-2.0 */
/* How bodies cut their work, for the bodies themselves and for who plans their grids. */
#ifndef GPT2_GPU_TILE_H
#define GPT2_GPU_TILE_H

/* Floats of shared memory that a reduction of `threads` needs. */
#define GPT2_REDUCTION(threads) ((threads) + 16u)

/* Rows that one block adds up of a column; the same of a layer norm, which has whole rows. */
#define GPT2_CHUNK 32u
#define GPT2_NORM_CHUNK 8u
#define GPT2_NORM_BATCH 2u /* of which a thread asks for so many at once */

/* A layer norm's backward pass has a thread for each four columns. */
#define GPT2_WIDTH_MAX 2048u
#define GPT2_NORM_THREADS (GPT2_WIDTH_MAX / 4u)
#define GPT2_NORM_SUMS (2u * GPT2_NORM_BATCH)
#define GPT2_NORM_SHARED (2u * GPT2_NORM_THREADS / 32u * GPT2_NORM_SUMS)

/* Sums of columns: groups of four of a block, and threads of a group. */
#define GPT2_FOLD_COLUMNS 32u
#define GPT2_FOLD_LANES 8u
#define GPT2_FOLD_THREADS (GPT2_FOLD_COLUMNS * GPT2_FOLD_LANES)
#define GPT2_FOLD_SHARED (GPT2_FOLD_THREADS * 4u) /* of one sum */
#define GPT2_FOLD_BATCH 4u                         /* rows that a thread asks for at once */

/* Sums of what the chunks have: likewise, with more of fewer columns. */
#define GPT2_LAST_COLUMNS 8u
#define GPT2_LAST_BATCH 8u

#define GPT2_ATTENTION_THREADS 128u
#define GPT2_SCORE_TILE 32u   /* columns of a tile of scores; backward its rows, too */
#define GPT2_FORWARD_TILE 64u /* queries of a block of the forward pass */
#define GPT2_SCORE_STRIDE 36u /* floats from a row of scores to the next */

/* Floats of shared memory of attention: tiles of features, of scores, and numbers of rows. */
#define GPT2_FEATURES(rows, D) ((rows) * ((D) + 4u))
#define GPT2_SCORES(rows) ((rows)*GPT2_SCORE_STRIDE)
#define GPT2_ATTENTION_SHARED(D)                                                                  \
    (GPT2_FEATURES(GPT2_FORWARD_TILE + 2 * GPT2_SCORE_TILE, D) + GPT2_SCORES(GPT2_FORWARD_TILE) + \
     GPT2_FORWARD_TILE * 8u)
#define GPT2_ATTENTION_Q_SHARED(D) \
    (GPT2_FEATURES(4 * GPT2_SCORE_TILE, D) + GPT2_SCORES(GPT2_SCORE_TILE))
#define GPT2_ATTENTION_KV_SHARED(D) \
    (GPT2_FEATURES(4 * GPT2_SCORE_TILE, D) + GPT2_SCORES(2 * GPT2_SCORE_TILE) + 3 * GPT2_SCORE_TILE)

/*
 * The same of attention in 16 bits: tiles of as many rows as a block has, 16 for each of its four
 * warps, in two buffers, so that the next one is on its way. Rows are D + 8 elements apart: aligned
 * to vectors, and in different banks.
 */
#define GPT2_HALF_TILE 64u
#define GPT2_HALF_STRIDE(D) (((D) + 8u) / 2u) /* floats from a row to the next */
#define GPT2_HALF_FEATURES(D) (GPT2_HALF_TILE * GPT2_HALF_STRIDE(D))
#define GPT2_ATTENTION16_SHARED(D) (4u * GPT2_HALF_FEATURES(D))
#define GPT2_ATTENTION16_KV_SHARED(D) (GPT2_ATTENTION16_SHARED(D) + 2u * 3u * GPT2_HALF_TILE)

#endif
