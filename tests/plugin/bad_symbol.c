/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: no entry symbol, as a library that is no plugin. */
int some_other_symbol(void);

int some_other_symbol(void)
{
    return 0;
}
