# SPDX-License-Identifier: Apache-2.0
# ZERO_SANITIZE: --enable-sanitize=LIST builds everything with -fsanitize=LIST.
AC_DEFUN([ZERO_SANITIZE], [
AC_ARG_ENABLE([sanitize],
    [AS_HELP_STRING([--enable-sanitize=LIST], [build with -fsanitize=LIST (address,undefined or thread)])],
    [], [enable_sanitize=no])
SANITIZE_CFLAGS=
AS_IF([test "x$enable_sanitize" != xno],
      [SANITIZE_CFLAGS="-fsanitize=$enable_sanitize -fno-omit-frame-pointer -fno-sanitize-recover=all"])
AC_SUBST([SANITIZE_CFLAGS])
AM_CONDITIONAL([SANITIZE_THREAD], [test "x$enable_sanitize" = xthread])
AM_CONDITIONAL([SANITIZE], [test "x$enable_sanitize" != xno])
])
