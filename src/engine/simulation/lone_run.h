#pragma once

// Purpose:    what a request must produce, worked out in the plainest way: token after token over
//             the simulated model, without cache, batch, scheduler or engine. The yardstick for
//             whatever an engine does with the same request.
// Ownership:  values.
// Threading:  one thread.
// Invariants: depends on the request, its seed and the model alone.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/completion.h"
#include "engine/sampling/logprobs.h"
#include "engine/simulation/simulated_executor.h"
#include "octavo/request.h"
#include "octavo/request_output.h"

namespace octavo::engine {

class LoneRun {
 public:
  LoneRun(const CompletionContext& context, const SimulationOptions& model)
      : context_(context), model_(model), logits_(static_cast<size_t>(model.vocab_size)) {}

  RequestOutput Generate(const Request& request, uint64_t seed) {
    RequestOutput output;
    output.prompt_token_ids = request.prompt_token_ids;
    output.seed = seed;
    if (request.beam_search) {
      Search(request, &output);
      return output;
    }
    const bool is_sound = ReportPrompt(request, &output);
    for (int32_t index = 0; index < request.params.n; ++index) {
      output.outputs.push_back(Complete(request, seed, index, is_sound));
    }
    return output;
  }

 private:
  struct Beam {
    std::vector<TokenId> tokens;  // of the output
    std::vector<TokenLogprobs> logprobs;
    double cumulative_logprob = 0.0;
    FinishReason finish_reason = FinishReason::kNone;
    double score = 0.0;
  };
  struct NoSink : RequestSink {
    void OnDelta(const RequestDelta&) override {}
    void OnEnd(RequestOutput) override {}
  };

  std::span<float> LogitsAfter(uint64_t chain, TokenId last) {
    FillLogits(chain, logits_);
    if (last == model_.breaks_down_after) logits_[0] = std::numeric_limits<float>::quiet_NaN();
    return logits_;
  }

  // False: the model breaks down within the prompt, and somebody looks at it.
  bool ReportPrompt(const Request& request, RequestOutput* output) {
    if (!request.params.prompt_logprobs) return true;
    LogprobReporter reporter(*request.params.prompt_logprobs, context_.vocab_size,
                             *context_.row_ops);
    const std::vector<TokenId>& prompt = request.prompt_token_ids;
    uint64_t chain = kChainRoot;
    for (size_t i = 0; i + 1 < prompt.size(); ++i) {
      chain = ChainHash(chain, prompt[i]);
      std::optional<TokenLogprobs> report =
          reporter.Report(LogitsAfter(chain, prompt[i]), prompt[i + 1]);
      if (!report) return false;
      output->prompt_logprobs.push_back(*std::move(report));
    }
    return true;
  }

  CompletionOutput Complete(const Request& request, uint64_t seed, int32_t index, bool is_sound) {
    NoSink sink;
    Completion completion(context_, request.params, seed, index, request.prompt_token_ids);
    if (!is_sound) {
      completion.End(FinishReason::kError, sink);
      return completion.TakeOutput();
    }
    uint64_t chain = ChainHash(request.prompt_token_ids);
    TokenId last = request.prompt_token_ids.back();
    auto position = static_cast<int64_t>(request.prompt_token_ids.size());
    while (true) {
      const Completion::Step step = completion.Advance(LogitsAfter(chain, last), position++, sink);
      if (step.finish_reason != FinishReason::kNone) return completion.TakeOutput();
      last = *step.token;
      chain = ChainHash(chain, last);
    }
  }

