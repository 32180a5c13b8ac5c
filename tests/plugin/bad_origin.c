/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: has no entry of its own; a library that it depends on has one. */
int zero_plugin_v1_user(void);
int zero_plugin_v1(void);

int zero_plugin_v1_user(void)
{
    return zero_plugin_v1();
}
