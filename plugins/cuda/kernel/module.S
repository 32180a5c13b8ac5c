/* SPDX-License-Identifier: Apache-2.0 */
/* The module as constant data; ZERO__CUDA_FATBIN is the file that nvcc made of module.cu. */
    .section .rodata
    .balign 64
    .globl zero__cuda_module
    .hidden zero__cuda_module
    .type zero__cuda_module, %object
zero__cuda_module:
    .incbin ZERO__CUDA_FATBIN
    .set length, . - zero__cuda_module
    .size zero__cuda_module, length

    .balign 8
    .globl zero__cuda_module_bytes
    .hidden zero__cuda_module_bytes
    .type zero__cuda_module_bytes, %object
    .size zero__cuda_module_bytes, 8
zero__cuda_module_bytes:
    .quad length

    .section .note.GNU-stack, "", %progbits
