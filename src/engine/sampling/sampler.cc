#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"
#include "engine/sampling/random.h"

namespace octavo::engine {
namespace {

// How many of the highest tokens top_p looks at before it sorts the whole row.
constexpr int64_t kFirstTopPTokens = 128;

struct Pick {
  size_t index;
  double before;  // the weight of all that precede it
};

// Inverse CDF: the first whose cumulative weight exceeds `target`. Rounding may put `target` at the
// total: then the last one that has any weight. REQUIRES: a weight is above 0, and target is.
Pick PickByWeight(std::span<const double> weights, double target) {
  Pick last{0, 0.0};
  double sum = 0.0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    last = {i, sum};
    sum += weights[i];
    if (sum > target) return last;
  }
  return last;
}

double Sum(std::span<const double> weights) {
  double sum = 0.0;
  for (double weight : weights) sum += weight;
  return sum;
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, const SamplerContext& context)
    : vocab_size_(context.vocab_size),
      temperature_(params.temperature),
      top_p_(params.top_p),
      top_k_(params.top_k > 0 && params.top_k < context.vocab_size ? params.top_k : 0),
      min_scaled_(static_cast<float>(base::Log(static_cast<double>(params.min_p)))),
      seed_(context.seed),
      stream_(context.stream),
      row_ops_(*context.row_ops),
      processor_(params, context.eos_token_ids, context.vocab_size) {
  OCTAVO_CHECK(vocab_size_ >= 1, "a vocabulary has at least one token");
  if (temperature_ >= kMinTemperature) {
    top_tokens_.emplace(vocab_size_, row_ops_);
    block_weights_.resize(static_cast<size_t>(top_tokens_->num_blocks()));
    weights_.reserve(static_cast<size_t>(std::max<int64_t>(vocab_size_, TopTokens::kBlockTokens)));
  }
  if (params.logprobs) {
    logprob_reporter_.emplace(*params.logprobs, vocab_size_, row_ops_);
    raw_logits_.resize(static_cast<size_t>(vocab_size_));
  }
}

std::optional<TokenId> Sampler::Sample(std::span<float> logits, int64_t position,
                                       TokenLogprobs* logprobs,
                                       const structured::TokenBitmask* mask) {
  OCTAVO_CHECK(logits.size() == static_cast<size_t>(vocab_size_),
               "a row of logits has one per token");
  const int64_t raw_argmax = row_ops_.argmax_finite(logits.data(), vocab_size_);
  if (raw_argmax < 0) return std::nullopt;
  const bool reports = logprobs != nullptr && logprob_reporter_.has_value();
  if (reports) std::copy(logits.begin(), logits.end(), raw_logits_.begin());

  const std::optional<TokenId> token_id = Choose(logits, raw_argmax, position, mask);
  if (reports && token_id) *logprobs = *logprob_reporter_->Report(raw_logits_, *token_id);
  return token_id;
}

std::optional<TokenId> Sampler::Choose(std::span<float> logits, int64_t raw_argmax,
                                       int64_t position, const structured::TokenBitmask* mask) {
  const bool is_changed = processor_.Apply(logits);
  if (mask != nullptr) mask->ApplyTo(logits);
  const int64_t argmax = is_changed || mask != nullptr
                             ? row_ops_.argmax_finite(logits.data(), vocab_size_)
                             : raw_argmax;
  if (argmax < 0) return std::nullopt;
  if (temperature_ < kMinTemperature) return static_cast<TokenId>(argmax);

  ScaleAndMask(logits, logits[static_cast<size_t>(argmax)]);
  top_tokens_->SetRow(logits);
  const double uniform = UniformDraw(seed_, position, stream_);
  return top_k_ > 0 || top_p_ < 1.0f ? DrawFromTop(uniform) : DrawFromRow(uniform);
}

// The highest becomes 0, so that every weight is the exponential of a number that is not above 0.
void Sampler::ScaleAndMask(std::span<float> logits, float max) const {
  const float inverse_temperature = 1.0f / temperature_;
  const float min_scaled = min_scaled_;
  for (float& logit : logits) {
    const float scaled = (logit - max) * inverse_temperature;
    logit = scaled < min_scaled ? -std::numeric_limits<float>::infinity() : scaled;
  }
}

// Over the whole row in two steps, block and token, so that the exponentials of all but one block
// are formed by the vectorised log_sum_exp.
TokenId Sampler::DrawFromRow(double uniform) {
  const double target = uniform * WeighBlocks();
  const Pick block = PickByWeight(block_weights_, target);

  weights_.clear();
  for (float scaled : top_tokens_->block(static_cast<int64_t>(block.index))) {
    weights_.push_back(base::Exp(static_cast<double>(scaled)));
  }
  const double share = (target - block.before) / block_weights_[block.index];
  const Pick token = PickByWeight(weights_, share * Sum(weights_));
  return static_cast<TokenId>(block.index * TopTokens::kBlockTokens + token.index);
}

TokenId Sampler::DrawFromTop(double uniform) {
  const std::span<const ScoredToken> kept = top_k_ > 0 ? KeepTopK() : KeepTopP();
  const auto weights = std::span<const double>(weights_).first(kept.size());
  return kept[PickByWeight(weights, uniform * Sum(weights)).index].token_id;
}

// top_k, then top_p of what is left.
std::span<const ScoredToken> Sampler::KeepTopK() {
  const std::span<const ScoredToken> tokens = top_tokens_->Select(top_k_);
  WeighUpTo(tokens, std::numeric_limits<double>::infinity());
  if (top_p_ >= 1.0f) return tokens;
  const double target = static_cast<double>(top_p_) * Sum(weights_);
  WeighUpTo(tokens, target);
  return tokens.first(weights_.size());
}

// The fewest of the highest tokens that hold top_p of the row's probability.
std::span<const ScoredToken> Sampler::KeepTopP() {
  const double target = static_cast<double>(top_p_) * WeighBlocks();
  std::span<const ScoredToken> tokens = top_tokens_->Select(kFirstTopPTokens);
  if (!WeighUpTo(tokens, target)) {
    tokens = top_tokens_->Select(vocab_size_);
    WeighUpTo(tokens, target);
  }
  return tokens.first(weights_.size());
}

// Fills block_weights_; returns their sum.
double Sampler::WeighBlocks() {
  for (int64_t b = 0; b < top_tokens_->num_blocks(); ++b) {
    const std::span<const float> tokens = top_tokens_->block(b);
    const float max = top_tokens_->block_max(b);
    double weight = 0.0;
    if (max > -std::numeric_limits<float>::infinity()) {
      weight = base::Exp(static_cast<double>(
          row_ops_.log_sum_exp(tokens.data(), static_cast<int64_t>(tokens.size()), max)));
    }
    block_weights_[static_cast<size_t>(b)] = weight;
  }
  return Sum(block_weights_);
}

// Fills weights_ for the fewest leading `tokens` whose weights add up to at least `target`; false,
// and all of them, if they do not.
bool Sampler::WeighUpTo(std::span<const ScoredToken> tokens, double target) {
  weights_.clear();
  double sum = 0.0;
  for (const ScoredToken& token : tokens) {
    weights_.push_back(base::Exp(static_cast<double>(token.logit)));
    sum += weights_.back();
    if (sum >= target) return true;
  }
  return false;
}

}  // namespace octavo::engine
