#include "engine/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engine/memory_planner.h"

namespace octavo::engine {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

int32_t MaxOutputTokens(const SamplingParams& params, int32_t max_model_len,
                        int64_t num_prompt_tokens) {
  const auto room = static_cast<int32_t>(max_model_len - num_prompt_tokens);
  return params.max_tokens ? std::min(*params.max_tokens, room) : room;
}

SamplerContext MakeSamplerContext(const GenerationContext& context, uint64_t seed) {
  SamplerContext sampler;
  sampler.vocab_size = context.sequence.model->config().vocab_size;
  sampler.eos_token_ids = context.eos_token_ids;
  sampler.seed = seed;
  sampler.row_ops = &context.sequence.model->kernels().rows;
  return sampler;
}

}  // namespace

Generation::Generation(const GenerationContext& context, const SamplingParams& params,
                       uint64_t seed, int64_t num_prompt_tokens)
    : context_(context),
      params_(params),
      sampler_(params, MakeSamplerContext(context, seed)),
      stop_checker_(params, context.eos_token_ids,
                    MaxOutputTokens(params, context.sequence.max_model_len, num_prompt_tokens)),
      detokenizer_(*context.tokenizer,
                   {.skip_special = params.skip_special_tokens, .at_text_start = false}) {
  result_.seed = seed;
}

Status Generation::CheckRequest(const GenerationContext& context,
                                const std::vector<TokenId>& prompt_token_ids,
                                const SamplingParams& params) {
  const int32_t vocab_size = context.sequence.model->config().vocab_size;
  const auto num_tokens = static_cast<int64_t>(prompt_token_ids.size());
  if (num_tokens == 0) {
    return Status::InvalidArgument("the prompt is empty; at least 1 token is needed");
  }
  if (num_tokens >= context.sequence.max_model_len) {
    return Status::InvalidArgument(fmt::format(
        "the prompt has {} tokens, but max_model_len is {} (prompt and at least 1 output token)",
        num_tokens, context.sequence.max_model_len));
  }
  for (size_t i = 0; i < prompt_token_ids.size(); ++i) {
    if (prompt_token_ids[i] < 0 || prompt_token_ids[i] >= vocab_size) {
      return Status::InvalidArgument(fmt::format("prompt token {} is {}, but must be in [0, {}]", i,
                                                 prompt_token_ids[i], vocab_size - 1));
    }
  }
  if (Status status = params.Validate(vocab_size); !status.ok()) return status;
  return CheckTokensCanBeChosen(params, context.eos_token_ids);
}

std::span<float> Generation::LogitsRows(int64_t count) const {
  const auto vocab_size = static_cast<size_t>(context_.sequence.model->config().vocab_size);
  return context_.logits.first(static_cast<size_t>(count) * vocab_size);
}

Result<RequestOutput> Generation::Run(Sequence& sequence,
                                      const std::vector<TokenId>& prompt_token_ids,
                                      const DeltaCallback& on_delta) {
  const Clock::time_point start = Clock::now();
  const auto num_prompt_tokens = static_cast<int64_t>(prompt_token_ids.size());
  // One token must be computed for its logits; prompt log-probabilities need all of them.
  const int64_t max_cached = params_.prompt_logprobs ? 0 : num_prompt_tokens - 1;
  result_.num_cached_tokens = static_cast<int32_t>(sequence.Reset(prompt_token_ids, max_cached));
  result_.prompt_token_ids = prompt_token_ids;
  sampler_.AddPrompt(prompt_token_ids);

  if (Status status = Prefill(sequence); !status.ok()) return status;
  result_.timing.prefill_s = Seconds(Clock::now() - start);
  if (output_.finish_reason == FinishReason::kNone) {
    output_.finish_reason = EmitToken(sequence, on_delta);
  } else {
    EndEarly(output_.finish_reason, on_delta);
  }
  const Clock::time_point first_token = Clock::now();
  result_.timing.ttft_s = Seconds(first_token - start);
  if (Status status = Decode(sequence, on_delta); !status.ok()) return status;
  result_.timing.decode_s = Seconds(Clock::now() - first_token);
  result_.outputs.push_back(std::move(output_));
  return std::move(result_);
}

