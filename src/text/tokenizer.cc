#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/vocabulary.h"

namespace octavo::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{1}
                                 << 30;  // tripled by SentencePiece, it still fits 32 bits

// Finds the next special token of a text of mixed origin: user-defined ones anywhere, the others in
// trusted ranges only. Leftmost first, then longest. What was found ahead is kept, so that a whole
// text is searched once.
class TrustedMatcher {
 public:
  TrustedMatcher(const Vocabulary& vocabulary, std::string_view text,
                 std::span<const jinja::ByteRange> trusted)
      : all_(vocabulary.matcher(true)),
        user_defined_(vocabulary.matcher(false)),
        text_(text),
        trusted_(trusted) {}

  // REQUIRES: `from` never falls.
  std::optional<SpecialMatch> Find(size_t from) {
    if (!anywhere_done_ && (!anywhere_ || anywhere_->begin < from)) {
      anywhere_ = user_defined_.Find(text_, from);
      anywhere_done_ = !anywhere_.has_value();
    }
    if (!inside_ || inside_->begin < from) inside_ = FindInside(from);
    if (!inside_ || !anywhere_) return inside_ ? inside_ : anywhere_;
    if (inside_->begin != anywhere_->begin) {
      return inside_->begin < anywhere_->begin ? inside_ : anywhere_;
    }
    return inside_->num_bytes >= anywhere_->num_bytes ? inside_ : anywhere_;
  }

 private:
  std::optional<SpecialMatch> FindInside(size_t from) {
    for (; next_ < trusted_.size(); ++next_) {
      const auto& [begin, end] = trusted_[next_];
      if (end <= from) continue;
      const auto match = all_.Find(text_.substr(0, end), std::max(begin, from));
      if (match) return match;
    }
    return std::nullopt;
  }

  const SpecialMatcher& all_;
  const SpecialMatcher& user_defined_;
  std::string_view text_;
  std::span<const jinja::ByteRange> trusted_;
  size_t next_ = 0;  // the first range that may hold another match
  std::optional<SpecialMatch> anywhere_, inside_;
  bool anywhere_done_ = false;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

Tokenizer::~Tokenizer() = default;

template <typename Find>
Status Tokenizer::EncodeBetween(std::string_view text, Find find, std::vector<TokenId>* out) const {
  if (text.size() > kMaxTextBytes) {
    return Status::InvalidArgument("the text is " + std::to_string(text.size()) +
                                   " bytes long; the limit is " + std::to_string(kMaxTextBytes));
  }
  bool at_start = true;
  for (size_t pos = 0; pos < text.size();) {
    const std::optional<SpecialMatch> match = find(pos);
    const size_t end = match.has_value() ? match->begin : text.size();
    if (end > pos) {
      const PlainText plain = {text.substr(pos, end - pos), pos, at_start};
      if (Status s = EncodePlain(plain, out); !s.ok()) return s;
    }
    pos = end;
    if (match.has_value()) {
      out->push_back(match->id);
      pos += match->num_bytes;
      at_start = IsSpecial(match->id);
    }
  }
  return Status::Ok();
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  std::vector<TokenId> out;
  if (options.add_special && vocabulary_->add_bos()) out.push_back(*vocabulary_->bos_id());
  const SpecialMatcher& matcher = vocabulary_->matcher(options.parse_special);
  const auto find = [&](size_t from) { return matcher.Find(text, from); };
  if (Status s = EncodeBetween(text, find, &out); !s.ok()) return s;
  if (options.add_special && vocabulary_->add_eos()) out.push_back(*vocabulary_->eos_id());
  return out;
}

Result<std::vector<TokenId>> Tokenizer::EncodeTrusted(
    std::string_view text, std::span<const jinja::ByteRange> trusted) const {
  std::vector<TokenId> out;
  TrustedMatcher matcher(*vocabulary_, text, trusted);
  const auto find = [&](size_t from) { return matcher.Find(from); };
  if (Status s = EncodeBetween(text, find, &out); !s.ok()) return s;
  return out;
}

std::string Tokenizer::Decode(std::span<const TokenId> token_ids, bool skip_special) const {
  std::string bytes;
  bool at_start = true;
  for (const TokenId id : token_ids) bytes += TextOf(id, skip_special, &at_start);
  return bytes;
}

std::string_view Tokenizer::TextOf(TokenId id, bool skip_special, bool* at_start) const {
  std::string_view bytes = TokenBytes(id);
  const bool special = IsSpecial(id);
  if (special && skip_special) return {};
  const bool first = std::exchange(*at_start, false);
  const bool plain = !special && vocabulary_->type(id) != TokenType::kUserDefined;
  if (first && plain && adds_space_prefix() && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  OCTAVO_CHECK(id >= 0 && id < vocab_size(), "token id outside the vocabulary");
  return vocabulary_->bytes(id);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  OCTAVO_CHECK(id >= 0 && id < vocab_size(), "token id outside the vocabulary");
  return vocabulary_->is_special(id);
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  OCTAVO_CHECK(id >= 0 && id < vocab_size(), "token id outside the vocabulary");
  return vocabulary_->is_end_of_generation(id);
}

std::optional<TokenId> Tokenizer::FindToken(std::string_view spelling) const {
  return vocabulary_->Find(spelling);
}

int32_t Tokenizer::vocab_size() const { return vocabulary_->size(); }
std::optional<TokenId> Tokenizer::bos_id() const { return vocabulary_->bos_id(); }
std::optional<TokenId> Tokenizer::eos_id() const { return vocabulary_->eos_id(); }
bool Tokenizer::adds_space_prefix() const { return vocabulary_->add_space_prefix(); }
const std::string& Tokenizer::warning() const { return vocabulary_->warning(); }

int64_t Tokenizer::memory_bytes() const {
  return vocabulary_->memory_bytes() + extra_memory_bytes();
}

}  // namespace octavo::text
