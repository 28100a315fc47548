#pragma once

// Purpose:    how the tests of this layer render.
// Ownership:  values.
// Threading:  one thread.
// Invariants: the time is 2024-07-09 01:02:03.

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/json_input.h"
#include "jinja/template.h"

namespace octavo::jinja::testing {

inline std::optional<std::string> FixedTime(std::string_view format) {
  std::tm time = {};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 9;
  time.tm_hour = 1;
  time.tm_min = 2;
  time.tm_sec = 3;
  return FormatCivilTime(time, format);
}

// Renders with the entries of a JSON object as variables.
inline Result<TrackedString> Render(std::string_view source, std::string_view variables = "{}",
                                    const Limits& limits = {}) {
  const Result<Template> parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  Execution execution(limits);
  const Result<Value> values = ParseJson(execution, variables, "variables");
  if (!values.ok()) return values.status();
  std::vector<Variable> list;
  for (const auto& [key, value] : values->dict().items) {
    list.push_back({std::string(key.bytes()), value});
  }
  return parsed->Render(execution, list, FixedTime);
}

inline std::string Text(std::string_view source, std::string_view variables = "{}") {
  const Result<TrackedString> text = Render(source, variables);
  return text.ok() ? std::string(text->bytes()) : "error: " + text.status().message();
}

inline std::string Error(std::string_view source, const Limits& limits = {}) {
  const Result<TrackedString> text = Render(source, "{}", limits);
  return text.ok() ? "no error: " + std::string(text->bytes()) : text.status().message();
}

}  // namespace octavo::jinja::testing
