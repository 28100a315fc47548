#include "jinja/number_format.h"

#include <fmt/format.h>

#include <cmath>

#include "jinja/python_text.h"
#include "jinja/string_ops.h"

namespace octavo::jinja {
namespace {

std::string Magnitude(uint64_t value, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'b':
      return fmt::format("{:b}", value);
    default:
      return fmt::format("{}", value);
  }
}

std::string FloatDigits(double value, const FieldSpec& spec) {
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    case 'g':
      return fmt::format("{:.{}g}", value, precision);
    case 'G':
      return fmt::format("{:.{}G}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    default:
      break;
  }
  if (spec.precision < 0) return FloatRepr(value);
  return fmt::format("{:.{}g}", value, precision);
}

void GroupThousands(char separator, std::string* digits) {
  const size_t end = digits->find_first_not_of("0123456789");
  const size_t size = end == std::string::npos ? digits->size() : end;
  for (size_t at = size; at > 3; at -= 3) digits->insert(at - 3, 1, separator);
}

}  // namespace

std::optional<FormattedNumber> FormatNumber(const Value& value, const FieldSpec& spec) {
  const bool integer_type = spec.type == 'd' || spec.type == 'x' || spec.type == 'X' ||
                            spec.type == 'o' || spec.type == 'b' ||
                            (spec.type == '\0' && value.is_integer());
  FormattedNumber number;
  bool negative = false;
  if (integer_type) {
    if (!value.is_integer()) return std::nullopt;
    const int64_t integer = value.as_int();
    negative = integer < 0;
    const uint64_t size =
        negative ? uint64_t{0} - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
    number.digits = Magnitude(size, spec.type);
    if (spec.alternate && spec.type != 'd' && spec.type != '\0') {
      number.sign = std::string("0") + spec.type;
    }
  } else {
    if (!value.is_number() ||
        std::string_view("eEfFgG%\0", 8).find(spec.type) == std::string_view::npos) {
      return std::nullopt;
    }
    negative = std::signbit(value.as_float());
    number.digits = FloatDigits(std::fabs(value.as_float()), spec);
  }
  if (spec.separator != '\0') GroupThousands(spec.separator, &number.digits);
  if (negative) {
    number.sign.insert(0, 1, '-');
  } else if (spec.sign != '\0') {
    number.sign.insert(0, 1, spec.sign);
  }
  return number;
}

TrackedString PadNumber(Execution& execution, const FormattedNumber& number,
                        const FieldSpec& spec) {
  const bool inside = spec.align == '=' || (spec.zero && spec.align == '\0');
  const TrackedString sign = TrackedString::Untrusted(number.sign);
  const TrackedString digits = TrackedString::Untrusted(number.digits);
  StringBuilder builder(execution);
  if (inside) {
    const TrackedString fill = spec.zero ? TrackedString::Untrusted("0") : spec.fill;
    builder.Append(sign);
    builder.Append(
        Pad(execution, digits, spec.width - static_cast<int64_t>(sign.size()), fill, '>'));
    return builder.Take();
  }
  builder.Append(sign);
  builder.Append(digits);
  return Pad(execution, builder.Take(), spec.width, spec.fill,
             spec.align == '\0' ? '>' : spec.align);
}

}  // namespace octavo::jinja
