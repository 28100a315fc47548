#include "kernels/peaks.h"

#include <numeric>
#include <vector>

#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace octavo::kernels {
namespace {

// Enough independent sums to hide the latency of a multiply-accumulate: 4 to 5 cycles, two a cycle.
// As many as fit into 16 registers beside an operand, with one of products where those are needed.
constexpr int kChains = 12;
constexpr int kChainsWithProducts = 10;

// The compiler must think that `value` may have changed, and that it is needed: equal sums would
// become one, and unused ones none. A macro, for an inline function has no vector registers.
#if defined(__x86_64__)
#define OCTAVO_KEEP(value) asm volatile("" : "+v"(value))
#else
#define OCTAVO_KEEP(value) asm volatile("" : "+w"(value))
#endif

uint64_t Sum(std::span<const uint64_t> words) {
  return std::accumulate(words.begin(), words.end(), uint64_t{0});
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) uint64_t ReadAvx512(const std::byte* data, size_t size) {
  __m512i sums[4] = {};
  for (size_t i = 0; i < size; i += 256) {
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; ++part) {
      sums[part] = _mm512_xor_si512(sums[part], _mm512_loadu_si512(data + i + 64 * part));
    }
  }
  const __m512i sum =
      _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, sum);
  return Sum(words);
}

__attribute__((target("avx2"))) uint64_t ReadAvx2(const std::byte* data, size_t size) {
  __m256i sums[8] = {};
  for (size_t i = 0; i < size; i += 256) {
#pragma GCC unroll 8
    for (size_t part = 0; part < 8; ++part) {
      const auto* source = reinterpret_cast<const __m256i*>(data + i + 32 * part);
      sums[part] = _mm256_xor_si256(sums[part], _mm256_loadu_si256(source));
    }
  }
  for (size_t part = 1; part < 8; ++part) sums[0] = _mm256_xor_si256(sums[0], sums[part]);
  alignas(32) uint64_t words[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), sums[0]);
  return Sum(words);
}

__attribute__((target("avx512f"))) void FloatAvx512(int64_t num_steps) {
  __m512 sums[kChains] = {};
  __m512 x = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (__m512& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
    OCTAVO_KEEP(x);
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
  }
#pragma GCC unroll 12
  for (__m512& sum : sums) OCTAVO_KEEP(sum);
}

