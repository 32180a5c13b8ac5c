# SPDX-License-Identifier: Apache-2.0
# ZERO_NVCC: looks for the CUDA compiler: NVCC, then --with-cuda=DIR, PATH, /usr/local/cuda. Sets
# NVCC, NVCC_TARGETS (code for the devices that it knows of the list below, and PTX of the last of
# them for later devices), zero_have_NVCC and the conditional HAVE_NVCC; adds a summary line, which
# also names those of the list that it does not know. Defines ZERO_CUDA_ARCHS, the numbers of those
# that it knows, or ZERO_NO_NVCC, as ZERO_WANT does.
AC_DEFUN([ZERO_NVCC], [
AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [use the CUDA toolkit in DIR; no: do without])],
    [], [with_cuda=yes])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
zero_have_NVCC=no
NVCC_TARGETS=
AS_IF([test "x$with_cuda" = xno],
    [zero_nvcc_missing='left out by --without-cuda'],
    [AS_CASE([$with_cuda],
        [yes], [zero_nvcc_path=$PATH$PATH_SEPARATOR/usr/local/cuda/bin],
        [zero_nvcc_path=$with_cuda/bin])
     AC_PATH_PROG([NVCC], [nvcc], [], [$zero_nvcc_path])
     AS_IF([test -z "$NVCC"],
        [AS_IF([test "x$with_cuda" != xyes], [AC_MSG_ERROR([no nvcc in $with_cuda/bin])])
         zero_nvcc_missing='not found'],
        [AC_MSG_CHECKING([whether $NVCC compiles for sm_80, sm_90, sm_100])
         zero_nvcc_last= zero_nvcc_archs= zero_nvcc_known= zero_nvcc_dropped=
         for zero_arch in 80 90 100; do
             AS_IF([echo '__global__ void k() {}' > conftest.cu &&
                    $NVCC $NVCCFLAGS -std=c++17 -gencode arch=compute_$zero_arch,code=sm_$zero_arch \
                        -cubin -o conftest.cubin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
                [NVCC_TARGETS="$NVCC_TARGETS -gencode arch=compute_$zero_arch,code=sm_$zero_arch"
                 zero_nvcc_known="${zero_nvcc_known:+$zero_nvcc_known, }sm_$zero_arch"
                 zero_nvcc_archs="${zero_nvcc_archs:+$zero_nvcc_archs, }$zero_arch"
                 zero_nvcc_last=$zero_arch],
                [zero_nvcc_dropped="${zero_nvcc_dropped:+$zero_nvcc_dropped, }sm_$zero_arch"])
         done
         rm -f conftest.cu conftest.cubin
         AS_IF([test -n "$zero_nvcc_last"],
            [zero_have_NVCC=yes
             NVCC_TARGETS="$NVCC_TARGETS -gencode arch=compute_$zero_nvcc_last,code=compute_$zero_nvcc_last"
             AC_MSG_RESULT([$zero_nvcc_known])],
            [zero_nvcc_missing='refused: it compiles for none of sm_80, sm_90, sm_100 (see config.log)'
             AC_MSG_RESULT([no])])])])
AC_SUBST([NVCC_TARGETS])
AM_CONDITIONAL([HAVE_NVCC], [test "$zero_have_NVCC" = yes])
AS_IF([test "$zero_have_NVCC" = yes],
    [AC_DEFINE_UNQUOTED([ZERO_CUDA_ARCHS], [$zero_nvcc_archs],
        [Of what the kernels are compiled for, the numbers: 90 for sm_90.])
     zero_summary="$zero_summary
  nvcc: $NVCC, for $zero_nvcc_known, and PTX for later devices"
     AS_IF([test -n "$zero_nvcc_dropped"],
        [zero_summary="$zero_summary
    not for $zero_nvcc_dropped, for which it does not compile (see config.log)"])],
    [AC_DEFINE_UNQUOTED([ZERO_NO_NVCC],
        ["not built: nvcc was $zero_nvcc_missing: configure again with the CUDA toolkit, 11.8 or later (--with-cuda=DIR says where it is)"],
        [What to say where nvcc is not there.])
     zero_summary="$zero_summary
  nvcc: $zero_nvcc_missing; without it: no device plugin cuda (the CUDA toolkit, at least 11.8, has it:
    https://developer.nvidia.com/cuda-downloads; --with-cuda=DIR says where it is)"])
])
