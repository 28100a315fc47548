#pragma once

// Purpose:    the checked tables behind a tokenizer: spellings, the bytes they stand for, special
//             tokens.
// Ownership:  VocabularyData is a plain description (filled from a GGUF file, or by a test); a
//             Vocabulary owns what it keeps.
// Threading:  immutable after Make; any thread.
// Invariants: 1 .. 2^31 - 1 tokens; every id that it gives out is in range; a spelling is at most
//             kMaxTokenBytes long, and one that is looked for in text at most kMaxSpecialBytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"
#include "octavo/types.h"
#include "text/special_matcher.h"
#include "text/string_table.h"

namespace octavo::text {

inline constexpr size_t kMaxTokenBytes = 65536;
inline constexpr size_t kMaxSpecialBytes = 1024;

enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

enum class TokenizerKind { kByteLevelBpe, kSentencePiece };

struct VocabularyData {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  std::string pre;  // the pre-tokenizer's name; "" = the file names none
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // empty = all normal
  std::vector<float> scores;         // SentencePiece only
  std::vector<std::string> merges;   // BPE only: "left right"
  std::optional<uint64_t> bos_id, eos_id, eot_id, eom_id, unknown_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

class Vocabulary {
 public:
  // `adds_bos`: what holds where data.add_bos is absent; without a bos id nothing is added.
  static Result<std::unique_ptr<Vocabulary>> Make(const VocabularyData& data, bool adds_bos);

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  std::string_view spelling(TokenId id) const { return spellings_[static_cast<size_t>(id)]; }
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_special(TokenId id) const {
    return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
  }
  bool is_end_of_generation(TokenId id) const {
    return end_of_generation_[static_cast<size_t>(id)] != 0;
  }
  // The lowest id with this spelling.
  std::optional<TokenId> Find(std::string_view spelling) const;
  // The same among the tokens that plain text can become: normal, user-defined and unused ones
  // whose bytes are what the spelling stands for.
  std::optional<TokenId> FindInText(std::string_view spelling) const;
  // The token that stands for one byte of text.
  std::optional<TokenId> byte_token(uint8_t byte) const {
    const TokenId id = byte_tokens_[byte];
    return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
  }
  size_t max_text_bytes() const { return max_text_bytes_; }  // the longest spelling of FindInText

  const SpecialMatcher& matcher(bool parse_special) const {
    return parse_special ? all_specials_ : user_defined_;
  }

  std::optional<TokenId> bos_id() const { return bos_id_; }
  std::optional<TokenId> eos_id() const { return eos_id_; }
  std::optional<TokenId> unknown_id() const { return unknown_id_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; }
  const std::string& warning() const { return warning_; }
  int64_t memory_bytes() const;

 private:
  Vocabulary() = default;
  Status SetTypes(const VocabularyData& data);
  Status SetSpellings(const VocabularyData& data);
  Status SetIds(const VocabularyData& data);
  Status SetFlags(const VocabularyData& data, bool adds_bos);
  void SetEndOfGeneration();
  void SetByteTokens();
  Status SetMatchers();

  TokenizerKind kind_ = TokenizerKind::kByteLevelBpe;
  std::vector<TokenType> types_;            // [vocab_size]
  StringTable spellings_;                   // [vocab_size]
  StringTable bytes_;                       // [vocab_size]
  std::vector<uint8_t> end_of_generation_;  // [vocab_size], 0 or 1
  StringIndex by_spelling_;
  StringIndex by_text_;
  size_t max_text_bytes_ = 0;
  std::array<TokenId, 256> byte_tokens_{};
  SpecialMatcher user_defined_;
  SpecialMatcher all_specials_;
  std::optional<TokenId> bos_id_, eos_id_, eot_id_, eom_id_, unknown_id_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false;
  std::string warning_;
};

}  // namespace octavo::text
