#include "server/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "server/structured_fields.h"

namespace octavo::server {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxAllowedIds = 1 << 20;
constexpr size_t kMaxStopIds = 1024;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxSaltBytes = 1024;

void ReadFloat(JsonFields& fields, std::string_view name, float* value) {
  if (const std::optional<double> number = fields.Number(name)) {
    *value = static_cast<float>(*number);
  }
}

void ReadInt(JsonFields& fields, std::string_view name, int64_t low, int64_t high, int32_t* value) {
  if (const std::optional<int64_t> number = fields.Int(name, low, high)) {
    *value = static_cast<int32_t>(*number);
  }
}

void ReadBool(JsonFields& fields, std::string_view name, bool* value) {
  if (const std::optional<bool> given = fields.Bool(name)) *value = *given;
}

void ReadTokenIds(JsonFields& fields, std::string_view name, size_t max_ids,
                  std::vector<TokenId>* ids) {
  const json::array* array = fields.Array(name);
  if (array == nullptr) return;
  if (array->size() > max_ids) {
    return fields.Fail(name, fmt::format("an array of at most {} token ids", max_ids));
  }
  for (const json::value& value : *array) {
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > kMaxInt32) {
      return fields.Fail(name,
                         fmt::format("an array of token ids, not one with {}", ShortJson(value)));
    }
    ids->push_back(static_cast<TokenId>(value.get_int64()));
  }
}

// Fields of vLLM that would change the answer, but for null and an empty array.
void RefuseUnsupported(JsonFields& fields) {
  for (const char* name :
       {"bad_words", "logprob_token_ids", "prompt_embeds", "repetition_detection",
        "thinking_token_budget", "truncate_prompt_tokens"}) {
    const json::value* value = fields.Find(name);
    const bool is_empty = value != nullptr && value->is_array() && value->get_array().empty();
    if (value != nullptr && !is_empty) fields.Fail(name, "absent: it is not supported");
  }
}

// A string, or an array of strings.
void ReadStop(JsonFields& fields, SamplingParams* params) {
  const json::value* stop = fields.Find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    params->stop.emplace_back(stop->get_string());
    return;
  }
  if (!stop->is_array()) return fields.Fail("stop", "a string or an array of strings");
  if (stop->get_array().size() > kMaxStops) {
    return fields.Fail("stop", fmt::format("an array of at most {} strings", kMaxStops));
  }
  for (const json::value& value : stop->get_array()) {
    if (!value.is_string()) {
      return fields.Fail("stop",
                         fmt::format("an array of strings, not one with {}", ShortJson(value)));
    }
    params->stop.emplace_back(value.get_string());
  }
}

void ReadLogitBias(JsonFields& fields, SamplingParams* params) {
  constexpr size_t kMaxEntries = 1024;
  const json::object* bias = fields.Object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > kMaxEntries) {
    return fields.Fail("logit_bias", fmt::format("an object of at most {} entries, not {}",
                                                 kMaxEntries, bias->size()));
  }
  for (const auto& [key, value] : *bias) {
    TokenId id = 0;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stop != end || id < 0) {
      return fields.Fail("logit_bias", fmt::format("an object whose keys are token ids, not {}",
                                                   ShortJson(json::value(key))));
    }
    if (!value.is_number() || !(value.to_number<double>() >= -100.0) ||
        !(value.to_number<double>() <= 100.0)) {
      return fields.Fail("logit_bias",
                         fmt::format("an object of numbers in [-100, 100], not {} for token {}",
                                     ShortJson(value), id));
    }
    params->logit_bias.emplace_back(id, static_cast<float>(value.to_number<double>()));
  }
}

}  // namespace

