#pragma once

// Purpose:    the text of a growing sequence of tokens, in pieces that can be shown at once.
// Ownership:  borrows the Tokenizer, which must outlive it.
// Threading:  one thread at a time.
// Invariants: every piece is valid UTF-8; at most 3 bytes are held back; the concatenation of all
//             pieces, Flush's included, is ReplaceInvalidUtf8(Tokenizer::Decode(all tokens)). Bytes
//             that are not UTF-8 become U+FFFD; the exact bytes are in Tokenizer::TokenBytes.

#include <string>

#include "octavo/types.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace octavo::text {

struct DetokenizeOptions {
  bool skip_special = true;
  // The tokens begin a text: drop the space that SentencePiece puts in front. False for tokens that
  // continue a prompt.
  bool at_text_start = true;
};

class IncrementalDetokenizer {
 public:
  IncrementalDetokenizer(const Tokenizer& tokenizer, const DetokenizeOptions& options);

  // The text that this token completes; may be empty. REQUIRES: 0 <= id < vocab_size().
  std::string Push(TokenId id);
  // Ends the text: an unfinished character becomes U+FFFD. The object may then begin a new text
  // that continues the old one.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_;  // no token of the text has come yet
  Utf8Stream stream_;
};

}  // namespace octavo::text
