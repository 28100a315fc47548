#pragma once

// Purpose:    cuts text into the pieces that byte-level BPE merges within, as the vocabulary's own
//             pre-tokenizer does.
// Ownership:  owns its compiled patterns.
// Threading:  immutable after Make; any thread.
// Invariants: the pieces are not empty, in order, and together they are the text.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "octavo/status.h"
#include "text/regex_splitter.h"

namespace octavo::text {

// What one value of tokenizer.ggml.pre means.
struct PreTokenizerSpec {
  std::span<const std::string_view> names;
  // Each is applied inside the pieces that those before it made. \s and \S mean Unicode's
  // White_Space here.
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;  // a piece that is a token as a whole is not merged
  bool adds_bos = false;       // unless tokenizer.ggml.add_bos_token says otherwise
};

// `name` = "" stands for "default". kUnimplemented: a name that octavo does not know; the message
// names it.
Result<const PreTokenizerSpec*> FindPreTokenizerSpec(std::string_view name);

class PreTokenizer {
 public:
  static Result<PreTokenizer> Make(const PreTokenizerSpec& spec);

  // Replaces `pieces` by those of `text`. REQUIRES: text is valid UTF-8.
  Status Split(std::string_view text, std::vector<std::string_view>* pieces) const;

  size_t memory_bytes() const;

 private:
  PreTokenizer() = default;

  std::vector<RegexSplitter> splitters_;
};

}  // namespace octavo::text
