#pragma once

// Purpose:    what the output of a request must look like; names are those of vLLM's
//             structured_outputs (docs/contracts/structured-outputs.md is normative).
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: none until Engine::Submit has accepted it: exactly one kind is set, within its
//             limits, and nothing in it would be ignored.

#include <optional>
#include <string>
#include <vector>

namespace octavo {

struct StructuredOutputs {
  std::optional<std::string> json;     // a JSON schema, as JSON text
  std::optional<std::string> regex;    // which the whole output matches
  std::optional<std::string> grammar;  // EBNF; the output is a sentence of its rule "root"
  std::vector<std::string> choice;     // the output is one of these texts
  bool json_object = false;            // any JSON object

  bool operator==(const StructuredOutputs&) const = default;
};

}  // namespace octavo
