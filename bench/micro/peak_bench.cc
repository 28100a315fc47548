// What one thread of this machine reaches at best, to compare the kernels with: reading memory, and
// multiplying in registers.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octavo {
namespace {

void ReadMemory(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0)) << 10;
  std::vector<uint64_t> data(bytes / 8, 1);
  uint64_t sum = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < data.size(); i += 8) {
      // One load per cache line would overstate the rate of a kernel that reads it all: read both
      // halves of each.
      sum += data[i] ^ data[i + 4];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(bytes) * 1e-9,
      benchmark::Counter::kIsRate);
}
BENCHMARK(ReadMemory)->Name("peak/read_KiB")->Arg(32)->Arg(1024)->Arg(16 << 10)->Arg(512 << 10);

#if defined(__x86_64__)

constexpr int kChains = 12;
constexpr int kSteps = 1000;

void Report(benchmark::State& state, int64_t ops_per_instruction) {
  state.counters["GOP/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * kSteps * kChains * ops_per_instruction) * 1e-9,
      benchmark::Counter::kIsRate);
}

__attribute__((target("avx512f,avx512vnni"))) void Vnni(benchmark::State& state) {
  if (!base::DetectCpuFeatures().avx512_vnni) return state.SkipWithError("no VNNI");
  __m512i acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi8(3);
  __m512i y = _mm512_set1_epi8(5);
  for (auto _ : state) {
    for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) acc[c] = _mm512_dpbusd_epi32(acc[c], x, y);
    }
    for (auto& a : acc) benchmark::DoNotOptimize(a);
  }
  Report(state, 128);
}
BENCHMARK(Vnni)->Name("peak/int8_vnni");

__attribute__((target("avx2"))) void Maddubs(benchmark::State& state) {
  if (!base::DetectCpuFeatures().avx2) return state.SkipWithError("no AVX2");
  __m256i acc[kChains];
  for (auto& a : acc) a = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(3);
  __m256i y = _mm256_set1_epi8(5);
  for (auto _ : state) {
    for (int i = 0; i < kSteps; ++i) {
      benchmark::DoNotOptimize(x);
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) {
        acc[c] = _mm256_add_epi16(acc[c], _mm256_maddubs_epi16(x, acc[c]));
      }
    }
    for (auto& a : acc) benchmark::DoNotOptimize(a);
  }
  benchmark::DoNotOptimize(y);
  Report(state, 64);
}
BENCHMARK(Maddubs)->Name("peak/int8_maddubs16");

__attribute__((target("avx512f"))) void Fma512(benchmark::State& state) {
  if (!base::DetectCpuFeatures().avx512_vnni) return state.SkipWithError("no AVX-512");
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.5f);
  for (auto _ : state) {
    for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) acc[c] = _mm512_fmadd_ps(acc[c], x, x);
    }
    for (auto& a : acc) benchmark::DoNotOptimize(a);
  }
  Report(state, 32);
}
BENCHMARK(Fma512)->Name("peak/fma_avx512");

__attribute__((target("avx2,fma"))) void Fma256(benchmark::State& state) {
  if (!base::DetectCpuFeatures().avx2) return state.SkipWithError("no AVX2");
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(0.5f);
  for (auto _ : state) {
    for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) acc[c] = _mm256_fmadd_ps(acc[c], x, x);
    }
    for (auto& a : acc) benchmark::DoNotOptimize(a);
  }
  Report(state, 16);
}
BENCHMARK(Fma256)->Name("peak/fma_avx2");

#endif

}  // namespace
}  // namespace octavo
