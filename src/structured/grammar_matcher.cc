#include "structured/grammar_matcher.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "structured/grammar_library.h"

namespace octavo::structured {

namespace {

// What the outputs of one request may cost in processor time. Where many readings of the text are
// possible, each token may cost more than the one before.
constexpr double kMatcherSeconds = 2.0;
constexpr double kMatcherSecondsPerToken = 0.005;

// Of this thread, so that a busy machine makes no difference.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool FillMaskAtAnyCost(xgrammar::GrammarMatcher& matcher, TokenBitmask* mask) {
  const std::span<uint32_t> words = mask->words();
  int64_t shape[] = {static_cast<int64_t>(words.size())};
  DLTensor tensor{};
  tensor.data = words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = shape;
  try {
    // It leaves the mask alone where every token is allowed.
    if (!matcher.FillNextTokenBitmask(&tensor)) std::ranges::fill(words, UINT32_MAX);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

struct GrammarMatcher::State {
  std::shared_ptr<const CompiledGrammar> grammar;
  xgrammar::GrammarMatcher matcher;
  double share = 1.0;    // of what a request may cost
  double seconds = 0.0;  // that it has cost so far
  double allowed_seconds = kMatcherSeconds;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar,
                               int32_t num_outputs) {
  xgrammar::GrammarMatcher matcher(grammar->compiled());
  state_ = std::make_unique<State>(State{std::move(grammar), std::move(matcher)});
  state_->share /= num_outputs;
  state_->allowed_seconds = kMatcherSeconds * state_->share;
}

GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

bool GrammarMatcher::FillMask(TokenBitmask* mask) {
  OCTAVO_CHECK(!IsTerminated(), "an output that has ended has no next token");
  if (state_->seconds > state_->allowed_seconds) return false;
  const double start = ProcessorSeconds();
  const bool is_filled = FillMaskAtAnyCost(state_->matcher, mask);
  state_->seconds += ProcessorSeconds() - start;
  return is_filled;
}

bool GrammarMatcher::Accept(TokenId token) {
  OCTAVO_CHECK(!IsTerminated(), "an output that has ended has no next token");
  const double start = ProcessorSeconds();
  bool is_accepted = false;
  try {
    is_accepted = state_->matcher.AcceptToken(token);
  } catch (const std::exception&) {
    is_accepted = false;
  }
  state_->seconds += ProcessorSeconds() - start;
  if (is_accepted) state_->allowed_seconds += kMatcherSecondsPerToken * state_->share;
  return is_accepted;
}

bool GrammarMatcher::AcceptBytes(std::string_view bytes) {
  try {
    return state_->matcher.AcceptString(std::string(bytes));
  } catch (const std::exception&) {
    return false;
  }
}

bool GrammarMatcher::IsCompleted() const { return state_->matcher.IsCompleted(); }

bool GrammarMatcher::IsTerminated() const { return state_->matcher.IsTerminated(); }

}  // namespace octavo::structured
