#pragma once

// Purpose:    one completion of a request: chooses its tokens, decides when it ends, and hands out
//             its text.
// Ownership:  owns sampler, stop checker, detokenizer and the output; borrows the tokenizer.
// Threading:  the engine thread.
// Invariants: the output is a function of prompt, parameters, seed and index alone; every token is
//             handed to the sink once. States: running -> ended, by an Advance that returns a
//             reason, or by End.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_checker.h"
#include "octavo/profiler.h"
#include "octavo/request_output.h"
#include "octavo/sampling_params.h"
#include "structured/grammar_matcher.h"
#include "structured/token_bitmask.h"
#include "text/incremental_detokenizer.h"
#include "text/tokenizer.h"

namespace octavo::engine {

// Where a request's pieces and its end go. Called on the engine thread, between steps.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void OnDelta(const RequestDelta& delta) = 0;
  virtual void OnEnd(RequestOutput output) = 0;
};

// What every completion of an engine shares.
struct CompletionContext {
  const text::Tokenizer* tokenizer = nullptr;  // may be null if no request wants text
  std::span<const TokenId> eos_token_ids;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens
  const kernels::RowOpKernels* row_ops = nullptr;
  Profiler* profiler = nullptr;  // attached; null: nothing is recorded
};

// What must hold before a request is accepted: tokens, lengths and parameters.
Status CheckPromptAndParams(const CompletionContext& context, std::span<const TokenId> prompt,
                            const SamplingParams& params);

// How many tokens a request may still produce after a prompt of num_prompt_tokens.
int32_t MaxOutputTokens(std::optional<int32_t> max_tokens, int32_t max_model_len,
                        int64_t num_prompt_tokens);

class Completion {
 public:
  // REQUIRES: CheckPromptAndParams is OK; `grammar` is that of params.structured_outputs, null
  // without.
  Completion(const CompletionContext& context, const SamplingParams& params, uint64_t seed,
             int32_t index, std::span<const TokenId> prompt,
             const std::shared_ptr<const structured::CompiledGrammar>& grammar = nullptr);

  struct Step {
    std::optional<TokenId> token;  // nothing: the completion has ended without one
    FinishReason finish_reason = FinishReason::kNone;
  };
  // Chooses the token at `position` from `logits` [vocab_size], which it overwrites. Ends without a
  // token: with kStop if the output is a whole one and nothing may follow it, with kError if the
  // logits are not finite or nothing may be chosen.
  Step Advance(std::span<float> logits, int64_t position, RequestSink& sink);
  // Ends the completion without another token: what is held back belongs to the text after all.
  void End(FinishReason reason, RequestSink& sink);

  // REQUIRES: ended.
  CompletionOutput TakeOutput() { return std::move(output_); }

 private:
  // Where a completion with structured outputs stands.
  struct Structure {
    structured::GrammarMatcher matcher;
    structured::TokenBitmask mask;  // of the next token
  };

  const structured::TokenBitmask* NextMask();

  std::span<const TokenId> eos_token_ids_;
  bool ignore_eos_;
  bool reports_logprobs_;
  bool detokenize_;
  const kernels::RowOpKernels* row_ops_;
  Profiler* profiler_;                  // null: nothing is recorded
  std::optional<Structure> structure_;  // absent without structured outputs
  Sampler sampler_;
  StopChecker stop_checker_;
  std::optional<text::IncrementalDetokenizer> detokenizer_;  // absent without detokenize
  CompletionOutput output_;
};

}  // namespace octavo::engine
