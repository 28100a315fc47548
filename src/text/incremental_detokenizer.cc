#include "text/incremental_detokenizer.h"

namespace octavo::text {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer,
                                               const DetokenizeOptions& options)
    : tokenizer_(tokenizer),
      skip_special_(options.skip_special),
      at_start_(options.at_text_start) {}

std::string IncrementalDetokenizer::Push(TokenId id) {
  std::string text;
  stream_.Push(tokenizer_.TextOf(id, skip_special_, &at_start_), &text);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text;
  stream_.Flush(&text);
  return text;
}

}  // namespace octavo::text
