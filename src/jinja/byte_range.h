#pragma once

// Purpose:    a range of bytes in a text.
// Ownership:  a value.
// Threading:  plain data.
// Invariants: begin <= end.

#include <cstddef>

namespace octavo::jinja {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace octavo::jinja
