#include "text/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "formats/gguf_value.h"
#include "text/byte_alphabet.h"

namespace octavo::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Files do not always mark the token that ends an answer, so it is known by its spelling as well.
constexpr std::string_view kEndSpellings[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "[e~[",
};
// Opens a turn in ChatML; some files call it user-defined, which would let a message's text become
// it.
constexpr std::string_view kTurnStart = "<|im_start|>";

bool IsEndSpelling(std::string_view spelling) {
  return std::find(std::begin(kEndSpellings), std::end(kEndSpellings), spelling) !=
         std::end(kEndSpellings);
}

std::string WithSpaces(std::string_view spelling) {
  std::string text;
  size_t pos = 0;
  while (true) {
    const size_t mark = spelling.find(kSpaceMark, pos);
    text += spelling.substr(pos, mark - pos);
    if (mark == std::string_view::npos) return text;
    text += ' ';
    pos = mark + kSpaceMark.size();
  }
}

// The byte of "<0x0A>"; -1 if it is spelled differently.
int ByteOfHexSpelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int byte = 0;
  for (const char c : spelling.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      byte = byte * 16 + (c - '0');
    } else if (c >= 'A' && c <= 'F') {
      byte = byte * 16 + (c - 'A' + 10);
    } else {
      return -1;
    }
  }
  return byte;
}

bool IsTextType(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined ||
         type == TokenType::kUnused;
}

// The bytes that a spelling stands for when text is encoded with it; nothing if text cannot come to
// be encoded with it. A user-defined token stands for its very spelling, so it counts only if the
// vocabulary's alphabet agrees.
std::optional<std::string> TextOfSpelling(std::string_view spelling, TokenType type,
                                          TokenizerKind kind) {
  if (type == TokenType::kControl || type == TokenType::kUnknown) return std::nullopt;
  if (type == TokenType::kByte) {
    return std::string(1, static_cast<char>(ByteOfHexSpelling(spelling)));
  }
  std::optional<std::string> text =
      kind == TokenizerKind::kSentencePiece ? WithSpaces(spelling) : BytesOfSpelling(spelling);
  if (type == TokenType::kUserDefined && text != spelling) return std::nullopt;
  return text;
}

Status CheckId(std::string_view key, const std::optional<uint64_t>& id, size_t num_tokens,
               std::optional<TokenId>* out) {
  if (!id.has_value()) return Status::Ok();
  if (*id >= num_tokens) {
    return Status::DataLoss("tokenizer.ggml." + std::string(key) + " is " + std::to_string(*id) +
                            ", outside the vocabulary of " + std::to_string(num_tokens) +
                            " tokens");
  }
  *out = static_cast<TokenId>(*id);
  return Status::Ok();
}

Status CheckLength(std::string_view key, size_t length, size_t num_tokens) {
  if (length == num_tokens) return Status::Ok();
  return Status::DataLoss("tokenizer.ggml." + std::string(key) + " has " + std::to_string(length) +
                          " entries, but tokenizer.ggml.tokens has " + std::to_string(num_tokens));
}

}  // namespace

Result<std::unique_ptr<Vocabulary>> Vocabulary::Make(const VocabularyData& data, bool adds_bos) {
  if (data.tokens.empty()) return Status::DataLoss("tokenizer.ggml.tokens is empty");
  if (data.tokens.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    return Status::DataLoss("tokenizer.ggml.tokens has " + std::to_string(data.tokens.size()) +
                            " entries; the limit is 2147483647");
  }
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary());
  vocabulary->kind_ = data.kind;
  if (Status s = vocabulary->SetTypes(data); !s.ok()) return s;
  if (Status s = vocabulary->SetSpellings(data); !s.ok()) return s;
  if (Status s = vocabulary->SetIds(data); !s.ok()) return s;
  if (Status s = vocabulary->SetFlags(data, adds_bos); !s.ok()) return s;
  vocabulary->SetEndOfGeneration();
  vocabulary->SetByteTokens();
  if (Status s = vocabulary->SetMatchers(); !s.ok()) return s;
  return vocabulary;
}

