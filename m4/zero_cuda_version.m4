# SPDX-License-Identifier: Apache-2.0
# ZERO_CUDA_VERSION: of the compiler that ZERO_NVCC has found, ZERO_CUDA_TOOLKIT as drivers number
# theirs (13000 for 13.0) and ZERO_CUDA_TOOLKIT_TEXT for people. A driver of an earlier major
# version cannot load what that compiler makes.
AC_DEFUN([ZERO_CUDA_VERSION], [
AS_IF([test "$zero_have_NVCC" = yes],
    [AC_MSG_CHECKING([the version of $NVCC])
     zero_cuda_version=`$NVCC --version | sed -n 's/^.*release \(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*$/\1/p'`
     AC_MSG_RESULT([${zero_cuda_version:-not known}])
     AS_IF([test -n "$zero_cuda_version"],
        [zero_cuda_number=`expr "${zero_cuda_version%%.*}" \* 1000 + "${zero_cuda_version@%:@*.}" \* 10`
         AC_DEFINE_UNQUOTED([ZERO_CUDA_TOOLKIT], [$zero_cuda_number],
            [CUDA version of the compiler of the kernels, as drivers number theirs])
         AC_DEFINE_UNQUOTED([ZERO_CUDA_TOOLKIT_TEXT], [$zero_cuda_version], [the same for people])])])
])
