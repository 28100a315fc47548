#pragma once

// Purpose:    one request from its prompt to its end: prefill, then a token per step, until
//             something stops it.
// Ownership:  owns sampler, stop checker and detokenizer; borrows the sequence, the tokenizer and
//             the logits scratch.
// Threading:  the engine's thread.
// Invariants: the output is a function of prompt, parameters and seed alone; every output token is
//             handed to the callback once.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_checker.h"
#include "engine/sequence.h"
#include "octavo/engine.h"
#include "text/incremental_detokenizer.h"
#include "text/tokenizer.h"

namespace octavo::engine {

// What every request of an engine shares.
struct GenerationContext {
  SequenceContext sequence;
  const text::Tokenizer* tokenizer = nullptr;
  std::span<const TokenId> eos_token_ids;
  std::span<float> logits;                   // [max logits rows, vocab_size]
  const std::atomic<bool>* abort = nullptr;  // set from any thread
};

class Generation {
 public:
  // REQUIRES: CheckRequest is OK for the same arguments.
  Generation(const GenerationContext& context, const SamplingParams& params, uint64_t seed,
             int64_t num_prompt_tokens);

  // What must hold before any work is done.
  static Status CheckRequest(const GenerationContext& context,
                             const std::vector<TokenId>& prompt_token_ids,
                             const SamplingParams& params);

  Result<RequestOutput> Run(Sequence& sequence, const std::vector<TokenId>& prompt_token_ids,
                            const DeltaCallback& on_delta);

 private:
  using Clock = std::chrono::steady_clock;

  Status Prefill(Sequence& sequence);
  Status Decode(Sequence& sequence, const DeltaCallback& on_delta);
  bool ReportPromptLogprobs(const Sequence& sequence, int64_t first, int64_t count);
  FinishReason EmitToken(Sequence& sequence, const DeltaCallback& on_delta);
  FinishReason EndEarly(FinishReason reason, const DeltaCallback& on_delta);
  bool aborted() const { return context_.abort->load(std::memory_order_relaxed); }
  std::span<float> LogitsRows(int64_t count) const;

  const GenerationContext context_;
  const SamplingParams params_;
  Sampler sampler_;
  StopChecker stop_checker_;
  text::IncrementalDetokenizer detokenizer_;
  RequestOutput result_;
  CompletionOutput output_;
};

}  // namespace octavo::engine