  // The 2 * beam_width likeliest tokens after a beam, the likeliest first; nothing: not finite.
  std::optional<std::vector<TokenLogprob>> Candidates(const Request& request, const Beam& beam) {
    uint64_t chain = ChainHash(request.prompt_token_ids);
    for (const TokenId token : beam.tokens) chain = ChainHash(chain, token);
    const std::span<const float> logits = LogitsAfter(
        chain, beam.tokens.empty() ? request.prompt_token_ids.back() : beam.tokens.back());
    std::vector<TokenId> order;
    for (TokenId token = 0; token < context_.vocab_size; ++token) order.push_back(token);
    const auto logit = [&](TokenId token) { return logits[static_cast<size_t>(token)]; };
    if (std::ranges::any_of(order, [&](TokenId token) { return std::isnan(logit(token)); })) {
      return std::nullopt;
    }
    std::ranges::stable_sort(order, std::greater(), logit);
    const float log_sum =
        context_.row_ops->log_sum_exp(logits.data(), context_.vocab_size, logit(order.front()));
    std::vector<TokenLogprob> candidates;
    const size_t num =
        std::min(order.size(), 2 * static_cast<size_t>(request.beam_search->beam_width));
    for (size_t i = 0; i < num; ++i) {
      candidates.push_back({order[i], logit(order[i]) - log_sum, static_cast<int32_t>(i) + 1});
    }
    return candidates;
  }

  static Beam Extend(const Beam& parent, const TokenLogprob& token) {
    Beam beam = parent;
    beam.tokens.push_back(token.token_id);
    beam.logprobs.push_back({token, {}});
    beam.cumulative_logprob += static_cast<double>(token.logprob);
    return beam;
  }

  bool Ends(const Request& request, TokenId token) const {
    return !request.beam_search->ignore_eos &&
           std::ranges::find(context_.eos_token_ids, token) != context_.eos_token_ids.end();
  }

  void Search(const Request& request, RequestOutput* output) {
    const BeamSearchParams& params = *request.beam_search;
    const auto width = static_cast<size_t>(params.beam_width);
    const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
    const int32_t num_steps =
        MaxOutputTokens(params.max_tokens, context_.max_model_len, num_prompt);
    std::vector<Beam> live(1);
    std::vector<Beam> done;
    FinishReason reason = FinishReason::kLength;
    for (int32_t step = 0; step < num_steps && !live.empty(); ++step) {
      std::vector<Beam> next;
      std::vector<Beam> ended;
      bool is_sound = true;
      for (const Beam& beam : live) {
        const auto candidates = Candidates(request, beam);
        is_sound = is_sound && candidates.has_value();
        if (!is_sound) break;
        for (const TokenLogprob& token : *candidates) {
          (Ends(request, token.token_id) ? ended : next).push_back(Extend(beam, token));
        }
      }
      if (!is_sound) {
        reason = FinishReason::kError;
        break;
      }
      std::ranges::stable_sort(next, std::greater(), &Beam::cumulative_logprob);
      next.resize(std::min(next.size(), width));
      live = std::move(next);
      for (Beam& beam : ended) {
        beam.finish_reason = FinishReason::kStop;
        done.push_back(std::move(beam));
      }
    }
    for (Beam& beam : live) {
      beam.finish_reason = reason;
      done.push_back(std::move(beam));
    }
    Rank(request, &done);
    for (Beam& beam : done) Report(request, std::move(beam), output);
  }

  // The best beam_width of them, the best first: the score is per token, prompt included and
  // end-of-text not.
  static void Rank(const Request& request, std::vector<Beam>* beams) {
    for (Beam& beam : *beams) {
      const size_t num_ends = beam.finish_reason == FinishReason::kStop ? 1 : 0;
      const auto length =
          static_cast<double>(request.prompt_token_ids.size() + beam.tokens.size() - num_ends);
      beam.score = beam.cumulative_logprob /
                   std::pow(length, static_cast<double>(request.beam_search->length_penalty));
    }
    std::ranges::stable_sort(*beams, std::greater(), &Beam::score);
    beams->resize(std::min(beams->size(), static_cast<size_t>(request.beam_search->beam_width)));
  }

  static void Report(const Request& request, Beam beam, RequestOutput* output) {
    CompletionOutput completion;
    completion.index = static_cast<int32_t>(output->outputs.size());
    completion.token_ids = std::move(beam.tokens);
    if (request.params.logprobs) completion.logprobs = std::move(beam.logprobs);
    completion.finish_reason = beam.finish_reason;
    completion.cumulative_logprob = beam.cumulative_logprob;
    output->outputs.push_back(std::move(completion));
  }

  const CompletionContext context_;
  const SimulationOptions model_;
  std::vector<float> logits_;  // [vocab_size]
};

}  // namespace octavo::engine
