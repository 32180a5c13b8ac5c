/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is what ranks say of a training true? Losses and norms are of the whole job, and weights are the
 * same on all ranks, so logs that differ show that a collective brought something wrong to some of
 * them. Weights that are random yet give each token of the vocabulary about the same chance, and
 * become better.
 */
#include "config.h"

#include "log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_OFF 0.5 /* of the first loss from the logarithm of the vocabulary */
#define LEAST_STEPS 5u

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 0; /* all bits that were written */
}

static bool differs(const struct step_log *log, unsigned step, const char *what, double is,
                    double wanted)
{
    if (same(is, wanted))
        return false;
    fprintf(stderr,
            "zero bench step: step %u has the %s %.12g on rank %d and %.12g on rank 0: comm plugin "
            "%s is at fault, its figures mean nothing\n",
            step + 1, what, is, log->rank, wanted, log->comm);
    return true;
}

static bool agree(const struct step_log *root, const struct step_log *log)
{
    if (log->n_told != root->n_told) {
        fprintf(stderr, "zero bench step: rank %d has done %u steps and rank 0 %u\n", log->rank,
                log->n_told, root->n_told);
        return false;
    }
    for (unsigned i = 0; i < log->n_told; i++)
        if (differs(log, i, "loss", log->told[i].loss, root->told[i].loss) ||
            differs(log, i, "norm", log->told[i].norm, root->told[i].norm))
            return false;
    if (!strcmp(log->weights, root->weights))
        return true;
    fprintf(stderr,
            "zero bench step: after %u steps rank %d has the weights %s and rank 0 %s: comm plugin "
            "%s is at fault, its figures mean nothing\n",
            log->n_told, log->rank, log->weights, root->weights, log->comm);
    return false;
}

/* What the losses of so few tokens may be off by chance: some four times what they scatter. */
static double chance(const struct step_log *root)
{
    return root->tokens >= 1 ? 2 / sqrt(root->tokens) : 2;
}

/* The first loss is computed before anything was summed up, but from weights that were gathered. */
static bool starts(const struct step_log *root)
{
    double wanted = root->vocab ? log((double)root->vocab) : NAN;

    if (root->n_told && fabs(root->told[0].loss - wanted) < MOST_OFF + chance(root))
        return true;
    fprintf(stderr,
            "zero bench step: the first loss is %.12g, and not about %.3g, the logarithm of a "
            "vocabulary of %llu\n",
            root->n_told ? root->told[0].loss : NAN, wanted, (unsigned long long)root->vocab);
    return false;
}

/* Wrong gradients lead anywhere, but not down. */
static bool falls(const struct step_log *root)
{
    unsigned half = root->n_told / 2;
    double late = 0;

    if (root->n_told < LEAST_STEPS)
        return true;
    for (unsigned i = root->n_told - half; i < root->n_told; i++)
        late += root->told[i].loss / half;
    if (late < root->told[0].loss + chance(root))
        return true;
    fprintf(stderr,
            "zero bench step: the loss was %.6g at first and is %.6g in the second half of %u "
            "steps: gradients are wrong, or the learning rate is\n",
            root->told[0].loss, late, root->n_told);
    return false;
}

void step_log_check(const struct step_log *root, bool fresh, struct step_log *log)
{
    bool good = root ? agree(root, log) : !fresh || (starts(log) && falls(log));

    log->sound &= good;
}