Status Vocabulary::SetTypes(const VocabularyData& data) {
  const size_t num_tokens = data.tokens.size();
  types_.assign(num_tokens, TokenType::kNormal);
  if (!data.token_types.empty()) {
    if (Status s = CheckLength("token_type", data.token_types.size(), num_tokens); !s.ok()) {
      return s;
    }
    for (size_t i = 0; i < num_tokens; ++i) {
      const int32_t type = data.token_types[i];
      if (type < 1 || type > 6) {
        return Status::DataLoss("tokenizer.ggml.token_type[" + std::to_string(i) + "] is " +
                                std::to_string(type) + "; it must be 1 to 6");
      }
      types_[i] = static_cast<TokenType>(type);
    }
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (types_[i] != TokenType::kNormal && types_[i] != TokenType::kUserDefined) continue;
    if (IsEndSpelling(data.tokens[i]) || data.tokens[i] == kTurnStart) {
      types_[i] = TokenType::kControl;
    }
  }
  if (data.kind == TokenizerKind::kSentencePiece) {
    if (Status s = CheckLength("scores", data.scores.size(), num_tokens); !s.ok()) return s;
    for (size_t i = 0; i < num_tokens; ++i) {
      if (std::isnan(data.scores[i])) {
        return Status::DataLoss("tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number");
      }
    }
  }
  return Status::Ok();
}

Status Vocabulary::SetSpellings(const VocabularyData& data) {
  by_spelling_.Reserve(data.tokens.size());
  by_text_.Reserve(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& spelling = data.tokens[i];
    const std::string name = "tokenizer.ggml.tokens[" + std::to_string(i) + "]";
    if (spelling.size() > kMaxTokenBytes) {
      return Status::DataLoss(name + " is " + std::to_string(spelling.size()) +
                              " bytes long; the limit is " + std::to_string(kMaxTokenBytes));
    }
    if (types_[i] == TokenType::kByte && ByteOfHexSpelling(spelling) < 0) {
      return Status::DataLoss(name + " is " + formats::Quote(spelling) +
                              ", but a byte token is spelled \"<0x00>\" to \"<0xFF>\"");
    }
    const std::optional<std::string> text = TextOfSpelling(spelling, types_[i], kind_);
    spellings_.Append(spelling);
    bytes_.Append(text.value_or(spelling));
    bool room = by_spelling_.Insert(spellings_, static_cast<TokenId>(i));
    if (IsTextType(types_[i]) && text.has_value() && !text->empty()) {
      room = room && by_text_.Insert(spellings_, static_cast<TokenId>(i));
      max_text_bytes_ = std::max(max_text_bytes_, spelling.size());
    }
    if (!room) {
      return Status::DataLoss(name + ": too many tokens before it have the same hash");
    }
  }
  spellings_.ShrinkToFit();
  bytes_.ShrinkToFit();
  return Status::Ok();
}

Status Vocabulary::SetIds(const VocabularyData& data) {
  const size_t num_tokens = data.tokens.size();
  if (Status s = CheckId("bos_token_id", data.bos_id, num_tokens, &bos_id_); !s.ok()) return s;
  if (Status s = CheckId("eos_token_id", data.eos_id, num_tokens, &eos_id_); !s.ok()) return s;
  if (Status s = CheckId("eot_token_id", data.eot_id, num_tokens, &eot_id_); !s.ok()) return s;
  if (Status s = CheckId("eom_token_id", data.eom_id, num_tokens, &eom_id_); !s.ok()) return s;
  if (Status s = CheckId("unknown_token_id", data.unknown_id, num_tokens, &unknown_id_); !s.ok()) {
    return s;
  }
  if (data.kind == TokenizerKind::kSentencePiece) {
    if (!unknown_id_.has_value()) unknown_id_ = 0;
    if (!bos_id_.has_value() && num_tokens > 1) bos_id_ = 1;
    if (!eos_id_.has_value() && num_tokens > 2) eos_id_ = 2;
  }
  return Status::Ok();
}