void ReadSamplingFields(JsonFields& fields, SamplingParams* params) {
  ReadInt(fields, "n", 1, 128, &params->n);
  ReadFloat(fields, "temperature", &params->temperature);
  ReadFloat(fields, "top_p", &params->top_p);
  ReadInt(fields, "top_k", -1, kMaxInt32, &params->top_k);
  ReadFloat(fields, "min_p", &params->min_p);
  if (const std::optional<int64_t> seed = fields.Int("seed", std::numeric_limits<int64_t>::min(),
                                                     std::numeric_limits<int64_t>::max())) {
    params->seed = static_cast<uint64_t>(*seed);
  }
  ReadFloat(fields, "repetition_penalty", &params->repetition_penalty);
  ReadFloat(fields, "presence_penalty", &params->presence_penalty);
  ReadFloat(fields, "frequency_penalty", &params->frequency_penalty);
  ReadLogitBias(fields, params);
  ReadTokenIds(fields, "allowed_token_ids", kMaxAllowedIds, &params->allowed_token_ids);
  if (fields.Find("allowed_token_ids") != nullptr && params->allowed_token_ids.empty()) {
    fields.Fail("allowed_token_ids", "an array that is not empty, or absent");
  }
  ReadStop(fields, params);
  ReadTokenIds(fields, "stop_token_ids", kMaxStopIds, &params->stop_token_ids);
  ReadBool(fields, "include_stop_str_in_output", &params->include_stop_str_in_output);
  ReadBool(fields, "ignore_eos", &params->ignore_eos);
  ReadInt(fields, "min_tokens", 0, kMaxInt32, &params->min_tokens);
  ReadBool(fields, "skip_special_tokens", &params->skip_special_tokens);
  if (const std::optional<int64_t> count = fields.Int("prompt_logprobs", 0, 20)) {
    params->prompt_logprobs = static_cast<int32_t>(*count);
  }
  if (const std::optional<int64_t> best_of = fields.Int("best_of", 1, 128);
      best_of && *best_of != params->n) {
    fields.Fail("best_of", fmt::format("n, which is {}, or absent", params->n));
  }
  ReadStructuredFields(fields, params);
  RefuseUnsupported(fields);
}

uint64_t BytesOf(const SamplingParams& params) {
  uint64_t bytes =
      sizeof(params) + (params.logit_bias.size() * sizeof(params.logit_bias[0])) +
      (params.allowed_token_ids.size() + params.stop_token_ids.size()) * sizeof(TokenId);
  for (const std::string& stop : params.stop) bytes += sizeof(stop) + 5 * stop.size();
  if (!params.structured_outputs) return bytes;
  const StructuredOutputs& outputs = *params.structured_outputs;
  for (const auto* text : {&outputs.json, &outputs.regex, &outputs.grammar}) {
    if (*text) bytes += (*text)->size();
  }
  for (const std::string& choice : outputs.choice) bytes += sizeof(choice) + choice.size();
  return bytes;
}

void ReadMaxTokens(JsonFields& fields, std::string_view name, int64_t low, SamplingParams* params) {
  if (const std::optional<int64_t> count = fields.ClampedInt(name, low, kMaxInt32)) {
    params->max_tokens = static_cast<int32_t>(*count);
  }
}

void ReadBeamSearch(JsonFields& fields, Request* request) {
  if (!fields.Bool("use_beam_search").value_or(false)) return;
  BeamSearchParams beams;
  beams.beam_width = request->params.n;
  beams.max_tokens = request->params.max_tokens.value_or(static_cast<int32_t>(kMaxInt32));
  beams.ignore_eos = request->params.ignore_eos;
  ReadFloat(fields, "length_penalty", &beams.length_penalty);
  request->params.n = 1;
  request->beam_search = beams;
}

void ReadSharingFields(JsonFields& fields, Request* request) {
  ReadInt(fields, "priority", -kMaxInt32, kMaxInt32, &request->priority);
  if (std::optional<std::string> salt = fields.String("cache_salt", kMaxSaltBytes)) {
    if (salt->empty()) fields.Fail("cache_salt", "a string that is not empty, or absent");
    request->cache_salt = *std::move(salt);
  }
  request->pin_ttl_ms = fields.Int("pin_ttl_ms", 1, kMaxInt32);
  ReadBool(fields, "explain", &request->explain);
}

}  // namespace octavo::server
