/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's log is its own, on standard output, which belongs to the program. After an abort it warns
 * of every message that nobody took, line by line: that is what an abort does, and the ranks say
 * why.
 *
 * UCX has one list of handlers in a process, so this one is put there once; it keeps nothing.
 */
#include <pthread.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#include "ucx.h"

static ucs_log_func_rc_t hush(const char *file, unsigned line, const char *function,
                              ucs_log_level_t level, const ucs_log_component_config_t *config,
                              const char *format, va_list ap)
{
    (void)file, (void)line, (void)function, (void)level, (void)config, (void)ap;
    return strstr(format, "unexpected tag-receive descriptor") ? UCS_LOG_FUNC_RC_STOP
                                                               : UCS_LOG_FUNC_RC_CONTINUE;
}

static void push(void)
{
    ucs_log_push_handler(hush);
}

void zero__ucx_log(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, push);
}