Status Vocabulary::SetFlags(const VocabularyData& data, bool adds_bos) {
  const bool sentence_piece = data.kind == TokenizerKind::kSentencePiece;
  add_bos_ = data.add_bos.value_or(adds_bos && bos_id_.has_value());
  add_eos_ = data.add_eos.value_or(false);
  // Byte-level BPE spells spaces as they are; the key is meaningless there, whatever it says.
  add_space_prefix_ = sentence_piece && data.add_space_prefix.value_or(true);
  if (add_bos_ && !bos_id_.has_value()) {
    return Status::DataLoss(
        "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is absent");
  }
  if (add_eos_ && !eos_id_.has_value()) {
    return Status::DataLoss(
        "tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is absent");
  }
  if (!sentence_piece && (data.pre.empty() || data.pre == "default")) {
    warning_ =
        "the file names no pre-tokenizer (tokenizer.ggml.pre); text may be split differently from "
        "how the model was trained";
  }
  return Status::Ok();
}

void Vocabulary::SetEndOfGeneration() {
  end_of_generation_.assign(types_.size(), 0);
  for (const std::optional<TokenId>& id : {eos_id_, eot_id_, eom_id_}) {
    if (id.has_value()) end_of_generation_[static_cast<size_t>(*id)] = 1;
  }
  bool has_return = false, has_call = false;
  for (size_t i = 0; i < types_.size(); ++i) {
    const std::string_view spelling = spellings_[i];
    if (types_[i] == TokenType::kControl && IsEndSpelling(spelling)) end_of_generation_[i] = 1;
    has_return = has_return || spelling == "<|return|>";
    has_call = has_call || spelling == "<|call|>";
  }
  // In the harmony format <|end|> ends a message, not the answer.
  if (has_return && has_call) {
    for (size_t i = 0; i < types_.size(); ++i) {
      if (spellings_[i] == "<|end|>") end_of_generation_[i] = 0;
    }
  }
}

void Vocabulary::SetByteTokens() {
  byte_tokens_.fill(kNoToken);
  if (kind_ == TokenizerKind::kByteLevelBpe) {
    for (size_t byte = 0; byte < 256; ++byte) {
      byte_tokens_[byte] = FindInText(ByteSpelling(static_cast<uint8_t>(byte))).value_or(kNoToken);
    }
    return;
  }
  for (size_t i = types_.size(); i-- > 0;) {
    if (types_[i] != TokenType::kByte) continue;
    byte_tokens_[static_cast<uint8_t>(bytes_[i][0])] = static_cast<TokenId>(i);
  }
}

Status Vocabulary::SetMatchers() {
  std::vector<SpecialMatcher::Entry> user_defined, all;
  for (TokenId id = 0; id < size(); ++id) {
    const bool is_user_defined = type(id) == TokenType::kUserDefined;
    if ((!is_user_defined && !is_special(id)) || spelling(id).empty()) continue;
    if (spelling(id).size() > kMaxSpecialBytes) {
      return Status::DataLoss("tokenizer.ggml.tokens[" + std::to_string(id) + "] is special and " +
                              std::to_string(spelling(id).size()) + " bytes long; the limit is " +
                              std::to_string(kMaxSpecialBytes));
    }
    all.push_back({spelling(id), id});
    if (is_user_defined) user_defined.push_back({spelling(id), id});
  }
  user_defined_.Build(std::move(user_defined));
  all_specials_.Build(std::move(all));
  return Status::Ok();
}

std::optional<TokenId> Vocabulary::Find(std::string_view text) const {
  return by_spelling_.Find(spellings_, text);
}

std::optional<TokenId> Vocabulary::FindInText(std::string_view text) const {
  return by_text_.Find(spellings_, text);
}

int64_t Vocabulary::memory_bytes() const {
  const size_t flags = types_.capacity() * sizeof(TokenType) + end_of_generation_.capacity();
  return static_cast<int64_t>(flags + sizeof(*this)) + spellings_.memory_bytes() +
         bytes_.memory_bytes() + by_spelling_.memory_bytes() + by_text_.memory_bytes() +
         user_defined_.memory_bytes() + all_specials_.memory_bytes();
}

}  // namespace octavo::text
