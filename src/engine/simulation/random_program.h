#pragma once

// Purpose:    programs for the simulated engine: how an engine is made, which requests come when,
//             and which are aborted. A number gives the same program everywhere.
// Ownership:  values.
// Threading:  one thread.
// Invariants: none: requests that can never be served are among them.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/simulation/simulated_engine.h"

namespace octavo::engine {

struct ProgramRequest {
  Request request;
  uint64_t seed = 0;
  int64_t submit_at = 0;            // step
  std::optional<int64_t> abort_at;  // step
};

struct Program {
  CoreOptions core;
  SimulationOptions model;
  std::vector<ProgramRequest> requests;  // by submit_at
  std::optional<int64_t> reset_at;       // step: the cache is reset
};

class ProgramGenerator {
 public:
  explicit ProgramGenerator(uint64_t number) : random_(number) {}

  Program Draw() {
    Program program;
    DrawCore(&program);
    DrawBases();
    const int64_t num_requests = Uniform(1, 12);
    int64_t step = 0;
    for (int64_t i = 0; i < num_requests; ++i) {
      if (Chance(40)) step += Uniform(1, 12);
      program.requests.push_back(DrawRequest(program.core, step));
    }
    if (Chance(10)) program.reset_at = Uniform(0, 40);
    return program;
  }

 private:
  int64_t Uniform(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int64_t percent) { return Uniform(1, 100) <= percent; }
  template <class T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Uniform(0, static_cast<int64_t>(values.size()) - 1)];
  }

  void DrawCore(Program* program) {
    const auto block_size = OneOf({8, 16, 32});
    const auto num_blocks = static_cast<uint32_t>(
        OneOf({Uniform(2, 8), Uniform(6, 14), Uniform(12, 30), int64_t{200}}));
    CoreOptions core = SimulatedCore(num_blocks, block_size);
    core.max_model_len = static_cast<int32_t>(Uniform(24, 160));
    core.cache.max_blocks_per_sequence = core.blocks_per_context();
    core.cache.enable_prefix_caching = Chance(80);
    core.cache.eviction =
        OneOf({kvcache::EvictionPolicyKind::kLru, kvcache::EvictionPolicyKind::kCostAware});
    core.cache.max_pinned_share = OneOf({0.0, 0.5, 1.0});
    core.mode =
        Chance(80) ? KvCacheMode::kPaged : OneOf({KvCacheMode::kContiguous, KvCacheMode::kNone});
    if (core.mode == KvCacheMode::kContiguous) {
      core.cache.num_blocks = std::max(core.cache.num_blocks, core.blocks_per_context());
    }
    core.by_priority = Chance(50);
    if (core.mode == KvCacheMode::kPaged && Chance(40)) {
      core.num_swap_blocks = static_cast<uint32_t>(Uniform(1, 2 * num_blocks));
      core.seconds_per_swapped_block = OneOf({0.0, 1e-3, 1e-2});
    }
    core.limits.max_num_batched_tokens =
        OneOf({Uniform(1, 8), Uniform(9, 40), int64_t{64}, int64_t{256}});
    core.limits.max_num_seqs = static_cast<uint32_t>(OneOf({Uniform(1, 4), Uniform(4, 16)}));
    core.limits.watermark_blocks = static_cast<uint32_t>(Uniform(0, 2));
    core.limits.static_batching = Chance(10);
    program->core = core;
    program->model.max_logits_rows = Uniform(1, 5);
    if (Chance(10)) program->model.breaks_down_after = 2;
  }

  // What prompts begin with.
  void DrawBases() {
    bases_.assign(3, {});
    for (std::vector<TokenId>& base : bases_) {
      for (int i = 0; i < 160; ++i) base.push_back(DrawToken());
    }
  }

  TokenId DrawToken() { return static_cast<TokenId>(Uniform(0, 31)); }

  ProgramRequest DrawRequest(const CoreOptions& core, int64_t step) {
    ProgramRequest drawn;
    drawn.submit_at = step;
    drawn.seed = random_();
    if (Chance(15)) drawn.abort_at = step + Uniform(0, 30);
    Request& request = drawn.request;
    DrawPrompt(core, &request.prompt_token_ids);
    DrawParams(&request.params);
    if (Chance(12)) DrawBeamSearch(&request);
    request.priority = static_cast<int32_t>(Uniform(-1, 1));
    if (Chance(20)) request.cache_salt = "salt";
    if (Chance(15)) request.pin_ttl_ms = Uniform(1, 500);
    request.explain = Chance(10);
    return drawn;
  }

  void DrawPrompt(const CoreOptions& core, std::vector<TokenId>* prompt) {
    const std::vector<TokenId>& base = bases_[static_cast<size_t>(Uniform(0, 2))];
    const int64_t length = Uniform(1, std::min<int64_t>(core.max_model_len - 1, 120));
    const int64_t num_shared = OneOf({int64_t{0}, length, Uniform(0, length), length / 8 * 8});
    prompt->assign(base.begin(), base.begin() + num_shared);
    while (static_cast<int64_t>(prompt->size()) < length) prompt->push_back(DrawToken());
  }

  void DrawParams(SamplingParams* params) {
    params->detokenize = false;
    if (Chance(25)) params->n = static_cast<int32_t>(Uniform(2, 4));
    params->temperature = OneOf({0.0f, 0.7f, 1.0f});
    if (Chance(20)) params->top_k = 5;
    if (Chance(20)) params->top_p = 0.8f;
    if (Chance(20)) params->repetition_penalty = 1.3f;
    if (Chance(20)) params->frequency_penalty = 0.5f;
    if (Chance(20)) params->stop_token_ids = {3, 4};
    if (Chance(10)) params->min_tokens = static_cast<int32_t>(Uniform(1, 8));
    params->ignore_eos = Chance(50);
    params->max_tokens =
        Chance(10) ? std::nullopt : std::optional(static_cast<int32_t>(Uniform(8, 60)));
    if (Chance(30)) params->logprobs = OneOf({0, 3, -1});
    if (Chance(12)) params->prompt_logprobs = OneOf({0, 2});
  }

  void DrawBeamSearch(Request* request) {
    request->params.n = 1;
    request->params.prompt_logprobs.reset();
    if (request->params.logprobs) request->params.logprobs = 0;
    BeamSearchParams& beams = request->beam_search.emplace();
    beams.beam_width = static_cast<int32_t>(Uniform(1, 5));
    beams.max_tokens = static_cast<int32_t>(Uniform(1, 24));
    beams.ignore_eos = Chance(30);
    beams.length_penalty = OneOf({0.0f, 1.0f, 2.0f});
  }

  std::mt19937_64 random_;
  std::vector<std::vector<TokenId>> bases_;
};

