/* SPDX-License-Identifier: Apache-2.0 */
/* Who needs how much memory: the bytes of each class, for reports and for refusals. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/placement.h"
#include "base/status.h"
#include "place/table.h"

static void tier_fill(const struct zero__states *s, const struct zero__program *p, uint32_t tier,
                      struct zero__table_tier *t)
{
    *t = (struct zero__table_tier){.reserved = s->bytes[tier] + p->transient_bytes[tier]};
    for (uint32_t i = 0; i < s->n_buffers; i++) {
        if (s->buffers[i].tier != tier)
            continue;
        t->planned[s->buffers[i].memory_class] += s->buffers[i].bytes;
        t->share[s->buffers[i].memory_class] += s->buffers[i].bytes;
    }
    const struct zero__live *fullest = &p->bodies[0].live[tier];
    uint64_t most[ZERO_N_CLASSES] = {0};
    for (uint32_t b = 0; b < ZERO__N_BODIES; b++) {
        const struct zero__live *live = &p->bodies[b].live[tier];
        uint64_t low = p->bodies[b].lower_bound[tier];
        t->lower_bound = low > t->lower_bound ? low : t->lower_bound;
        fullest = live->peak > fullest->peak ? live : fullest;
        for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
            most[c] = live->most[c] > most[c] ? live->most[c] : most[c];
    }
    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++) {
        t->planned[c] += most[c];
        t->share[c] += fullest->at_peak[c];
    }
    /* What the plan could not use. */
    t->share[ZERO_CLASS_OTHER] += p->transient_bytes[tier] - fullest->peak;
    t->lower_bound += s->bytes[tier];
}

void zero__table_fill(const struct zero__states *s, const struct zero__program *p,
                      uint64_t checksums, uint64_t relay, struct zero__table *t)
{
    for (uint32_t tier = 0; tier < ZERO__N_TIERS; tier++)
        tier_fill(s, p, tier, &t->tiers[tier]);
    t->checksums = checksums;
    t->relay = relay;
    t->tiers[ZERO__T_CPU].reserved += checksums + relay;
    t->tiers[ZERO__T_CPU].lower_bound += checksums + relay;
}

static const char *human(uint64_t bytes, char *text, size_t n)
{
    static const char units[] = "BKMGTP";
    double x = (double)bytes;
    int u = 0;

    for (; x >= 1024 && u < 5; u++)
        x /= 1024;
    snprintf(text, n, u ? "%.1f %ciB" : "%.0f %c", x, units[u]);
    return text;
}

/* Two that differ, so that one sees it. */
static void human_both(uint64_t x, uint64_t y, char a[32], char b[32])
{
    human(x, a, 32);
    human(y, b, 32);
    if (x != y && !strcmp(a, b)) {
        snprintf(a, 32, "%" PRIu64 " bytes", x);
        snprintf(b, 32, "%" PRIu64 " bytes", y);
    }
}

/* Lines of a table, or what would help, in a row; what does not fit is left out. */
struct text {
    char text[1500];
    int n;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (out->n < (int)sizeof out->text)
        out->n += vsnprintf(out->text + out->n, sizeof out->text - (size_t)out->n, fmt, ap);
    va_end(ap);
}

static void suggest(struct text *out, const char *what)
{
    if (what)
        put(out, "%s%s", out->n ? ", " : "", what);
}

/* In whose words ZERO_OFFLOAD speaks of a class; NULL: of that it does not. */
static const char *placed_name(uint32_t memory_class)
{
    switch (memory_class) {
    case ZERO_CLASS_PARAMETERS:
    case ZERO_CLASS_GRADIENTS:
    case ZERO_CLASS_ACCUMULATORS:
    case ZERO_CLASS_MASTER:
    case ZERO_CLASS_MOMENTUM:
    case ZERO_CLASS_VARIANCE:
        return zero__placed_name(zero__placed_of(memory_class));
    case ZERO_CLASS_ACTIVATIONS:
        return zero__placed_name(ZERO__P_ACTIVATIONS);
    default:
        return NULL;
    }
}

/* Of no class: what the tier cpu bears beside the plan. */
static void beside_put(const char *name, uint64_t bytes, struct text *out)
{
    char a[32];

    if (bytes)
        put(out, "\n  %-13s %-7s %12s", name, zero__tier_name(ZERO__T_CPU),
            human(bytes, a, sizeof a));
}

/* The rows of a tier: who has how much, and what ZERO_OFFLOAD calls it. */
static void rows_put(const struct zero__table *table, uint32_t tier, struct text *out)
{
    const struct zero__table_tier *t = &table->tiers[tier];
    char a[32];

    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++) {
        const char *placed = placed_name(c);
        if (t->share[c])
            put(out, "\n  %-13s %-7s %12s%s%s", zero__class_name(c), zero__tier_name(tier),
                human(t->share[c], a, sizeof a), placed ? "  " : "", placed ? placed : "");
    }
    if (tier != ZERO__T_CPU)
        return;
    beside_put("checksums", table->checksums, out);
    beside_put("relay", table->relay, out);
}

int zero__table_refuse(const struct zero__table *table, const struct zero__lack *lack,
                       const struct zero__recipe *r, const char *tried, const char *stage)
{
    const struct zero__table_tier *t = &table->tiers[lack->tier];
    int held = t->share[ZERO_CLASS_ACTIVATIONS] != 0;
    struct text rows = {.n = 0}, help = {.n = 0};
    char a[32], b[32];

    put(&rows, "\n  %-13s %-7s %12s  %s", "what", "where", "bytes", "in ZERO_OFFLOAD");
    for (uint32_t k = 0; k < ZERO__N_TIERS; k++)
        if (lack->tiers & 1u << k)
            rows_put(table, k, &rows);
    for (uint32_t k = 0; k < ZERO__N_TIERS; k++)
        if (!(lack->tiers & 1u << k) && table->tiers[k].reserved)
            put(&rows, "\n  %-13s %-7s %12s", "in all", zero__tier_name(k),
                human(table->tiers[k].reserved, a, sizeof a));
    suggest(&help, !tried && r->stage < 3 ? stage : NULL);
    /* On one machine more ranks need more memory together. */
    suggest(&help,
            r->stage > 0 && lack->per_rank && lack->tier == ZERO__T_DEVICE ? "more ranks" : NULL);
    suggest(&help, lack->tier == ZERO__T_DISK
                       ? "ZERO_NVME_PATH with more room (of several folders the smallest counts "
                         "for each)"
                       : NULL);
    suggest(&help, lack->tier == ZERO__T_DEVICE || held ? "a smaller batch or sequence" : NULL);
    suggest(&help, t->planned[ZERO_CLASS_ACTIVATIONS] ? "recomputation" : NULL);
    suggest(&help,
            lack->tiers >> ZERO__T_CPU & 1 && table->relay ? "a smaller ZERO_RELAY_BYTES" : NULL);
    suggest(&help, !help.n && !(tried && *tried) ? "a larger limit" : NULL);
    human_both(lack->need, lack->available, a, b);
    return zero__fail(-ENOMEM,
                      "the plan needs %s%s on each of %u rank%s here, but %s has %s%s:%s\n"
                      "what would make it fit: %s%s%s",
                      a, lack->more ? " more" : "", lack->sharers, lack->sharers == 1 ? "" : "s",
                      lack->what, b, lack->sharers == 1 ? "" : " for each", rows.text,
                      tried ? tried : "", tried && *tried && help.n ? "\nwhat may help, too: " : "",
                      help.text);
}
