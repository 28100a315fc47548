#include "text/bpe_tokenizer.h"

#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "formats/gguf_value.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace octavo::text {
namespace {

// How many bytes at the front of `text` are in no valid character. REQUIRES: text does not begin
// with one.
size_t InvalidRun(std::string_view text) {
  size_t run = 0;
  while (run < text.size()) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(run));
    if (unit.kind == Utf8Kind::kValid) break;
    run += unit.num_bytes;
  }
  return run;
}

std::string HexByte(uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

constexpr size_t kMaxProbes = 4096;

}  // namespace

void MergeTable::Reserve(size_t num_merges) {
  slots_.assign(std::bit_ceil(2 * num_merges + 1), Slot());
}

size_t MergeTable::FirstSlot(TokenId left, TokenId right) const {
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  uint64_t hash = key * 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads neighbouring ids
  hash ^= hash >> 32;
  return hash & (slots_.size() - 1);
}

bool MergeTable::Insert(TokenId left, TokenId right, Merge merge) {
  size_t slot = FirstSlot(left, right);
  for (size_t probes = 0; probes < kMaxProbes; ++probes) {
    Slot& entry = slots_[slot];
    if (entry.left == kNoToken || (entry.left == left && entry.right == right)) {
      entry = {left, right, merge};
      return true;
    }
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return false;
}

std::optional<Merge> MergeTable::Find(TokenId left, TokenId right) const {
  size_t slot = FirstSlot(left, right);
  while (slots_[slot].left != kNoToken) {
    if (slots_[slot].left == left && slots_[slot].right == right) return slots_[slot].merge;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return std::nullopt;
}

BpeTokenizer::BpeTokenizer(std::unique_ptr<const Vocabulary> vocabulary, PreTokenizer pre_tokenizer,
                           bool ignore_merges)
    : Tokenizer(std::move(vocabulary)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      ignore_merges_(ignore_merges) {}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Make(const VocabularyData& data) {
  Result<const PreTokenizerSpec*> spec = FindPreTokenizerSpec(data.pre);
  if (!spec.ok()) return spec.status();
  Result<std::unique_ptr<Vocabulary>> vocabulary = Vocabulary::Make(data, (*spec)->adds_bos);
  if (!vocabulary.ok()) return vocabulary.status();
  Result<PreTokenizer> pre_tokenizer = PreTokenizer::Make(**spec);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(*std::move(vocabulary), *std::move(pre_tokenizer), (*spec)->ignore_merges));
  if (Status s = tokenizer->SetMerges(data.merges); !s.ok()) return s;
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status BpeTokenizer::SetMerges(const std::vector<std::string>& merges) {
  if (merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Status::DataLoss("tokenizer.ggml.merges has " + std::to_string(merges.size()) +
                            " entries; the limit is 2147483647");
  }
  merges_.Reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const auto error = [&](const std::string& what) {
      return Status::DataLoss("tokenizer.ggml.merges[" + std::to_string(i) + "] is " +
                              formats::Quote(merge) + ": " + what);
    };
    const size_t space = merge.find(' ', 1);  // a left part may be a space itself
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return error("it must be two tokens with a space between them");
    }
    const std::string_view parts[2] = {merge.substr(0, space), merge.substr(space + 1)};
    joined.assign(parts[0]).append(parts[1]);
    const std::string_view spellings[3] = {parts[0], parts[1], joined};
    TokenId ids[3];
    bool in_text = true;
    for (int k = 0; k < 3; ++k) {
      const std::optional<TokenId> id = vocabulary().FindInText(spellings[k]);
      if (!id.has_value() && !vocabulary().Find(spellings[k]).has_value()) {
        return error(formats::Quote(spellings[k]) + " is not in the vocabulary");
      }
      in_text = in_text && id.has_value();
      ids[k] = id.value_or(kNoToken);
    }
    // A merge with a control token would let a message's text become that token.
    if (in_text && !merges_.Insert(ids[0], ids[1], {static_cast<uint32_t>(i), ids[2]})) {
      return error("too many merges share its hash");
    }
  }
  return Status::Ok();
}

Status BpeTokenizer::EncodePlain(const PlainText& text, std::vector<TokenId>* out) const {
  const std::string_view piece = text.bytes;
  PairMerger merger;
  std::vector<std::string_view> words;
  for (size_t pos = 0; pos < piece.size();) {
    const std::string_view valid = piece.substr(pos, ValidUtf8Prefix(piece.substr(pos)));
    if (Status s = pre_tokenizer_.Split(valid, &words); !s.ok()) return s;
    pos += valid.size();
    const std::string_view invalid = piece.substr(pos, InvalidRun(piece.substr(pos)));
    if (!invalid.empty()) words.push_back(invalid);
    pos += invalid.size();
    for (const std::string_view word : words) {
      const size_t word_offset = text.offset + static_cast<size_t>(word.data() - piece.data());
      if (Status s = EncodeWord(word, word_offset, &merger, out); !s.ok()) return s;
    }
  }
  return Status::Ok();
}

Status BpeTokenizer::EncodeWord(std::string_view word, size_t offset, PairMerger* merger,
                                std::vector<TokenId>* out) const {
  if (ignore_merges_) {
    if (const std::optional<TokenId> id = WholeWord(word)) {
      out->push_back(*id);
      return Status::Ok();
    }
  }
  merger->Clear();
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    const std::optional<TokenId> id = vocabulary().byte_token(byte);
    if (!id.has_value()) {
      return Status::InvalidArgument("the text's byte " + HexByte(byte) + " at offset " +
                                     std::to_string(offset + i) +
                                     " has no token in this model's vocabulary");
    }
    merger->Add({static_cast<uint32_t>(i), 1, *id});
  }
  merger->Run(
      [this](const Symbol& left, const Symbol& right) { return merges_.Find(left.id, right.id); });
  merger->ForEach([out](const Symbol& symbol) { out->push_back(symbol.id); });
  return Status::Ok();
}

std::optional<TokenId> BpeTokenizer::WholeWord(std::string_view word) const {
  if (word.size() > vocabulary().max_text_bytes()) return std::nullopt;
  std::string spelling;
  for (const char c : word) spelling += ByteSpelling(static_cast<uint8_t>(c));
  return vocabulary().FindInText(spelling);
}

int64_t BpeTokenizer::extra_memory_bytes() const {
  return merges_.memory_bytes() + static_cast<int64_t>(pre_tokenizer_.memory_bytes());
}

}  // namespace octavo::text
