# SPDX-License-Identifier: Apache-2.0
# ZERO_NEED(VAR, pkg-config module, Debian package): stops configure with the package's name.
# ZERO_WANT(VAR, module, package, what it is for): sets zero_have_VAR and adds a summary line. Defines
# HAVE_VAR, or ZERO_NO_VAR, the sentence in which `zero info` says why a plugin was not built.
# ZERO_WANT_LIBRARY(VAR, name, function, libraries, Debian package, what it is for): the same for a
# library that pkg-config does not know; sets VAR_LIBS.
# ZERO_SUMMARY: prints what was found, what was not, and which package brings it.
AC_DEFUN([ZERO_NEED], [
PKG_CHECK_MODULES([$1], [$2], [zero_summary="$zero_summary
  $2: found"], [AC_MSG_ERROR([$2 not found: install the package $3 (apt-get install $3)])])
])
AC_DEFUN([ZERO_WANT], [
PKG_CHECK_MODULES([$1], [$2],
    [zero_have_$1=yes
     AC_DEFINE([HAVE_$1], [1], [Define to 1 if $2 is there.])
     zero_summary="$zero_summary
  $2: found"],
    [zero_have_$1=no
     AC_DEFINE([ZERO_NO_$1],
        ["not built: $2 was not found: install it (apt-get install $3) and configure again"],
        [What to say where $2 is not there.])
     zero_summary="$zero_summary
  $2: not found; without it: no $4 (apt-get install $3)"])
])
AC_DEFUN([ZERO_WANT_LIBRARY], [
zero_saved_LIBS=$LIBS
LIBS="$4 $LIBS"
AC_MSG_CHECKING([for $2])
AC_LINK_IFELSE([AC_LANG_CALL([], [$3])], [zero_have_$1=yes], [zero_have_$1=no])
AC_MSG_RESULT([$zero_have_$1])
LIBS=$zero_saved_LIBS
AS_IF([test "$zero_have_$1" = yes],
    [AC_SUBST([$1_LIBS], ["$4"])
     AC_DEFINE([HAVE_$1], [1], [Define to 1 if $2 is there.])
     zero_summary="$zero_summary
  $2: found"],
    [zero_summary="$zero_summary
  $2: not found; without it: no $6 (apt-get install $5)"])
])
AC_DEFUN([ZERO_SUMMARY], [
echo "
libzero $PACKAGE_VERSION
  prefix: $prefix
  compiler: $CC $CFLAGS $SANITIZE_CFLAGS$zero_summary
"
])
