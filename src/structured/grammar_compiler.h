#pragma once

// Purpose:    turns what a request asks for into token masks, within bounds of time, stack and
//             memory; remembers what was asked for lately.
// Ownership:  owns the vocabulary's tables and the cache; hands out shared, immutable grammars.
// Threading:  any number of threads; a compile runs on a thread of its own, for its stack's sake,
//             while the caller waits. The destructor waits for the compiles that run.
// Invariants: at most kMaxCompiles run at once, those that nobody waits for any more included; the
//             cache holds at most max_cache_bytes.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "octavo/status.h"
#include "octavo/structured_outputs.h"
#include "octavo/types.h"
#include "structured/grammar_matcher.h"
#include "text/tokenizer.h"

namespace octavo::structured {

inline constexpr int kMaxCompiles = 2;

struct CompilerOptions {
  std::chrono::milliseconds time_limit{10000};
  int64_t max_cache_bytes = int64_t{64} << 20;
};

class GrammarCompiler {
 public:
  // `end_token_ids`: the tokens that end an output.
  GrammarCompiler(const text::Tokenizer& tokenizer, std::span<const TokenId> end_token_ids,
                  const CompilerOptions& options = {});
  ~GrammarCompiler();

  // kInvalidArgument: refused by GuardGrammar or the library, or not compiled in time;
  // kUnavailable: no compile could begin in time, since kMaxCompiles others run.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const StructuredOutputs& outputs);

  // Whether Compile would find it in the cache; false for what is refused.
  bool Holds(const StructuredOutputs& outputs) const;
  int64_t cached_bytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the compiles that run
};

}  // namespace octavo::structured
