#pragma once

// Purpose:    refuses, before anything is rendered, filters and tests that do not exist. As in
//             Jinja2, one that is named only inside a condition is an error when it is reached.
// Ownership:  none.
// Threading:  any thread.
// Invariants: what passes names no unknown filter or test outside an `if`.

#include <cstdint>
#include <optional>
#include <string>

#include "jinja/ast.h"

namespace octavo::jinja {

struct Problem {
  int32_t line = 0;
  std::string message;
};

std::optional<Problem> FindProblem(const Program& program);

}  // namespace octavo::jinja