// For a failure's message.
inline std::string Describe(const Program& program) {
  const CoreOptions& core = program.core;
  std::string text = fmt::format(
      "pool {} x {}, swap {} ({} s), mode {}, cache {}, eviction {}, pins {}, context {}, budget "
      "{}, "
      "sequences {}, watermark {}, static {}, priority {}, logits rows {}\n",
      core.cache.num_blocks, core.cache.block_size_tokens, core.num_swap_blocks,
      core.seconds_per_swapped_block, static_cast<int>(core.mode), core.cache.enable_prefix_caching,
      static_cast<int>(core.cache.eviction), core.cache.max_pinned_share, core.max_model_len,
      core.limits.max_num_batched_tokens, core.limits.max_num_seqs, core.limits.watermark_blocks,
      core.limits.static_batching, core.by_priority, program.model.max_logits_rows);
  for (size_t i = 0; i < program.requests.size(); ++i) {
    const ProgramRequest& drawn = program.requests[i];
    const Request& request = drawn.request;
    text += fmt::format(
        "request {} at step {}: {} prompt tokens from {}, n {}, beams {}, max_tokens {}, salt "
        "'{}', "
        "priority {}, pin {}, prompt_logprobs {}, abort at {}\n",
        i, drawn.submit_at, request.prompt_token_ids.size(), request.prompt_token_ids.front(),
        request.params.n, request.beam_search ? request.beam_search->beam_width : 0,
        request.beam_search ? request.beam_search->max_tokens
                            : request.params.max_tokens.value_or(-1),
        request.cache_salt, request.priority, request.pin_ttl_ms.value_or(-1),
        request.params.prompt_logprobs.value_or(-2), drawn.abort_at.value_or(-1));
  }
  return text;
}

}  // namespace octavo::engine
