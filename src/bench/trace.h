#pragma once

// Purpose:    request traces: when requests came, how long they were, and which of their content
//             was equal. One JSON object a line, as the Mooncake project publishes them:
//             {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]}
//             with one id for each 512 tokens of the prompt.
// Ownership:  a Trace owns everything; tokens are made when they are needed.
// Threading:  plain data.
// Invariants: requests are in the order of their arrival. Equal hash ids stand for equal tokens,
//             different ones for tokens without anything in common. Output tokens occur nowhere
//             else, since a trace does not tell them.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::bench {

inline constexpr int32_t kTraceBlockTokens = 512;
inline constexpr size_t kMaxTraceLineBytes = size_t{1} << 24;

struct TraceRequest {
  int64_t arrival_ms = 0;
  int32_t num_prompt_tokens = 0;  // >= 1
  int32_t num_output_tokens = 0;
  int32_t first_output_token = 0;  // the others count on from it
  // [num_prompt_tokens / 512, rounded up]: which content each block has, from 0 on.
  std::vector<int32_t> content;

  int64_t num_tokens() const { return int64_t{num_prompt_tokens} + num_output_tokens; }
};

struct Trace {
  std::vector<TraceRequest> requests;
  int32_t num_contents = 0;  // distinct blocks of 512 tokens
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;
  int64_t max_request_tokens = 0;  // prompt and output of the longest request
};

// `text` is the whole file, `name` what errors call it. Lines of white space are skipped. An error
// names line, field, value and limit. O(size of the text * log of the number of ids).
Result<Trace> ParseTrace(std::string_view name, std::string_view text);

// The tokens of a request, prompt and output; replaces what `tokens` held.
void MakeTokens(const TraceRequest& request, std::vector<int32_t>* tokens);

}  // namespace octavo::bench
