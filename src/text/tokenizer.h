#pragma once

// Purpose:    text to token ids and back, with the vocabulary that lies in a model file: byte-level
//             BPE (tokenizer.ggml.model = gpt2) and SentencePiece BPE (llama).
//             docs/contracts/text.md is normative.
// Ownership:  a Tokenizer owns copies of all it needs; the GgufFile may be closed after
//             LoadTokenizer.
// Threading:  immutable after it is made; any number of threads may call the const members at once.
// Invariants: every id that Encode returns is in 0 .. vocab_size() - 1; concatenating TokenBytes
//             over Encode(text) gives text's bytes again (SentencePiece: after the added first
//             space, and U+2581 comes back as a space); a control token comes out of Encode only
//             through add_special or parse_special.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/byte_range.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo::formats {
class GgufFile;
}

namespace octavo::text {

class Vocabulary;

struct EncodeOptions {
  bool add_special =
      true;  // beginning-of-text and end-of-text tokens, where the vocabulary wants them
  bool parse_special = false;  // text that spells a control or unknown token becomes that token
};

class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes; they need not be UTF-8. kInvalidArgument: text longer than 1 GiB, or a byte that
  // this vocabulary has no token for. O(n log n) in the length of the text.
  Result<std::vector<TokenId>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  // The ids of a text of mixed origin, without beginning and end tokens: control and unknown tokens
  // are parsed where their whole spelling lies in one of the `trusted` ranges, and nowhere else.
  // Everything else is as in one text. REQUIRES: the ranges are sorted, disjoint and not adjacent.
  Result<std::vector<TokenId>> EncodeTrusted(std::string_view text,
                                             std::span<const jinja::ByteRange> trusted) const;

  // The bytes of the tokens in a row (SentencePiece: without the space that Encode added in front).
  // With skip_special, tokens with IsSpecial give nothing. REQUIRES: every id is in range.
  std::string Decode(std::span<const TokenId> token_ids, bool skip_special) const;

  // What `id` adds to a text, the way Decode sees it. `*at_start` says that no token of the text
  // came before; the call clears it unless the token is skipped. REQUIRES: 0 <= id < vocab_size().
  std::string_view TextOf(TokenId id, bool skip_special, bool* at_start) const;

  // The exact bytes that a token stands for; a control token gives its spelling. REQUIRES: 0 <= id
  // < vocab_size().
  std::string_view TokenBytes(TokenId id) const;

  // Control and unknown tokens: not part of the text. REQUIRES: 0 <= id < vocab_size().
  bool IsSpecial(TokenId id) const;
  // Ends a generation: eos, eot, eom, and the spellings listed in the contract. REQUIRES: 0 <= id <
  // vocab_size().
  bool IsEndOfGeneration(TokenId id) const;

  // The token with this spelling in the vocabulary ("<|im_end|>"); of equal ones the lowest id.
  std::optional<TokenId> FindToken(std::string_view spelling) const;

  int32_t vocab_size() const;
  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  // True if Encode puts a space in front of the text, which Decode takes away again.
  bool adds_space_prefix() const;
  int64_t memory_bytes() const;
  // One line about something in the metadata that makes the tokens doubtful; empty if there is
  // nothing.
  const std::string& warning() const;

 protected:
  explicit Tokenizer(std::unique_ptr<const Vocabulary> vocabulary);

  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // A piece of text in which no special token is looked for.
  struct PlainText {
    std::string_view bytes;  // not empty
    size_t offset = 0;       // in the whole text, for messages
    bool at_start = false;   // nothing, or a control or unknown token, stands before it
  };
  // Appends the tokens of `text`.
  virtual Status EncodePlain(const PlainText& text, std::vector<TokenId>* out) const = 0;
  virtual int64_t extra_memory_bytes() const = 0;

 private:
  // Encodes `text`, cut at the special tokens that find(from) gives one after the other.
  template <typename Find>
  Status EncodeBetween(std::string_view text, Find find, std::vector<TokenId>* out) const;

  std::unique_ptr<const Vocabulary> vocabulary_;
};

// Reads the tokenizer.ggml.* keys. kDataLoss: they are absent, contradict each other or are out of
// range; kUnimplemented: a kind of vocabulary or a pre-tokenizer that octavo does not know. The
// message names the key.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const formats::GgufFile& file);

}  // namespace octavo::text
