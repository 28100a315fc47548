#pragma once

// Purpose:    OCTAVO_REFERENCE_BEGIN and _END enclose the reference kernels. On x86-64 they are
//             compiled with FMA and F16C, so that std::fma is one instruction (it is exact either
//             way). Include every other header before OCTAVO_REFERENCE_BEGIN: the inline functions
//             of headers must stay baseline code.

#if defined(__x86_64__) && defined(__clang__)
#define OCTAVO_REFERENCE_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c\"))), apply_to=function)")
#define OCTAVO_REFERENCE_END _Pragma("clang attribute pop")
#elif defined(__x86_64__)
#define OCTAVO_REFERENCE_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c\")")
#define OCTAVO_REFERENCE_END _Pragma("GCC pop_options")
#else
#define OCTAVO_REFERENCE_BEGIN
#define OCTAVO_REFERENCE_END
#endif
