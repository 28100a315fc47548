// Purpose:    hwy/highway.h, with the instruction set of our AVX-512 kernels. No include guard: it
//             is included once per target. A per-target file opens its namespace after it:
//             HWY_BEFORE_NAMESPACE(); namespace octavo::kernels { namespace HWY_NAMESPACE { ... }}
//             HWY_AFTER_NAMESPACE(); Include the standard headers that it needs before that: their
//             inline functions must stay baseline code.

#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX3
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni"
#endif
