#include "text/spm_tokenizer.h"

#include <bit>
#include <string_view>
#include <utility>

#include "text/utf8.h"

namespace octavo::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Numbers that rise as the score falls; equal for equal scores. REQUIRES: score is not a NaN.
uint32_t PriorityOf(float score) {
  if (score == 0.0f) score = 0.0f;  // the two zeros are equal
  const auto bits = std::bit_cast<uint32_t>(score);
  constexpr uint32_t kSign = 0x80000000;
  // The bits of a positive float rise with it, those of a negative one fall. Neither result can be
  // PairMerger::kNever: that would be a NaN's.
  return (bits & kSign) != 0 ? bits : kSign - 1 - bits;
}

std::string MarkSpaces(std::string_view text, bool add_prefix) {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
  if (add_prefix) marked += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      marked += kSpaceMark;
    } else {
      marked += c;
    }
  }
  return marked;
}

}  // namespace

SpmTokenizer::SpmTokenizer(std::unique_ptr<const Vocabulary> vocabulary,
                           const std::vector<float>& scores)
    : Tokenizer(std::move(vocabulary)) {
  priorities_.reserve(scores.size());
  for (const float score : scores) priorities_.push_back(PriorityOf(score));
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::Make(const VocabularyData& data) {
  Result<std::unique_ptr<Vocabulary>> vocabulary = Vocabulary::Make(data, /*adds_bos=*/true);
  if (!vocabulary.ok()) return vocabulary.status();
  return std::unique_ptr<Tokenizer>(new SpmTokenizer(*std::move(vocabulary), data.scores));
}

Status SpmTokenizer::EncodePlain(const PlainText& text, std::vector<TokenId>* out) const {
  const std::string marked =
      MarkSpaces(text.bytes, text.at_start && vocabulary().add_space_prefix());
  const std::string_view view = marked;
  PairMerger merger;
  for (size_t pos = 0; pos < view.size();) {
    const Utf8Unit unit = NextUtf8Unit(view.substr(pos));
    const size_t num_bytes = unit.kind == Utf8Kind::kValid ? unit.num_bytes : 1;
    const std::optional<TokenId> id = vocabulary().FindInText(view.substr(pos, num_bytes));
    merger.Add(
        {static_cast<uint32_t>(pos), static_cast<uint32_t>(num_bytes), id.value_or(kNoToken)});
    pos += num_bytes;
  }
  UnusedSplits splits;
  merger.Run([&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const size_t num_bytes = size_t{left.num_bytes} + right.num_bytes;
    if (num_bytes > vocabulary().max_text_bytes()) return std::nullopt;
    const std::optional<TokenId> id = vocabulary().FindInText(view.substr(left.begin, num_bytes));
    if (!id.has_value()) return std::nullopt;
    if (vocabulary().type(*id) == TokenType::kUnused) splits[*id] = left.num_bytes;
    return Merge{priorities_[static_cast<size_t>(*id)], *id};
  });
  merger.ForEach([&](const Symbol& symbol) { AppendSymbol(view, symbol, splits, out); });
  return Status::Ok();
}

// Unused tokens help to build longer ones, but are taken apart again when they are left over.
void SpmTokenizer::AppendSymbol(std::string_view text, const Symbol& symbol,
                                const UnusedSplits& splits, std::vector<TokenId>* out) const {
  std::vector<Symbol> todo = {symbol};
  while (!todo.empty()) {
    const Symbol next = todo.back();
    todo.pop_back();
    const std::string_view bytes = text.substr(next.begin, next.num_bytes);
    if (next.id == kNoToken) {
      AppendBytes(bytes, out);
      continue;
    }
    const auto split = splits.find(next.id);
    if (split == splits.end()) {
      out->push_back(next.id);
      continue;
    }
    const uint32_t left_bytes = split->second;
    const std::string_view left = bytes.substr(0, left_bytes), right = bytes.substr(left_bytes);
    todo.push_back({next.begin + left_bytes, next.num_bytes - left_bytes,
                    vocabulary().FindInText(right).value_or(kNoToken)});
    todo.push_back({next.begin, left_bytes, vocabulary().FindInText(left).value_or(kNoToken)});
  }
}

void SpmTokenizer::AppendBytes(std::string_view bytes, std::vector<TokenId>* out) const {
  if (bytes == kSpaceMark) bytes = " ";
  const size_t first = out->size();
  for (const char c : bytes) {
    const std::optional<TokenId> id = vocabulary().byte_token(static_cast<uint8_t>(c));
    if (!id.has_value()) {
      out->resize(first);
      out->push_back(*vocabulary().unknown_id());
      return;
    }
    out->push_back(*id);
  }
}

int64_t SpmTokenizer::extra_memory_bytes() const {
  return static_cast<int64_t>(priorities_.capacity() * sizeof(uint32_t));
}

}  // namespace octavo::text
