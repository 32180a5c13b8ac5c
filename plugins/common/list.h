/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are linked by a member `next`. */
#ifndef ZERO_PLUGINS_COMMON_LIST_H
#define ZERO_PLUGINS_COMMON_LIST_H

/* Takes x out of the list that *head begins; it is in it. */
#define ZERO__UNLINK(head, x)            \
    do {                                 \
        __typeof__(head) link_ = (head); \
        while (*link_ != (x))            \
            link_ = &(*link_)->next;     \
        *link_ = (x)->next;              \
    } while (0)

#endif
