#include "jinja/template.h"

#include <utility>

#include "jinja/content_format.h"
#include "jinja/parser.h"

namespace octavo::jinja {

Template::Template(Program program)
    : program_(std::make_shared<const Program>(std::move(program))),
      iterates_content_(IteratesContent(*program_)) {}

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return Status::InvalidArgument("the chat template is " + std::to_string(source.size()) +
                                   " bytes long; the limit is " +
                                   std::to_string(kMaxTemplateBytes));
  }
  Result<Program> program = ParseProgram(source);
  if (!program.ok()) return program.status();
  return Template(*std::move(program));
}

Result<TrackedString> Template::Render(Execution& execution, const std::vector<Variable>& variables,
                                       const FormatTime& format_time) const {
  Interpreter interpreter(execution, *program_, format_time);
  for (const auto& [name, value] : variables) interpreter.SetVariable(name, value);
  TrackedString text = interpreter.Render();
  if (execution.failed()) return execution.status();
  return text;
}

}  // namespace octavo::jinja
