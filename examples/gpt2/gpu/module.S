/* SPDX-License-Identifier: Apache-2.0 */
/* The module as constant data; GPT2_FATBIN is the file that nvcc made of module.cu. */
    .section .rodata
    .balign 64
    .globl gpt2_gpu_module
    .hidden gpt2_gpu_module
    .type gpt2_gpu_module, %object
gpt2_gpu_module:
    .incbin GPT2_FATBIN
    .size gpt2_gpu_module, . - gpt2_gpu_module

    .section .note.GNU-stack, "", %progbits
