#include "server/token_api.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "server/answer_parts.h"
#include "server/body_handler.h"
#include "server/json_fields.h"
#include "server/json_writer.h"
#include "server/prompt_call.h"

namespace octavo::server {
namespace {

ApiResult<std::string> Tokenize(std::string_view body, const LimitOptions& limits,
                                const Engine& engine) {
  ApiResult<boost::json::object> object = ParseObject(body, limits.max_json_depth);
  if (!object.ok()) return object.error();
  JsonFields fields(*object);
  const bool wants_strings = fields.Bool("return_token_strs").value_or(false);
  if (!fields.ok()) return fields.error();
  ApiResult<PromptCall> call = ReadPromptCall(*object, limits, engine);
  if (!call.ok()) return call.error();
  const std::vector<TokenId>& ids = call->token_ids;
  JsonWriter json;
  json.BeginObject()
      .Member("count", static_cast<int64_t>(ids.size()))
      .Member("max_model_len", int64_t{engine.model_info().max_model_len});
  json.Key("tokens");
  WriteTokenIds(ids, json);
  if (wants_strings) {
    json.Key("token_strs").BeginArray();
    for (const TokenId id : ids) json.String(engine.TokenBytes(id));
    json.EndArray();
  } else {
    json.NullMember("token_strs");
  }
  json.EndObject();
  return json.Take();
}

ApiResult<std::string> Detokenize(std::string_view body, const LimitOptions& limits,
                                  const Engine& engine) {
  const ApiResult<boost::json::object> object = ParseObject(body, limits.max_json_depth);
  if (!object.ok()) return object.error();
  JsonFields fields(*object);
  const boost::json::array* tokens = fields.Array("tokens");
  if (tokens == nullptr) fields.Fail("tokens", "an array of token ids");
  if (!fields.ok()) return fields.error();
  const int32_t vocab_size = engine.model_info().vocab_size;
  std::vector<TokenId> ids;
  for (size_t i = 0; i < tokens->size(); ++i) {
    const boost::json::value& value = (*tokens)[i];
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() >= vocab_size) {
      return InvalidField("tokens",
                          fmt::format("tokens[{}] is {}, but must be a token id in [0, {}]", i,
                                      ShortJson(value), vocab_size - 1));
    }
    ids.push_back(static_cast<TokenId>(value.get_int64()));
  }
  const Result<std::string> text = engine.Detokenize(ids, /*skip_special_tokens=*/false);
  if (!text.ok()) return FromStatus(text.status());
  JsonWriter json;
  json.BeginObject().Member("prompt", *text).EndObject();
  return json.Take();
}

}  // namespace

void AddTokenApi(Service& service, Router& router) {
  const LimitOptions& limits = service.options().limits;
  AddBodyHandler(service, router, "/tokenize",
                 [&limits](std::string_view body, const Engine& engine) {
                   return Tokenize(body, limits, engine);
                 });
  AddBodyHandler(service, router, "/detokenize",
                 [&limits](std::string_view body, const Engine& engine) {
                   return Detokenize(body, limits, engine);
                 });
}

}  // namespace octavo::server
