#pragma once

// Purpose:    sizes that come from a file or an option are added and multiplied here, so that an
//             overflow is a value.
// Threading:  pure.
// Invariants: the result is the exact mathematical one, or nothing.

#include <concepts>
#include <optional>

namespace octavo::base {

template <std::integral T>
constexpr std::optional<T> CheckedAdd(T a, T b) {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
constexpr std::optional<T> CheckedMultiply(T a, T b) {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// The product of all the factors, from left to right.
template <std::integral T, std::same_as<T>... Rest>
constexpr std::optional<T> CheckedProduct(T first, Rest... rest) {
  std::optional<T> product = first;
  ((product = product ? CheckedMultiply(*product, rest) : std::nullopt), ...);
  return product;
}

// The smallest multiple of `multiple` that is at least `value`. REQUIRES: value >= 0, multiple > 0.
template <std::integral T>
constexpr std::optional<T> CheckedRoundUp(T value, T multiple) {
  const T remainder = static_cast<T>(value % multiple);
  if (remainder == 0) return value;
  return CheckedAdd(value, static_cast<T>(multiple - remainder));
}

// ceil(value / divisor), without overflow. REQUIRES: value >= 0, divisor > 0.
template <std::integral T>
constexpr T CeilDivide(T value, T divisor) {
  return static_cast<T>(value / divisor + (value % divisor != 0 ? 1 : 0));
}

}  // namespace octavo::base
