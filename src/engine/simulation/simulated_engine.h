#pragma once

// Purpose:    an EngineCore over the simulated model, with what tests need around it: requests go
//             in, everything that comes out is kept and checked, and every step is audited.
// Ownership:  owns core and executor; sinks are shared with the requests.
// Threading:  one thread.
// Invariants: none.

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/simulation/lone_run.h"
#include "engine/simulation/simulated_executor.h"

namespace octavo::engine {

inline constexpr TokenId kSimulatedEos[] = {1};

// Keeps the stream of one request, and holds it to its rules.
class RecordingSink : public RequestSink {
 public:
  struct Stream {
    std::string text;
    std::vector<TokenId> token_ids;
    std::vector<TokenLogprobs> logprobs;
    FinishReason finish_reason = FinishReason::kNone;
  };

  void OnDelta(const RequestDelta& delta) override {
    Stream& stream = streams_[delta.index];
    if (output_) violation_ = "a piece comes after the end of its request";
    if (stream.finish_reason != FinishReason::kNone)
      violation_ = "a piece comes after the last one";
    stream.text += delta.text;
    stream.token_ids.insert(stream.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    stream.logprobs.insert(stream.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    stream.finish_reason = delta.finish_reason;
    ++num_deltas_;
  }

  void OnEnd(RequestOutput output) override {
    if (output_) violation_ = "a request ends twice";
    output_ = std::move(output);
    for (const CompletionOutput& completion : output_->outputs) {
      const Stream& stream = streams_[completion.index];
      if (stream.text != completion.text || stream.token_ids != completion.token_ids ||
          stream.logprobs.size() != completion.logprobs.size() ||
          stream.finish_reason != completion.finish_reason) {
        violation_ =
            fmt::format("the pieces of completion {} are not its output", completion.index);
      }
    }
    if (streams_.size() != output_->outputs.size()) violation_ = "a stream has no completion";
  }

  bool has_ended() const { return output_.has_value(); }
  const RequestOutput& output() const { return *output_; }
  const std::map<int32_t, Stream>& streams() const { return streams_; }
  const std::string& violation() const { return violation_; }
  size_t num_deltas() const { return num_deltas_; }

 private:
  std::map<int32_t, Stream> streams_;  // by index
  std::optional<RequestOutput> output_;
  std::string violation_;
  size_t num_deltas_ = 0;
};

// ---- Comparing outputs, bit by bit.

inline bool SameBits(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token_id == b.token_id && a.rank == b.rank &&
         std::bit_cast<uint32_t>(a.logprob) == std::bit_cast<uint32_t>(b.logprob);
}

inline bool SameBits(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  return std::ranges::equal(a, b, [](const TokenLogprobs& x, const TokenLogprobs& y) {
    return SameBits(x.chosen, y.chosen) &&
           std::ranges::equal(x.top, y.top, [](const TokenLogprob& s, const TokenLogprob& t) {
             return SameBits(s, t);
           });
  });
}

inline std::string Listed(std::span<const TokenId> tokens) {
  std::string list;
  for (const TokenId token : tokens) list += fmt::format(" {}", token);
  return list;
}

// Where two completions part; empty: nowhere.
inline std::string DifferenceOf(const CompletionOutput& got, const CompletionOutput& expected) {
  if (got.index != expected.index) return fmt::format("index {}", got.index);
  if (got.token_ids != expected.token_ids) {
    return fmt::format("completion {} is{} instead of{}", got.index, Listed(got.token_ids),
                       Listed(expected.token_ids));
  }
  if (got.finish_reason != expected.finish_reason) {
    return fmt::format("completion {} ended with '{}' instead of '{}'", got.index,
                       FinishReasonName(got.finish_reason),
                       FinishReasonName(expected.finish_reason));
  }
  if (got.text != expected.text) return "text '" + got.text + "' not '" + expected.text + "'";
  if (got.stop_reason != expected.stop_reason) return "stop reason";
  if (!SameBits(got.logprobs, expected.logprobs)) return "log-probabilities";
  if (std::bit_cast<uint64_t>(got.cumulative_logprob) !=
      std::bit_cast<uint64_t>(expected.cumulative_logprob)) {
    return "cumulative log-probability";
  }
  return {};
}

inline std::string DifferenceOf(const RequestOutput& got, const RequestOutput& expected) {
  if (got.prompt_token_ids != expected.prompt_token_ids) return "the prompt";
  if (!SameBits(got.prompt_logprobs, expected.prompt_logprobs)) {
    return fmt::format("{} log-probabilities of the prompt, expected {}",
                       got.prompt_logprobs.size(), expected.prompt_logprobs.size());
  }
  if (got.outputs.size() != expected.outputs.size()) {
    return fmt::format("{} completions instead of {}", got.outputs.size(), expected.outputs.size());
  }
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    std::string difference = DifferenceOf(got.outputs[i], expected.outputs[i]);
    if (!difference.empty()) return difference;
  }
  return {};
}

// An aborted completion is the beginning of the whole one, or all of it.
inline std::string DifferenceOfAborted(const CompletionOutput& got,
                                       const CompletionOutput& expected) {
  if (got.finish_reason != FinishReason::kAbort) return DifferenceOf(got, expected);
  if (got.token_ids.size() > expected.token_ids.size() ||
      !std::equal(got.token_ids.begin(), got.token_ids.end(), expected.token_ids.begin())) {
    return fmt::format("aborted completion {} is{}, no beginning of{}", got.index,
                       Listed(got.token_ids), Listed(expected.token_ids));
  }
  return {};
}

// ---- The engine.

inline CoreOptions SimulatedCore(uint32_t num_blocks, int32_t block_size_tokens = 16) {
  CoreOptions core;
  core.cache.num_blocks = num_blocks;
  core.cache.block_size_tokens = block_size_tokens;
  core.max_model_len = 512;
  core.cache.max_blocks_per_sequence = core.blocks_per_context();
  core.limits.block_size_tokens = block_size_tokens;
  core.limits.max_num_batched_tokens = 256;
  core.limits.max_num_seqs = 64;
  core.cache_root.Add(kvcache::RootField::kModel, "simulated");
  return core;
}

class SimulatedEngine {
 public:
  explicit SimulatedEngine(const CoreOptions& core, SimulationOptions model = {},
                           const text::Tokenizer* tokenizer = nullptr)
      : model_(Sized(model, core)),
        executor_(model_),
        context_(ContextOf(core, tokenizer)),
        core_(core, context_, executor_) {}

