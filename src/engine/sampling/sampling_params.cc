#include "octavo/sampling_params.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace octavo {
namespace {

constexpr int32_t kMaxCompletions = 128;

constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxStopTokenIds = 1024;

// Written so that a NaN is outside of every range.
Status CheckRange(std::string_view name, float value, float low, float high) {
  if (value >= low && value <= high) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be in [{}, {}]", name, value, low, high));
}

Status CheckAboveZero(std::string_view name, float value, float high) {
  if (value > 0.0f && value <= high) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be in (0, {}]", name, value, high));
}

// `vocab_size` 0 leaves the upper end open.
Status CheckTokenId(std::string_view name, TokenId token_id, int32_t vocab_size) {
  if (token_id >= 0 && (vocab_size == 0 || token_id < vocab_size)) return Status::Ok();
  if (vocab_size == 0) {
    return Status::InvalidArgument(
        fmt::format("{} holds token id {}, but must be at least 0", name, token_id));
  }
  return Status::InvalidArgument(
      fmt::format("{} holds token id {}, but must be in [0, {}]", name, token_id, vocab_size - 1));
}

Status CheckTokenIds(std::string_view name, const std::vector<TokenId>& token_ids,
                     int32_t vocab_size) {
  for (TokenId token_id : token_ids) {
    if (Status status = CheckTokenId(name, token_id, vocab_size); !status.ok()) return status;
  }
  return Status::Ok();
}

Status CheckLogprobs(std::string_view name, std::optional<int32_t> count, int32_t vocab_size) {
  if (!count || (*count >= -1 && (vocab_size == 0 || *count <= vocab_size))) return Status::Ok();
  if (vocab_size == 0) {
    return Status::InvalidArgument(fmt::format("{} is {}, but must be at least -1", name, *count));
  }
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be in [-1, {}]", name, *count, vocab_size));
}

// The bytes of the well-formed UTF-8 character at the front of `text` (RFC 3629, section 4), 0 if
// there is none.
size_t Utf8CharacterBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char second_low = 0x80, second_high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) second_low = 0xA0;   // shorter forms exist
    if (lead == 0xED) second_high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) second_low = 0x90;
    if (lead == 0xF4) second_high = 0x8F;  // above U+10FFFF
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < second_low || byte(1) > second_high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8CharacterBytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Status CheckChoice(const SamplingParams& params) {
  if (Status s = CheckRange("temperature", params.temperature, 0.0f, 100.0f); !s.ok()) return s;
  if (Status s = CheckAboveZero("top_p", params.top_p, 1.0f); !s.ok()) return s;
  if (params.top_k < -1) {
    return Status::InvalidArgument(
        fmt::format("top_k is {}, but must be 0 or -1 (off) or at least 1", params.top_k));
  }
  return CheckRange("min_p", params.min_p, 0.0f, 1.0f);
}

Status CheckLogitBias(const std::vector<std::pair<TokenId, float>>& logit_bias,
                      int32_t vocab_size) {
  std::vector<TokenId> token_ids;
  token_ids.reserve(logit_bias.size());
  for (const auto& [token_id, bias] : logit_bias) {
    if (Status s = CheckTokenId("logit_bias", token_id, vocab_size); !s.ok()) return s;
    const std::string name = fmt::format("logit_bias of token id {}", token_id);
    if (Status s = CheckRange(name, bias, -100.0f, 100.0f); !s.ok()) return s;
    token_ids.push_back(token_id);
  }
  std::sort(token_ids.begin(), token_ids.end());
  const auto twice = std::adjacent_find(token_ids.begin(), token_ids.end());
  if (twice == token_ids.end()) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("logit_bias holds token id {} more than once, but must name each once", *twice));
}

Status CheckHistory(const SamplingParams& params, int32_t vocab_size) {
  if (Status s = CheckAboveZero("repetition_penalty", params.repetition_penalty, 100.0f); !s.ok()) {
    return s;
  }
  if (Status s = CheckRange("presence_penalty", params.presence_penalty, -2.0f, 2.0f); !s.ok()) {
    return s;
  }
  if (Status s = CheckRange("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f); !s.ok()) {
    return s;
  }
  if (Status s = CheckLogitBias(params.logit_bias, vocab_size); !s.ok()) return s;
  return CheckTokenIds("allowed_token_ids", params.allowed_token_ids, vocab_size);
}

Status CheckStopStrings(const SamplingParams& params) {
  if (params.stop.size() > kMaxStopStrings) {
    return Status::InvalidArgument(fmt::format("stop holds {} strings, but must hold at most {}",
                                               params.stop.size(), kMaxStopStrings));
  }
  for (size_t i = 0; i < params.stop.size(); ++i) {
    if (params.stop[i].empty()) {
      return Status::InvalidArgument(fmt::format("stop[{}] is empty, but must not be", i));
    }
    if (params.stop[i].size() > kMaxStopBytes) {
      return Status::InvalidArgument(fmt::format("stop[{}] has {} bytes, but must have at most {}",
                                                 i, params.stop[i].size(), kMaxStopBytes));
    }
    if (!IsUtf8(params.stop[i])) {
      return Status::InvalidArgument(fmt::format("stop[{}] is not UTF-8, but must be", i));
    }
  }
  if (!params.stop.empty() && !params.detokenize) {
    return Status::InvalidArgument(fmt::format(
        "stop holds {} strings, but must be empty when detokenize is false", params.stop.size()));
  }
  return Status::Ok();
}

Status CheckEnd(const SamplingParams& params, int32_t vocab_size) {
  if (Status s = CheckStopStrings(params); !s.ok()) return s;
  if (params.stop_token_ids.size() > kMaxStopTokenIds) {
    return Status::InvalidArgument(
        fmt::format("stop_token_ids holds {} ids, but must hold at most {}",
                    params.stop_token_ids.size(), kMaxStopTokenIds));
  }
  if (Status s = CheckTokenIds("stop_token_ids", params.stop_token_ids, vocab_size); !s.ok()) {
    return s;
  }
  if (params.max_tokens && *params.max_tokens < 1) {
    return Status::InvalidArgument(
        fmt::format("max_tokens is {}, but must be at least 1", *params.max_tokens));
  }
  if (params.min_tokens < 0) {
    return Status::InvalidArgument(
        fmt::format("min_tokens is {}, but must be at least 0", params.min_tokens));
  }
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    return Status::InvalidArgument(
        fmt::format("min_tokens is {}, but must be at most max_tokens, {}", params.min_tokens,
                    *params.max_tokens));
  }
  return Status::Ok();
}

}  // namespace

Status SamplingParams::Validate(int32_t vocab_size) const {
  if (n < 1 || n > kMaxCompletions) {
    return Status::InvalidArgument(
        fmt::format("n is {}, but must be in [1, {}]", n, kMaxCompletions));
  }
  if (Status s = CheckChoice(*this); !s.ok()) return s;
  if (Status s = CheckHistory(*this, vocab_size); !s.ok()) return s;
  if (Status s = CheckEnd(*this, vocab_size); !s.ok()) return s;
  if (Status s = CheckLogprobs("logprobs", logprobs, vocab_size); !s.ok()) return s;
  return CheckLogprobs("prompt_logprobs", prompt_logprobs, vocab_size);
}

}  // namespace octavo
