#pragma once

// Purpose:    SentencePiece BPE: spaces become U+2581, neighbouring pieces merge by score, what is
//             left over becomes bytes.
// Ownership:  owns its tables.
// Threading:  immutable after Make; any thread.
// Invariants: no merge makes a control, unknown or byte token.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/pair_merger.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace octavo::text {

class SpmTokenizer : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Make(const VocabularyData& data);

 protected:
  Status EncodePlain(const PlainText& text, std::vector<TokenId>* out) const override;
  int64_t extra_memory_bytes() const override;

 private:
  // From an unused token to the number of bytes of the left half that it was merged from.
  using UnusedSplits = std::unordered_map<TokenId, uint32_t>;

  SpmTokenizer(std::unique_ptr<const Vocabulary> vocabulary, const std::vector<float>& scores);
  void AppendSymbol(std::string_view text, const Symbol& symbol, const UnusedSplits& splits,
                    std::vector<TokenId>* out) const;
  // The byte tokens, or the unknown token if one of them is missing.
  void AppendBytes(std::string_view bytes, std::vector<TokenId>* out) const;

  std::vector<uint32_t> priorities_;  // [vocab_size]: the higher the score, the lower the number
};

}  // namespace octavo::text
