#pragma once

// Purpose:    random numbers as a pure function of (seed, position, stream): the counter-based
//             generator Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
//             as easy as 1, 2, 3" (SC 2011).
// Ownership:  none; there is no state.
// Threading:  pure.
// Invariants: a draw depends on nothing but its arguments, so neither the batch, nor the number of
//             steps, nor the order of the calls can change it (docs/contracts/sampling.md, S5).

#include <array>
#include <cstdint>

namespace octavo::engine {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds. A round multiplies two words of the counter by odd constants, and mixes the high
// halves with the other two words and the key; the key grows by a Weyl sequence between rounds.
constexpr PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kNumRounds = 10;
  for (int round = 0; round < kNumRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// Uniform in (0, 1), both ends excluded: (k + 1/2) / 2^52 with a 52-bit k, which a double holds
// exactly.
constexpr double UniformDraw(uint64_t seed, int64_t position, uint32_t stream) {
  const uint64_t place = static_cast<uint64_t>(position);
  const PhiloxCounter words =
      Philox4x32({static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), stream, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[1]} << 32) | words[0];
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace octavo::engine
