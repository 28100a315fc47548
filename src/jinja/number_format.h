#pragma once

// Purpose:    numbers in the forms that Python's % and str.format know.
// Ownership:  none.
// Threading:  any thread.
// Invariants: the same digits as C's printf; never more than kMaxPrecision digits behind the point.

#include <cstdint>
#include <optional>
#include <string>

#include "jinja/value.h"

namespace octavo::jinja {

inline constexpr int64_t kMaxPrecision = 1000;
inline constexpr int64_t kMaxWidth = 1'000'000;

struct FieldSpec {
  TrackedString fill = TrackedString::Untrusted(" ");
  char align = '\0';  // '<', '>', '^', '=' or none
  char sign = '\0';   // '+', ' ' or none
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  int64_t precision = -1;  // none
  char separator = '\0';   // of thousands: ',' or '_' or none
  char type = '\0';
};

// The sign and the digits of a number; nothing if the type does not fit the value.
struct FormattedNumber {
  std::string sign;  // "", "-", "+", " ", with "0x" behind it if that is asked for
  std::string digits;
};
std::optional<FormattedNumber> FormatNumber(const Value& value, const FieldSpec& spec);

// Puts the number into its field.
TrackedString PadNumber(Execution& execution, const FormattedNumber& number, const FieldSpec& spec);

}  // namespace octavo::jinja