__attribute__((target("avx2,fma"))) void FloatAvx2(int64_t num_steps) {
  __m256 sums[kChains] = {};
  __m256 x = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
  for (__m256& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
    OCTAVO_KEEP(x);
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(x, x, sum);
  }
#pragma GCC unroll 12
  for (__m256& sum : sums) OCTAVO_KEEP(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void Int8Vnni(int64_t num_steps) {
  __m512i sums[kChains] = {};
  __m512i x = _mm512_set1_epi8(3);
#pragma GCC unroll 12
  for (__m512i& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
    OCTAVO_KEEP(x);
#pragma GCC unroll 12
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, x);
  }
#pragma GCC unroll 12
  for (__m512i& sum : sums) OCTAVO_KEEP(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void Int16Vnni(int64_t num_steps) {
  __m512i sums[kChains] = {};
  __m512i x = _mm512_set1_epi16(3);
#pragma GCC unroll 12
  for (__m512i& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
    OCTAVO_KEEP(x);
#pragma GCC unroll 12
    for (__m512i& sum : sums) sum = _mm512_dpwssd_epi32(sum, x, x);
  }
#pragma GCC unroll 12
  for (__m512i& sum : sums) OCTAVO_KEEP(sum);
}

// Pairs of products in 16 bits, and their sums there: what codes of 4 bits allow.
__attribute__((target("avx2"))) void Int8Maddubs(int64_t num_steps) {
  __m256i sums[kChainsWithProducts] = {};
  __m256i x = _mm256_set1_epi8(3);
#pragma GCC unroll 10
  for (__m256i& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
#pragma GCC unroll 10
    for (__m256i& sum : sums) {
      OCTAVO_KEEP(x);  // or one product would do for all sums
      __m256i products = _mm256_maddubs_epi16(x, x);
      OCTAVO_KEEP(products);
      sum = _mm256_add_epi16(sum, products);
    }
  }
#pragma GCC unroll 10
  for (__m256i& sum : sums) OCTAVO_KEEP(sum);
}

// Pairs of products in 32 bits, and their sums there.
__attribute__((target("avx2"))) void Int16Madd(int64_t num_steps) {
  __m256i sums[kChainsWithProducts] = {};
  __m256i x = _mm256_set1_epi16(3);
#pragma GCC unroll 10
  for (__m256i& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
#pragma GCC unroll 10
    for (__m256i& sum : sums) {
      OCTAVO_KEEP(x);  // or one product would do for all sums
      __m256i products = _mm256_madd_epi16(x, x);
      OCTAVO_KEEP(products);
      sum = _mm256_add_epi32(sum, products);
    }
  }
#pragma GCC unroll 10
  for (__m256i& sum : sums) OCTAVO_KEEP(sum);
}

std::vector<PeakProbe> Probes() {
  const base::CpuFeatures cpu = base::DetectCpuFeatures();
  std::vector<PeakProbe> probes;
  if (cpu.avx512_vnni) {
    probes.push_back({"fp32 avx512", 32.0 * kChains, FloatAvx512});
    probes.push_back({"int8 avx512 vnni", 128.0 * kChains, Int8Vnni});
    probes.push_back({"int16 avx512 vnni", 64.0 * kChains, Int16Vnni});
  }
  if (cpu.avx2) {
    probes.push_back({"fp32 avx2", 16.0 * kChains, FloatAvx2});
    probes.push_back({"int8 avx2 maddubs", 64.0 * kChainsWithProducts, Int8Maddubs});
    probes.push_back({"int16 avx2 madd", 32.0 * kChainsWithProducts, Int16Madd});
  }
  return probes;
}

#elif defined(__aarch64__)

uint64_t ReadNeon(const std::byte* data, size_t size) {
  uint64x2_t sum = vdupq_n_u64(0);
  for (size_t i = 0; i < size; i += 64) {
    const uint64x2x4_t line = vld1q_u64_x4(reinterpret_cast<const uint64_t*>(data + i));
    sum = veorq_u64(
        sum, veorq_u64(veorq_u64(line.val[0], line.val[1]), veorq_u64(line.val[2], line.val[3])));
  }
  const uint64_t words[] = {vgetq_lane_u64(sum, 0), vgetq_lane_u64(sum, 1)};
  return Sum(words);
}

void FloatNeon(int64_t num_steps) {
  float32x4_t sums[kChains] = {};
  float32x4_t x = vdupq_n_f32(0.5f);
#pragma GCC unroll 12
  for (float32x4_t& sum : sums) OCTAVO_KEEP(sum);
  for (int64_t i = 0; i < num_steps; ++i) {
    OCTAVO_KEEP(x);
#pragma GCC unroll 12
    for (float32x4_t& sum : sums) sum = vfmaq_f32(sum, x, x);
  }
#pragma GCC unroll 12
  for (float32x4_t& sum : sums) OCTAVO_KEEP(sum);
}

std::vector<PeakProbe> Probes() { return {{"fp32 neon", 8.0 * kChains, FloatNeon}}; }

#endif

}  // namespace

ReadAll FastestRead() {
#if defined(__x86_64__)
  const base::CpuFeatures cpu = base::DetectCpuFeatures();
  if (cpu.avx512_vnni) return ReadAvx512;
  return cpu.avx2 ? ReadAvx2 : nullptr;
#else
  return ReadNeon;
#endif
}

std::span<const PeakProbe> PeakProbes() {
  static const std::vector<PeakProbe> probes = Probes();
  return probes;
}

}  // namespace octavo::kernels