  Status Check(const Request& request) const { return core_.Check(request); }

  // REQUIRES: Check is OK.
  std::shared_ptr<RecordingSink> Submit(const Request& request, uint64_t seed = 1) {
    auto sink = std::make_shared<RecordingSink>();
    std::unique_ptr<RequestState> state = core_.Prepare(request, seed, sink);
    state->id = ++last_id_;
    core_.Add(std::move(state));
    sinks_.push_back(sink);
    return sink;
  }
  // Of the request submitted last.
  RequestId last_id() const { return last_id_; }
  bool Abort(RequestId id) {
    const bool was_running = core_.Abort(id);
    core_.DeliverEnded();
    return was_running;
  }

  // One step, then everything is audited. False: something is wrong, see violation().
  bool Step() {
    core_.Step();
    core_.DeliverEnded();
    ++num_steps_;
    Audit();
    return violation_.empty();
  }

  // Runs until nothing is left to do; false after max_steps, or when something is wrong.
  bool RunAll(int64_t max_steps = 100'000) {
    for (int64_t i = 0; i < max_steps && core_.has_work(); ++i) {
      if (!Step()) return false;
    }
    if (core_.has_work() && violation_.empty()) {
      violation_ = fmt::format("not everything has ended after {} steps", max_steps);
    }
    return violation_.empty();
  }

  RequestOutput Run(const Request& request, uint64_t seed = 1) {
    const std::shared_ptr<RecordingSink> sink = Submit(request, seed);
    RunAll();
    return sink->has_ended() ? sink->output() : RequestOutput();
  }

  RequestOutput ComputeAlone(const Request& request, uint64_t seed = 1) const {
    return LoneRun(context_, model_).Generate(request, seed);
  }

  void Audit() {
    if (!violation_.empty()) return;
    violation_ = executor_.violation();
    for (const std::shared_ptr<RecordingSink>& sink : sinks_) {
      if (violation_.empty()) violation_ = sink->violation();
    }
    std::erase_if(sinks_, [](const auto& sink) { return sink->has_ended(); });
    const kvcache::IntegrityReport report = core_.CheckIntegrity();
    if (violation_.empty() && !report.ok()) violation_ = report.ToString();
  }

  EngineCore& core() { return core_; }
  const EngineCore& core() const { return core_; }
  SimulatedExecutor& executor() { return executor_; }
  const CompletionContext& context() const { return context_; }
  const std::string& violation() const { return violation_; }
  int64_t num_steps() const { return num_steps_; }
  kvcache::KvCacheStats cache_stats() const { return core_.cache().stats(); }

 private:
  static SimulationOptions Sized(SimulationOptions model, const CoreOptions& core) {
    model.num_blocks = core.cache.num_blocks;
    model.num_swap_blocks = core.num_swap_blocks;
    model.block_size_tokens = core.cache.block_size_tokens;
    return model;
  }

  CompletionContext ContextOf(const CoreOptions& core, const text::Tokenizer* tokenizer) const {
    CompletionContext context;
    context.tokenizer = tokenizer;
    context.eos_token_ids = kSimulatedEos;
    context.vocab_size = model_.vocab_size;
    context.max_model_len = core.max_model_len;
    context.row_ops = &executor_.row_ops();
    return context;
  }

  const SimulationOptions model_;
  SimulatedExecutor executor_;
  const CompletionContext context_;
  EngineCore core_;
  std::vector<std::shared_ptr<RecordingSink>> sinks_;  // of those that have not ended
  std::string violation_;
  RequestId last_id_ = 0;
  int64_t num_steps_ = 0;
};

}  // namespace octavo::engine
