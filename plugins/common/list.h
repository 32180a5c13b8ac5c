/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are linked by a member `next`. */
#ifndef ZERO_PLUGINS_COMMON_LIST_H
#define ZERO_PLUGINS_COMMON_LIST_H

#include <stddef.h>

/* Takes x out of the list that *head begins; it is in it. */
#define ZERO__UNLINK(head, x)            \
    do {                                 \
        __typeof__(head) link_ = (head); \
        while (*link_ != (x))            \
            link_ = &(*link_)->next;     \
        *link_ = (x)->next;              \
    } while (0)

/* Puts the first of the list that *head begins behind its last one; it is not empty. */
#define ZERO__ROTATE(head)                \
    do {                                  \
        __typeof__(head) end_ = (head);   \
        __typeof__(*end_) first_ = *end_; \
        *end_ = first_->next;             \
        first_->next = NULL;              \
        while (*end_)                     \
            end_ = &(*end_)->next;        \
        *end_ = first_;                   \
    } while (0)

#endif
