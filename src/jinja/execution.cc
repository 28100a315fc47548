#include "jinja/execution.h"

namespace octavo::jinja {

void Execution::Fail(std::string_view message) {
  if (failed_) return;
  failed_ = true;
  status_ = Status::InvalidArgument("chat template, line " + std::to_string(line_) + ": " +
                                    std::string(message));
}

void Execution::Refuse(std::string_view message) {
  if (failed_) return;
  failed_ = true;
  status_ = Status::InvalidArgument(std::string(message));
}

bool Execution::Charge(int64_t steps) {
  if (failed_) return false;
  steps_ += steps;
  if (steps_ <= limits_.max_steps) return true;
  Fail("more than " + std::to_string(limits_.max_steps) + " steps");
  return false;
}

}  // namespace octavo::jinja
