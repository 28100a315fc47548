#pragma once

// Purpose:    ids of different kinds as different types: a BlockId is never a SequenceId, and
//             neither is an integer.
// Ownership:  a value, as cheap as T.
// Threading:  plain data.
// Invariants: no implicit conversion from or to anything; value() is the only way out.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace octavo {

template <class Tag, class T = uint32_t>
class StrongId {
 public:
  using value_type = T;

  constexpr StrongId() = default;
  constexpr explicit StrongId(T value) : value_(value) {}

  constexpr T value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  T value_{};
};

}  // namespace octavo

template <class Tag, class T>
struct std::hash<octavo::StrongId<Tag, T>> {
  size_t operator()(octavo::StrongId<Tag, T> id) const { return std::hash<T>{}(id.value()); }
};
