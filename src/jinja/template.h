#pragma once

// Purpose:    a Jinja2 template of a model: parsed once, rendered any number of times.
//             docs/contracts/text.md is normative.
// Ownership:  a Template owns its program; a rendering owns what it makes.
// Threading:  Render is const; any number of threads at once.
// Invariants: the output is Python's jinja2's, byte for byte, in a sandbox with trim_blocks and
//             lstrip_blocks, or an error that names the template's line. Time, memory and stack are
//             bounded by Limits. Nothing of the machine is read: the time comes from the caller.

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/execution.h"
#include "jinja/interpreter.h"
#include "jinja/tracked_string.h"
#include "jinja/value.h"
#include "octavo/status.h"

namespace octavo::jinja {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

struct Variable {
  std::string name;
  Value value;
};

class Template {
 public:
  // kInvalidArgument, with the line: a wrong template, or one that uses what is not supported.
  static Result<Template> Parse(std::string_view source);

  // Renders with these variables, of equal names the last. The values must have been made with the
  // same Execution. kInvalidArgument: the template's own refusal (raise_exception), with its
  // message alone; an error in it or a limit reached, with "chat template, line N: " in front.
  Result<TrackedString> Render(Execution& execution, const std::vector<Variable>& variables,
                               const FormatTime& format_time) const;

  // True if the template walks through the parts of a message's content, instead of printing it
  // as one text.
  bool iterates_content() const { return iterates_content_; }
  const Program& program() const { return *program_; }

 private:
  explicit Template(Program program);

  std::shared_ptr<const Program> program_;
  bool iterates_content_ = false;
};

// strftime of this moment, with the formats that do not depend on a locale; nothing for others.
std::optional<std::string> FormatCivilTime(const std::tm& time, std::string_view format);

}  // namespace octavo::jinja
