#pragma once

// Purpose:    byte-level BPE: pre-tokenize, then merge bytes by rank.
// Ownership:  owns its tables.
// Threading:  immutable after Make; any thread.
// Invariants: no merge makes or takes a control or unknown token.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "text/pair_merger.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace octavo::text {

// From a pair of neighbouring tokens to its merge. Open addressing with linear probing, at most
// half full.
class MergeTable {
 public:
  void Reserve(size_t num_merges);
  // A pair that is there already gets the new merge. REQUIRES: no more pairs than were reserved.
  // False if too many other pairs have its hash, as in a file made to slow us down.
  [[nodiscard]] bool Insert(TokenId left, TokenId right, Merge merge);
  std::optional<Merge> Find(TokenId left, TokenId right) const;
  int64_t memory_bytes() const { return static_cast<int64_t>(slots_.capacity() * sizeof(Slot)); }

 private:
  struct Slot {
    TokenId left = kNoToken, right = kNoToken;  // kNoToken = free
    Merge merge;
  };
  size_t FirstSlot(TokenId left, TokenId right) const;

  std::vector<Slot> slots_;  // a power of two of them
};

class BpeTokenizer : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Make(const VocabularyData& data);

 protected:
  Status EncodePlain(const PlainText& text, std::vector<TokenId>* out) const override;
  int64_t extra_memory_bytes() const override;

 private:
  BpeTokenizer(std::unique_ptr<const Vocabulary> vocabulary, PreTokenizer pre_tokenizer,
               bool ignore_merges);
  Status SetMerges(const std::vector<std::string>& merges);
  Status EncodeWord(std::string_view word, size_t offset, PairMerger* merger,
                    std::vector<TokenId>* out) const;
  std::optional<TokenId> WholeWord(std::string_view word) const;

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  MergeTable merges_;
};

}  // namespace octavo::text
