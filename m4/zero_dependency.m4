# SPDX-License-Identifier: Apache-2.0
# ZERO_NEED(VAR, pkg-config module, Debian package): stops configure with the package's name.
# ZERO_WANT(VAR, module, package, what it is for): sets zero_have_VAR and adds a summary line.
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
     zero_summary="$zero_summary
  $2: not found; without it: no $4 (apt-get install $3)"])
])
AC_DEFUN([ZERO_SUMMARY], [
echo "
libzero $PACKAGE_VERSION
  prefix: $prefix
  compiler: $CC $CFLAGS $SANITIZE_CFLAGS$zero_summary
"
])
