#include "text/tokenizer_factory.h"

#include <span>
#include <string>
#include <utility>

#include "formats/gguf_file.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"

namespace octavo::text {
namespace {

// Each reads a key that may be absent; a wrong type is an error, with the file and the key in the
// message.

Status ReadId(const formats::GgufFile& file, std::string_view key, std::optional<uint64_t>* id) {
  if (file.Find(key) == nullptr) return Status::Ok();
  Result<uint64_t> value = file.GetUint(key);
  if (!value.ok()) return value.status();
  *id = *value;
  return Status::Ok();
}

Status ReadFlag(const formats::GgufFile& file, std::string_view key, std::optional<bool>* flag) {
  if (file.Find(key) == nullptr) return Status::Ok();
  Result<bool> value = file.GetBool(key);
  if (!value.ok()) return value.status();
  *flag = *value;
  return Status::Ok();
}

Status ReadStrings(const formats::GgufFile& file, std::string_view key,
                   std::vector<std::string>* strings) {
  if (file.Find(key) == nullptr) return Status::Ok();
  Result<std::span<const std::string_view>> value = file.GetStrings(key);
  if (!value.ok()) return value.status();
  strings->assign(value->begin(), value->end());
  return Status::Ok();
}

Status ReadArrays(const formats::GgufFile& file, VocabularyData* data) {
  if (Status s = ReadStrings(file, "tokenizer.ggml.tokens", &data->tokens); !s.ok()) return s;
  if (file.Find("tokenizer.ggml.token_type") != nullptr) {
    Result<std::vector<int32_t>> types = file.GetInt32s("tokenizer.ggml.token_type");
    if (!types.ok()) return types.status();
    data->token_types = *std::move(types);
    if (data->token_types.empty()) return Status::DataLoss("tokenizer.ggml.token_type is empty");
  }
  if (data->kind == TokenizerKind::kByteLevelBpe) {
    return ReadStrings(file, "tokenizer.ggml.merges", &data->merges);
  }
  Result<std::vector<float>> scores = file.GetFloats("tokenizer.ggml.scores");
  if (!scores.ok()) return scores.status();
  data->scores = *std::move(scores);
  return Status::Ok();
}

}  // namespace

Result<VocabularyData> ReadVocabulary(const formats::GgufFile& file) {
  VocabularyData data;
  Result<std::string_view> model = file.GetString("tokenizer.ggml.model");
  if (!model.ok()) return model.status();
  if (*model == "gpt2") {
    data.kind = TokenizerKind::kByteLevelBpe;
  } else if (*model == "llama") {
    data.kind = TokenizerKind::kSentencePiece;
  } else {
    return Status::Unimplemented("tokenizer.ggml.model is " + formats::Quote(*model) +
                                 "; this version reads \"gpt2\" and \"llama\"");
  }
  Result<std::string_view> pre = file.GetStringOr("tokenizer.ggml.pre", "");
  if (!pre.ok()) return pre.status();
  data.pre = *pre;
  if (Status s = ReadArrays(file, &data); !s.ok()) return s;

  const std::pair<std::string_view, std::optional<uint64_t>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &data.bos_id},
      {"tokenizer.ggml.eos_token_id", &data.eos_id},
      {"tokenizer.ggml.eot_token_id", &data.eot_id},
      {"tokenizer.ggml.eom_token_id", &data.eom_id},
      {"tokenizer.ggml.unknown_token_id", &data.unknown_id}};
  for (const auto& [key, id] : ids) {
    if (Status s = ReadId(file, key, id); !s.ok()) return s;
  }
  const std::pair<std::string_view, std::optional<bool>*> flags[] = {
      {"tokenizer.ggml.add_bos_token", &data.add_bos},
      {"tokenizer.ggml.add_eos_token", &data.add_eos},
      {"tokenizer.ggml.add_space_prefix", &data.add_space_prefix}};
  for (const auto& [key, flag] : flags) {
    if (Status s = ReadFlag(file, key, flag); !s.ok()) return s;
  }
  return data;
}

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(const VocabularyData& data) {
  return data.kind == TokenizerKind::kByteLevelBpe ? BpeTokenizer::Make(data)
                                                   : SpmTokenizer::Make(data);
}

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const formats::GgufFile& file) {
  Result<VocabularyData> data = ReadVocabulary(file);
  if (!data.ok()) return data.status();
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(*data);
  if (tokenizer.ok()) return tokenizer;
  return Status(tokenizer.status().code(), file.name() + ": " + tokenizer.status().message());
}

}  // namespace octavo::text
