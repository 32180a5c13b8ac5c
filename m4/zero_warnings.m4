# SPDX-License-Identifier: Apache-2.0
# ZERO_WARNINGS: the warning flags of the project; --enable-werror turns them into errors (CI).
AC_DEFUN([ZERO_WARNINGS], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])], [],
              [enable_werror=no])
WARN_CXXFLAGS="-Wall -Wextra -Wshadow -Wvla"
WARN_CFLAGS="$WARN_CXXFLAGS -Wmissing-prototypes -Wstrict-prototypes"
WARN_NVCCFLAGS=
AS_IF([test "x$enable_werror" = xyes],
    [WARN_CFLAGS="$WARN_CFLAGS -Werror"
     WARN_CXXFLAGS="$WARN_CXXFLAGS -Werror"
     WARN_NVCCFLAGS="-Werror all-warnings"])
AC_SUBST([WARN_CFLAGS])
AC_SUBST([WARN_CXXFLAGS])
AC_SUBST([WARN_NVCCFLAGS])
])
