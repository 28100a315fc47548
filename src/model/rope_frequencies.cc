#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace octavo::model {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// The pair (as a real number) whose wavelength makes `rotations` turns within the original context.
double PairOfRotations(double rotations, const RopeConfig& config, int32_t rot_dim) {
  return rot_dim * base::Log(config.original_context_length / (rotations * kTwoPi)) /
         (2.0 * base::Log(config.base));
}

// YaRN (Peng et al. 2023): fast pairs keep their frequency, slow pairs are divided by the factor,
// those between are blended.
void BlendYarn(const RopeConfig& config, int32_t rot_dim, std::vector<double>& frequencies) {
  const double last_index = rot_dim - 1.0;
  const double low =
      std::max(0.0, std::floor(PairOfRotations(config.yarn_beta_fast, config, rot_dim)));
  const double high =
      std::min(last_index, -std::floor(-PairOfRotations(config.yarn_beta_slow, config, rot_dim)));
  const double width = std::max(high - low, 0.001);
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const double ramp = std::clamp((static_cast<double>(pair) - low) / width, 0.0, 1.0);
    const double plain = frequencies[pair];
    frequencies[pair] = plain / config.factor * ramp + plain * (1.0 - ramp);
  }
}

void Divide(const std::vector<float>& divisors, std::vector<double>& frequencies) {
  for (size_t pair = 0; pair < divisors.size(); ++pair) {
    frequencies[pair] /= static_cast<double>(divisors[pair]);
  }
}

}  // namespace

RopeFrequencies::RopeFrequencies(const RopeConfig& config, int32_t rot_dim, int32_t model_len,
                                 const RopeFactors& factors)
    : frequencies_(static_cast<size_t>(rot_dim) / 2), magnitude_(config.attention_factor) {
  for (size_t pair = 0; pair < frequencies_.size(); ++pair) {
    frequencies_[pair] = base::Pow(config.base, -2.0 * static_cast<double>(pair) / rot_dim);
  }
  switch (config.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies_) frequency /= config.factor;
      break;
    case RopeScaling::kYarn:
      BlendYarn(config, rot_dim, frequencies_);
      magnitude_ *= 1.0 + 0.1 * base::Log(config.factor);
      break;
    case RopeScaling::kLongRope:
      Divide(model_len > config.original_context_length ? factors.long_divisors
                                                        : factors.short_divisors,
             frequencies_);
      break;
  }
  Divide(factors.frequency_divisors, frequencies_);
}

void RopeFrequencies::FillRow(int64_t position, float* cos, float* sin) const {
  for (size_t pair = 0; pair < frequencies_.size(); ++pair) {
    const base::SinCosValue turn = base::SinCos(static_cast<double>(position) * frequencies_[pair]);
    cos[pair] = static_cast<float>(turn.cos * magnitude_);
    sin[pair] = static_cast<float>(turn.sin * magnitude_);
  }
}

}  // namespace octavo::model
