#pragma once

// Purpose:    what all parts of one rendering share: its bounds, what was used of them, and the
//             first error.
// Ownership:  a value on the stack of Template::Render.
// Threading:  one thread.
// Invariants: after the first error nothing is charged any more and failed() stays true. Every part
//             of the engine may go on after an error, because each is total, but its results are
//             dropped; loops ask failed() or Charge() in every round.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::jinja {

struct Limits {
  int64_t max_steps = 10'000'000;       // nodes evaluated, elements visited, 32 bytes of text made
  size_t max_bytes = size_t{16} << 20;  // of the output, and of any string on the way
  int32_t max_depth = 600;              // nested evaluations, macro calls included
  int64_t max_range = 100'000;          // elements of range()
};

inline constexpr int32_t kMaxValueDepth = 200;  // nested lists and objects

class Execution {
 public:
  explicit Execution(const Limits& limits) : limits_(limits) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  bool failed() const { return failed_; }
  const Status& status() const { return status_; }
  const Limits& limits() const { return limits_; }

  // Records the error, with the current line, unless there is one already.
  void Fail(std::string_view message);
  // The template's own refusal: the message as it stands.
  void Refuse(std::string_view message);

  // False when the rendering has failed, or fails now because its steps are used up.
  bool Charge(int64_t steps);
  bool ChargeBytes(size_t num_bytes) { return Charge(1 + static_cast<int64_t>(num_bytes / 32)); }

  void set_line(int32_t line) { line_ = line; }
  int32_t line() const { return line_; }

 private:
  Limits limits_;
  int64_t steps_ = 0;
  int32_t line_ = 1;
  bool failed_ = false;
  Status status_;
};

// Counts the nesting of evaluations for as long as it lives.
class DepthGuard {
 public:
  DepthGuard(Execution& execution, int32_t* depth) : depth_(depth) {
    ok_ = ++*depth_ <= execution.limits().max_depth && !execution.failed();
    if (!ok_) {
      execution.Fail("nested deeper than " + std::to_string(execution.limits().max_depth) +
                     " evaluations");
    }
  }
  ~DepthGuard() { --*depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool ok() const { return ok_; }

 private:
  int32_t* depth_;
  bool ok_;
};

}  // namespace octavo::jinja
