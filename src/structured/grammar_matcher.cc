#include "structured/grammar_matcher.h"

#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "structured/grammar_library.h"

namespace octavo::structured {

struct GrammarMatcher::State {
  std::shared_ptr<const CompiledGrammar> grammar;
  xgrammar::GrammarMatcher matcher;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar) {
  xgrammar::GrammarMatcher matcher(grammar->compiled());
  state_ = std::make_unique<State>(std::move(grammar), std::move(matcher));
}

GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

bool GrammarMatcher::FillMask(TokenBitmask* mask) {
  OCTAVO_CHECK(!IsTerminated(), "an output that has ended has no next token");
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
    if (!state_->matcher.FillNextTokenBitmask(&tensor)) std::ranges::fill(words, UINT32_MAX);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool GrammarMatcher::Accept(TokenId token) {
  OCTAVO_CHECK(!IsTerminated(), "an output that has ended has no next token");
  try {
    return state_->matcher.AcceptToken(token);
  } catch (const std::exception&) {
    return false;
  }
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
