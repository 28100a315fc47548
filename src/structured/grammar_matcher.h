#pragma once

// Purpose:    where one output stands in its grammar: which tokens may come next.
// Ownership:  a CompiledGrammar is shared by all outputs that follow it; a GrammarMatcher owns its
//             own state.
// Threading:  a CompiledGrammar is immutable; a GrammarMatcher has one thread at a time.
// Invariants: the state is a function of the grammar and of the accepted tokens alone.
// States:     running -> terminated, by accepting an end-of-generation token.

#include <cstdint>
#include <memory>
#include <string_view>

#include "octavo/types.h"
#include "structured/token_bitmask.h"

namespace octavo::structured {

class CompiledGrammar;  // grammar_library.h; made by GrammarCompiler alone

class GrammarMatcher {
 public:
  // `num_outputs` of one request share what it may cost.
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar, int32_t num_outputs = 1);
  ~GrammarMatcher();
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;

  // Sets the bits of the tokens that may come next; end-of-generation tokens are among them if the
  // output may end here. REQUIRES: not terminated; the mask has the size of the vocabulary. False:
  // the library failed or it cost too much: nothing may come.
  bool FillMask(TokenBitmask* mask);
  // False, and nothing changes, if `token` may not come next. REQUIRES: not terminated.
  bool Accept(TokenId token);
  // The same for bytes; of tests.
  bool AcceptBytes(std::string_view bytes);

  // Whether the output may end here.
  bool IsCompleted() const;
  bool IsTerminated() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octavo::structured
