#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#endif

namespace octavo::base {

#if defined(__x86_64__)
namespace {

struct CpuidRegisters {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

// All zero when the processor does not know the leaf.
CpuidRegisters Cpuid(uint32_t leaf) {
  CpuidRegisters r;
  if (__get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool HasAll(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

// The register states that the operating system saves (XCR0). REQUIRES: the OSXSAVE bit.
uint32_t SavedStates() {
  uint32_t eax = 0;
  uint32_t edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

}  // namespace

CpuFeatures DetectCpuFeatures() {
  constexpr uint32_t kYmmStates = 0x06;  // XMM, YMM
  constexpr uint32_t kZmmStates = 0xe6;  // and the mask registers and both parts of ZMM
  constexpr uint32_t kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kAvx2 = 1u << 5, kBmi1 = 1u << 3, kBmi2 = 1u << 8;
  constexpr uint32_t kAvx512FdqBwVl = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
  constexpr uint32_t kVnni = 1u << 11;

  CpuFeatures features;
  const CpuidRegisters leaf1 = Cpuid(1);
  if (!HasAll(leaf1.ecx, kFma | kOsXsave | kAvx | kF16c)) return features;
  const uint32_t saved = SavedStates();
  const CpuidRegisters leaf7 = Cpuid(7);
  features.avx2 = HasAll(saved, kYmmStates) && HasAll(leaf7.ebx, kAvx2 | kBmi1 | kBmi2);
  features.avx512_vnni = features.avx2 && HasAll(saved, kZmmStates) &&
                         HasAll(leaf7.ebx, kAvx512FdqBwVl) && HasAll(leaf7.ecx, kVnni);
  return features;
}

#else

CpuFeatures DetectCpuFeatures() { return {}; }

#endif

}  // namespace octavo::base
