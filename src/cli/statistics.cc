#include "cli/statistics.h"

#include <fmt/format.h>

#include <string_view>

namespace octavo::cli {
namespace {

std::string FormatRate(int64_t num_tokens, double seconds) {
  if (num_tokens <= 0 || seconds <= 0.0) return "";
  return fmt::format(", {:.1f} tokens/s", static_cast<double>(num_tokens) / seconds);
}

}  // namespace

std::string FormatStatistics(const RequestOutput& output) {
  const auto num_prompt = static_cast<int64_t>(output.prompt_token_ids.size());
  const auto num_completions = static_cast<int64_t>(output.outputs.size());
  int64_t num_output = 0;
  std::string ends;  // each reason once
  for (const CompletionOutput& completion : output.outputs) {
    num_output += static_cast<int64_t>(completion.token_ids.size());
    const std::string_view end = FinishReasonName(completion.finish_reason);
    if (ends.find(end) == std::string::npos)
      ends += fmt::format("{}{}", ends.empty() ? "" : ", ", end);
  }
  return fmt::format(
      "[prompt {} tokens ({} cached){}; first token {:.3f} s; output {} tokens{}; end: {}]",
      num_prompt, output.num_cached_tokens,
      FormatRate(num_prompt - output.num_cached_tokens, output.timing.prefill_s),
      output.timing.ttft_s, num_output,
      FormatRate(num_output - num_completions, output.timing.decode_s), ends);
}

Status ErrorOf(const RequestOutput& output) {
  for (const CompletionOutput& completion : output.outputs) {
    if (completion.finish_reason == FinishReason::kError) {
      return Status::Internal("the model produced a logit that is not a finite number");
    }
  }
  return Status::Ok();
}

}  // namespace octavo::cli