Status Generation::Prefill(Sequence& sequence) {
  const bool report = params_.prompt_logprobs.has_value();
  bool finite = true;
  const StepCallback on_step = [&](int64_t first, int64_t count) {
    if (report && !ReportPromptLogprobs(sequence, first, count)) finite = false;
    return finite && !aborted();
  };
  const Status status =
      sequence.Compute(report ? Sequence::OutputRows::kAll : Sequence::OutputRows::kLast, on_step);
  if (!status.ok()) return status;
  const bool stopped = aborted();  // read once: it may be set at any moment
  if (!finite) output_.finish_reason = FinishReason::kError;
  if (finite && stopped) output_.finish_reason = FinishReason::kAbort;
  if (!finite || stopped) return Status::Ok();

  // The last step's last output row is the prompt's last token.
  const int64_t last_row =
      report ? (static_cast<int64_t>(sequence.tokens().size()) - 1) % context_.sequence.max_rows
             : 0;
  context_.sequence.model->Logits(last_row, 1, LogitsRows(1).data());
  return Status::Ok();
}

// Positions [first, first + count) of the prompt predict the tokens after them.
bool Generation::ReportPromptLogprobs(const Sequence& sequence, int64_t first, int64_t count) {
  const std::vector<TokenId>& tokens = sequence.tokens();
  const auto vocab_size = static_cast<size_t>(context_.sequence.model->config().vocab_size);
  LogprobReporter reporter(*params_.prompt_logprobs, static_cast<int32_t>(vocab_size),
                           context_.sequence.model->kernels().rows);
  const int64_t predicting = std::min(count, static_cast<int64_t>(tokens.size()) - 1 - first);
  for (int64_t done = 0; done < predicting; done += kMaxLogitsRows) {
    const int64_t rows = std::min<int64_t>(predicting - done, kMaxLogitsRows);
    const std::span<float> logits = LogitsRows(rows);
    context_.sequence.model->Logits(done, rows, logits.data());
    for (int64_t row = 0; row < rows; ++row) {
      std::optional<TokenLogprobs> report =
          reporter.Report(logits.subspan(static_cast<size_t>(row) * vocab_size, vocab_size),
                          tokens[static_cast<size_t>(first + done + row + 1)]);
      if (!report) return false;
      result_.prompt_logprobs.push_back(*std::move(report));
    }
  }
  return true;
}

// Chooses a token from the logits at hand, and hands it on.
FinishReason Generation::EmitToken(Sequence& sequence, const DeltaCallback& on_delta) {
  TokenLogprobs logprobs;
  const std::optional<TokenId> token =
      sampler_.Sample(LogitsRows(1), static_cast<int64_t>(sequence.tokens().size()),
                      params_.logprobs ? &logprobs : nullptr);
  if (!token) return EndEarly(FinishReason::kError, on_delta);

  const FinishReason expected = stop_checker_.FinishReasonOf(*token);
  std::string piece;
  if (params_.detokenize) {
    if (stop_checker_.KeepsTextOf(*token)) piece = detokenizer_.Push(*token);
    if (expected != FinishReason::kNone) piece += detokenizer_.Flush();
  }
  StopUpdate update = stop_checker_.Push(*token, piece);
  sequence.Append(*token);
  sampler_.AddOutput(*token);
  output_.token_ids.push_back(*token);
  output_.text += update.text;
  output_.stop_reason = std::move(update.stop_reason);
  if (params_.logprobs) output_.logprobs.push_back(std::move(logprobs));

  const bool go_on = !on_delta || on_delta({output_.index, update.text, std::span(&*token, 1),
                                            update.finish_reason});
  if (update.finish_reason != FinishReason::kNone) return update.finish_reason;
  if (!go_on) return FinishReason::kAbort;  // wants no more: what is held back is dropped
  return aborted() ? EndEarly(FinishReason::kAbort, on_delta) : FinishReason::kNone;
}

// Ends the request without another token: what is held back belongs to the text after all.
FinishReason Generation::EndEarly(FinishReason reason, const DeltaCallback& on_delta) {
  const std::string tail = params_.detokenize ? detokenizer_.Flush() : std::string();
  const std::string_view text = stop_checker_.Flush(tail);
  output_.text += text;
  if (on_delta) on_delta({output_.index, text, {}, reason});
  return reason;
}

Status Generation::Decode(Sequence& sequence, const DeltaCallback& on_delta) {
  while (output_.finish_reason == FinishReason::kNone) {
    const Status status = sequence.Compute(Sequence::OutputRows::kLast, nullptr);
    if (!status.ok()) return status;
    context_.sequence.model->Logits(0, 1, LogitsRows(1).data());
    output_.finish_reason = EmitToken(sequence, on_delta);
  }
  return Status::Ok();
}

}  // namespace octavo::engine
