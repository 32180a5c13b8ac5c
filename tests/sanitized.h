/* SPDX-License-Identifier: Apache-2.0 */
/* SANITIZED: this program's malloc() is a sanitizer's, in front of which it cannot put its own. */
#ifndef ZERO_TESTS_SANITIZED_H
#define ZERO_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#endif
