#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/number_format.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Execution& execution, const TrackedString& format, const Value& value)
      : execution_(execution), format_(format), value_(value), builder_(execution) {
    const bool is_tuple =
        value.is(Kind::kSequence) && value.sequence().type == SequenceType::kTuple;
    if (is_tuple) {
      arguments_ = value.sequence().items;
    } else {
      arguments_ = {value};
    }
    may_be_left_ = value.is(Kind::kDict) || (value.is(Kind::kSequence) && !is_tuple);
  }

  Value Run() {
    const std::string_view bytes = format_.bytes();
    size_t plain = 0;
    while (!execution_.failed()) {
      const size_t percent = bytes.find('%', at_);
      if (percent == std::string_view::npos) break;
      builder_.Append(format_, plain, percent);
      at_ = percent + 1;
      Field();
      plain = at_;
    }
    if (execution_.failed()) return Value();
    builder_.Append(format_, plain, bytes.size());
    if (next_ < arguments_.size() && !may_be_left_) {
      return Fail(execution_, "not all arguments converted during string formatting");
    }
    return Value::String(builder_.Take().WithMarkup(format_.is_markup()));
  }

 private:
  char Peek() const { return at_ < format_.size() ? format_.bytes()[at_] : '\0'; }

  Value NextArgument() {
    if (named_) return *std::exchange(named_, std::nullopt);
    if (next_ >= arguments_.size()) {
      return Fail(execution_, "not enough arguments for format string");
    }
    return arguments_[next_++];
  }

  // "(name)": the argument is an entry of the mapping.
  void ReadName() {
    if (Peek() != '(') return;
    const size_t close = format_.bytes().find(')', at_);
    if (close == std::string_view::npos) return execution_.Fail("incomplete format key");
    if (!value_.is(Kind::kDict)) return execution_.Fail("format requires a mapping");
    const std::string_view name = format_.bytes().substr(at_ + 1, close - at_ - 1);
    const Value* found = value_.dict().Find(name);
    if (found == nullptr) return execution_.Fail(fmt::format("no key '{}' to format", name));
    named_ = *found;
    at_ = close + 1;
  }

  int64_t ReadNumber(int64_t limit) {
    if (Peek() == '*') {
      ++at_;
      const Value value = NextArgument();
      if (!value.is_integer()) execution_.Fail("* wants int");
      return execution_.failed() ? 0 : std::clamp<int64_t>(value.as_int(), -limit, limit);
    }
    int64_t number = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      number = std::min(number * 10 + (Peek() - '0'), limit + 1);
      ++at_;
    }
    if (number > limit) execution_.Fail(fmt::format("a width or precision above {}", limit));
    return number;
  }

  void Field() {
    FieldSpec spec;
    ReadName();
    if (execution_.failed()) return;
    for (; Peek() != '\0' && std::string_view("#0- +").find(Peek()) != std::string_view::npos;
         ++at_) {
      if (Peek() == '#') spec.alternate = true;
      if (Peek() == '0') spec.zero = true;
      if (Peek() == '-') spec.align = '<';
      if (Peek() == '+' || (Peek() == ' ' && spec.sign == '\0')) spec.sign = Peek();
    }
    spec.width = ReadNumber(kMaxWidth);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (Peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(0, ReadNumber(kMaxPrecision));
    }
    while (Peek() == 'h' || Peek() == 'l' || Peek() == 'L') ++at_;
    spec.type = Peek();
    if (spec.type == '\0') return execution_.Fail("incomplete format");
    ++at_;
    if (spec.type == '%') return builder_.AppendUntrusted("%");
    Convert(NextArgument(), spec);
  }

  void Convert(const Value& value, FieldSpec spec) {
    if (execution_.failed()) return;
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c') {
      return ConvertText(value, spec);
    }
    if (value.is_undefined()) return execution_.Fail(value.undefined_message());
    Value number = value;
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    if (spec.type == 'd' && value.is(Kind::kFloat) && std::fabs(value.as_float()) < 9e18) {
      number = Value::Int(static_cast<int64_t>(value.as_float()));
    }
    const int64_t precision = spec.precision;
    const bool known = std::string_view("dxXoeEfFgG").find(spec.type) != std::string_view::npos;
    std::optional<FormattedNumber> text = known ? FormatNumber(number, spec) : std::nullopt;
    if (!text) {
      return execution_.Fail(
          fmt::format("%{} format does not take a {}", spec.type, TypeName(value)));
    }
    const bool is_integer = std::string_view("dxXo").find(spec.type) != std::string_view::npos;
    if (is_integer && precision > static_cast<int64_t>(text->digits.size())) {
      text->digits.insert(0, static_cast<size_t>(precision) - text->digits.size(), '0');
    }
    if (spec.align == '<') spec.zero = false;
    builder_.Append(PadNumber(execution_, *text, spec));
  }

  void ConvertText(const Value& value, const FieldSpec& spec) {
    StringBuilder text(execution_);
    if (spec.type == 'c') {
      AppendCharacter(value, &text);
    } else if (spec.type == 's') {
      if (format_.is_markup()) {
        AppendEscaped(Str(execution_, value), &text);
      } else {
        AppendStr(execution_, value, &text);
      }
    } else {
      AppendRepr(execution_, value, &text);
    }
    TrackedString done = text.Take();
    if (spec.precision >= 0) {
      done = Slice(execution_, done, 0, OffsetOf(done.bytes(), spec.precision));
    }
    builder_.Append(Pad(execution_, done, spec.width, TrackedString::Untrusted(" "),
                        spec.align == '<' ? '<' : '>'));
  }

  void AppendCharacter(const Value& value, StringBuilder* text) {
    if (value.is_string() && CountCharacters(value.bytes()) == 1)
      return text->Append(value.string());
    const bool is_code = value.is_integer() && value.as_int() >= 0 && value.as_int() < 0x110000 &&
                         (value.as_int() < 0xD800 || value.as_int() > 0xDFFF);
    if (!is_code) return execution_.Fail("%c requires int or char");
    std::string character;
    AppendUtf8(static_cast<int32_t>(value.as_int()), &character);
    text->AppendUntrusted(character);
  }

  Execution& execution_;
  const TrackedString& format_;
  const Value& value_;
  StringBuilder builder_;
  std::vector<Value> arguments_;
  size_t next_ = 0;
  size_t at_ = 0;
  std::optional<Value> named_;
  bool may_be_left_ = false;
};

}  // namespace

Value FormatPercent(Execution& execution, const TrackedString& format, const Value& value) {
  return PercentFormatter(execution, format, value).Run();
}

}  // namespace octavo::jinja
