#pragma once

// Purpose:    decides when a request ends, and which text may be streamed already: stop strings
//             across token borders, stop tokens, end-of-text, max_tokens, min_tokens
//             (docs/contracts/sampling.md, S7).
// Ownership:  one per request; owns the text that it holds back.
// Threading:  one thread at a time.
// Invariants: the texts that Push and Flush return, put together, are the text up to the first
//             match of a stop string (or all of it), however it was split into pieces. Unless
//             include_stop_str_in_output is set, text that may yet become a stop string is held
//             back. Linear time: each byte costs each stop string amortised O(1).
// States:     running (finish_reason none) -> ended, by the Push that returns another reason, or by
//             Flush. REQUIRES running.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "octavo/request_output.h"
#include "octavo/sampling_params.h"
#include "octavo/types.h"

namespace octavo::engine {

struct StopUpdate {
  std::string_view text;  // to be streamed now; valid until the next call
  FinishReason finish_reason = FinishReason::kNone;
  // As in CompletionOutput: the stop string, the stop token, or nothing.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

class StopChecker {
 public:
  // `max_output_tokens`: the smaller of params.max_tokens and what the context has room for, >= 1.
  StopChecker(const SamplingParams& params, std::span<const TokenId> eos_token_ids,
              int32_t max_output_tokens);

  // How `token_id` would end the request if it came next, whatever its text is: kStop (end-of-text,
  // stop token), kLength, or kNone. For the caller to know whether to detokenize it (see
  // KeepsTextOf) and whether the detokenizer must be drained into the text of this Push.
  FinishReason FinishReasonOf(TokenId token_id) const;

  // Whether the text of `token_id`, if it came next, belongs to the output: not that of a token
  // that ends it, unless include_stop_str_in_output.
  bool KeepsTextOf(TokenId token_id) const;

  // The next output token, and the text that the incremental detokenizer gave for it (whole UTF-8
  // characters, maybe none).
  StopUpdate Push(TokenId token_id, std::string_view text);

  // Ends the request for a reason from outside (abort, error): adds `tail` and returns all that is
  // held back.
  std::string_view Flush(std::string_view tail);

 private:
  // One stop string with its failure function: fail[i] = the length of the longest proper prefix of
  // text[0, i) that is also its suffix (Knuth, Morris and Pratt). `matched` = how much of it the
  // text so far ends with.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> fail;  // [text.size() + 1]
    uint32_t matched = 0;
  };

  const Pattern* Scan(std::string_view text, bool may_stop, size_t* match_end);
  bool IsEos(TokenId token_id) const;
  bool IsStopToken(TokenId token_id) const;
  size_t HeldBytes() const;

  const int32_t max_output_tokens_;
  const int32_t min_tokens_;
  const bool include_stop_str_;
  std::vector<TokenId> eos_token_ids_;  // empty with ignore_eos
  std::vector<TokenId> stop_token_ids_;
  std::vector<Pattern> patterns_;  // in the order of SamplingParams::stop

  int32_t num_output_tokens_ = 0;
  bool ended_ = false;
  std::string pending_;  // the text that is not released yet, after `released_` bytes that were
  size_t released_ = 0;
};

}  // namespace octavo::engine
