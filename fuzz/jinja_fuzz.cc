// Fuzzes the Jinja engine: no template and no input make it crash, hang, or call untrusted bytes
// trusted.
//
// Input: a template, a zero byte, and a JSON object of variables.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "jinja/json_input.h"
#include "jinja/template.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

constexpr Limits kLimits = {
    .max_steps = 50'000, .max_bytes = size_t{1} << 16, .max_depth = 300, .max_range = 1'000};

std::optional<std::string> Time(std::string_view format) {
  return FormatCivilTime(std::tm{}, format);
}

void CheckText(const TrackedString& text, std::string_view source) {
  OCTAVO_CHECK(text.size() <= kLimits.max_bytes, "a text above its limit");
  OCTAVO_CHECK(IsValidUtf8(text.bytes()), "a text that is not UTF-8");
  size_t last = 0;
  bool any = false;
  for (const ByteRange& range : text.trusted()) {
    OCTAVO_CHECK(range.begin < range.end && range.end <= text.size(), "a range outside the text");
    OCTAVO_CHECK(!any || range.begin > last, "ranges that overlap or touch");
    any = true;
    last = range.end;
    // '@' comes from nowhere but the template's own text or escapes in it.
    const std::string_view trusted = text.bytes().substr(range.begin, range.end - range.begin);
    const bool may_spell =
        source.find('@') != std::string_view::npos || source.find('\\') != std::string_view::npos;
    OCTAVO_CHECK(may_spell || trusted.find('@') == std::string_view::npos,
                 "untrusted bytes that are called trusted");
  }
}

void Fuzz(std::string_view source, std::string_view json) {
  const Result<Template> parsed = Template::Parse(source);
  if (!parsed.ok()) {
    OCTAVO_CHECK(parsed.status().message().starts_with("chat template") ||
                     parsed.status().message().starts_with("the chat template"),
                 parsed.status().message());
    return;
  }
  Execution execution(kLimits);
  std::vector<Variable> variables;
  const Result<Value> values = ParseJson(execution, json, "variables");
  if (values.ok() && values->is(Kind::kDict)) {
    for (const auto& [key, value] : values->dict().items) {
      variables.push_back({std::string(key.bytes()), value});
    }
  }
  if (execution.failed()) return;
  const Result<TrackedString> text = parsed->Render(execution, variables, Time);
  if (text.ok()) CheckText(*text, source);
}

}  // namespace
}  // namespace octavo::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes), num_bytes);
  const size_t zero = input.find('\0');
  const bool has_json = zero != std::string_view::npos;
  octavo::jinja::Fuzz(input.substr(0, zero), has_json ? input.substr(zero + 1) : "{}");
  return 0;
}
