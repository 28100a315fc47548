#include "jinja/brace_format.h"

#include <fmt/format.h>

#include <charconv>

#include "jinja/interpreter.h"
#include "jinja/number_format.h"
#include "jinja/python_text.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

std::optional<int64_t> ToIndex(std::string_view text) {
  int64_t index = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool good = !text.empty() && text[0] != '-' && parsed.ec == std::errc() &&
                    parsed.ptr == text.data() + text.size();
  return good ? std::optional<int64_t>(index) : std::nullopt;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const TrackedString& format, const Arguments& arguments)
      : interpreter_(interpreter),
        execution_(interpreter.execution()),
        format_(format),
        arguments_(arguments),
        builder_(execution_) {}

  Value Run() {
    const std::string_view bytes = format_.bytes();
    size_t plain = 0;
    for (size_t at = bytes.find_first_of("{}");
         at != std::string_view::npos && !execution_.failed();
         at = bytes.find_first_of("{}", plain)) {
      builder_.Append(format_, plain, at);
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {  // a doubled brace is one
        builder_.Append(format_, at, at + 1);
        plain = at + 2;
        continue;
      }
      const size_t close = bytes.find('}', at);
      if (bytes[at] == '}' || close == std::string_view::npos) {
        return Fail(execution_, "a single brace in a format string");
      }
      Field(bytes.substr(at + 1, close - at - 1));
      plain = close + 1;
    }
    builder_.Append(format_, plain, bytes.size());
    return Value::String(builder_.Take().WithMarkup(format_.is_markup()));
  }

 private:
  void Field(std::string_view field) {
    if (field.find('{') != std::string_view::npos) {
      return execution_.Fail("a field inside a format specification is not supported");
    }
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    const size_t bang = std::min(name.find('!'), name.size());
    const std::string_view conversion = name.substr(bang);
    Value value = Lookup(name.substr(0, bang));
    if (execution_.failed()) return;
    if (conversion == "!s") {
      value = Value::String(Str(execution_, value));
    } else if (conversion == "!r") {
      StringBuilder repr(execution_);
      AppendRepr(execution_, value, &repr);
      value = Value::String(repr.Take());
    } else if (!conversion.empty()) {
      return execution_.Fail("an unknown conversion in a format string");
    }
    AppendField(value, spec);
  }

  // "0.name[key]": an argument, then attributes and items.
  Value Lookup(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = Argument(name.substr(0, at));
    while (at < name.size() && !execution_.failed()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = interpreter_.GetAttribute(value, name.substr(at + 1, end - at - 1));
        at = end;
        continue;
      }
      const size_t close = name.find(']', at);
      if (name[at] != '[' || close == std::string_view::npos) {
        return Fail(execution_, "a wrong field name in a format string");
      }
      const std::string_view key = name.substr(at + 1, close - at - 1);
      const std::optional<int64_t> index = ToIndex(key);
      value = interpreter_.GetItem(value,
                                   index ? Value::Int(*index) : Value::Untrusted(std::string(key)));
      at = close + 1;
    }
    return value.is_undefined() ? FailUndefined(execution_, value) : value;
  }

  Value Argument(std::string_view name) {
    const std::optional<int64_t> given = ToIndex(name);
    if (name.empty() || given) {
      const auto index = static_cast<size_t>(given.value_or(next_));
      if (!given) ++next_;
      if (index < arguments_.positional.size()) return arguments_.positional[index];
      return Fail(execution_, "Replacement index out of range for positional args tuple");
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    return Fail(execution_, fmt::format("no argument '{}' to format", name));
  }

  void AppendField(const Value& value, std::string_view text) {
    if (text.empty()) {
      if (format_.is_markup()) return AppendEscaped(Str(execution_, value), &builder_);
      return AppendStr(execution_, value, &builder_);
    }
    FieldSpec spec;
    if (!ParseSpec(text, &spec)) return execution_.Fail("Invalid format specifier");
    if (value.is_string()) {
      if (spec.type != '\0' && spec.type != 's') return execution_.Fail("Invalid format specifier");
      TrackedString shown = value.string();
      if (spec.precision >= 0) {
        shown = Slice(execution_, shown, 0, OffsetOf(shown.bytes(), spec.precision));
      }
      builder_.Append(
          Pad(execution_, shown, spec.width, spec.fill, spec.align == '\0' ? '<' : spec.align));
      return;
    }
    const std::optional<FormattedNumber> number = FormatNumber(value, spec);
    if (!number) {
      return execution_.Fail(
          fmt::format("unsupported format '{}' for a {}", text, TypeName(value)));
    }
    builder_.Append(PadNumber(execution_, *number, spec));
  }

  // [[fill]align][sign][#][0][width][grouping][.precision][type]
  bool ParseSpec(std::string_view text, FieldSpec* spec) {
    constexpr std::string_view kAligns = "<>^=";
    const size_t first = CharacterBytes(text, 0);
    if (first < text.size() && kAligns.find(text[first]) != std::string_view::npos) {
      spec->fill = TrackedString::Untrusted(std::string(text.substr(0, first)));
      spec->align = text[first];
      text.remove_prefix(first + 1);
    } else if (kAligns.find(text[0]) != std::string_view::npos) {
      spec->align = text[0];
      text.remove_prefix(1);
    }
    const auto take = [&text](std::string_view any) {
      if (text.empty() || any.find(text[0]) == std::string_view::npos) return '\0';
      const char c = text[0];
      text.remove_prefix(1);
      return c;
    };
    spec->sign = take("+- ");
    if (spec->sign == '-') spec->sign = '\0';
    spec->alternate = take("#") != '\0';
    spec->zero = take("0") != '\0';
    if (!TakeNumber(&text, kMaxWidth, &spec->width)) return false;
    spec->separator = take(",_");
    if (take(".") != '\0') {
      spec->precision = 0;
      if (!TakeNumber(&text, kMaxPrecision, &spec->precision)) return false;
    }
    spec->type = take("sdxXobeEfFgG%");
    return text.empty();
  }

  static bool TakeNumber(std::string_view* text, int64_t limit, int64_t* number) {
    size_t size = 0;
    while (size < text->size() && (*text)[size] >= '0' && (*text)[size] <= '9') ++size;
    if (size == 0) return true;
    if (size > 9) return false;
    std::from_chars(text->data(), text->data() + size, *number);
    text->remove_prefix(size);
    return *number <= limit;
  }

  Interpreter& interpreter_;
  Execution& execution_;
  const TrackedString& format_;
  const Arguments& arguments_;
  StringBuilder builder_;
  int64_t next_ = 0;
};

}  // namespace

Value FormatBraces(Interpreter& interpreter, const TrackedString& format,
                   const Arguments& arguments) {
  return BraceFormatter(interpreter, format, arguments).Run();
}

}  // namespace octavo::jinja
