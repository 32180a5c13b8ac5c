# SPDX-License-Identifier: Apache-2.0
# ZERO_WARNINGS: the warning flags of the project; --enable-werror turns them into errors (CI).
AC_DEFUN([ZERO_WARNINGS], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])], [],
              [enable_werror=no])
WARN_CFLAGS="-Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes"
AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
AC_SUBST([WARN_CFLAGS])
])
