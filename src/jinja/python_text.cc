#include "jinja/python_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

// A character of a repr that is not shown as it is; empty for the others.
std::string ReprEscape(int32_t code_point, char quote) {
  switch (code_point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  if (code_point == quote) return std::string("\\") + quote;
  if (IsPrintable(code_point)) return "";
  if (code_point < 0x100) return fmt::format("\\x{:02x}", code_point);
  if (code_point < 0x10000) return fmt::format("\\u{:04x}", code_point);
  return fmt::format("\\U{:08x}", code_point);
}

void AppendStringRepr(const TrackedString& text, StringBuilder* out) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  const std::string_view quote_text(&quote, 1);
  if (text.is_markup()) out->AppendUntrusted("Markup(");
  out->AppendUntrusted(quote_text);
  size_t plain = 0;  // where the part that is copied begins
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = at + CharacterBytes(bytes, at);
    const std::string escape = ReprEscape(CodePointAt(bytes, at), quote);
    if (!escape.empty()) {
      out->Append(text, plain, at);
      out->AppendUntrusted(escape);
      plain = end;
    }
    at = end;
  }
  out->Append(text, plain, bytes.size());
  out->AppendUntrusted(quote_text);
  if (text.is_markup()) out->AppendUntrusted(")");
}

void AppendItems(Execution& execution, const std::vector<Value>& items, StringBuilder* out) {
  for (size_t i = 0; i < items.size() && execution.Charge(1); ++i) {
    if (i > 0) out->AppendUntrusted(", ");
    AppendRepr(execution, items[i], out);
  }
}

void AppendSequenceRepr(Execution& execution, const Sequence& sequence, StringBuilder* out) {
  std::string_view open = "[", close = "]";
  switch (sequence.type) {
    case SequenceType::kList:
      break;
    case SequenceType::kTuple:
      open = "(";
      close = sequence.items.size() == 1 ? ",)" : ")";
      break;
    case SequenceType::kRange:
      out->AppendUntrusted(fmt::format("range({}, {}", sequence.start, sequence.stop));
      out->AppendUntrusted(sequence.step == 1 ? ")" : fmt::format(", {})", sequence.step));
      return;
    case SequenceType::kKeys:
      open = "dict_keys([";
      close = "])";
      break;
    case SequenceType::kValues:
      open = "dict_values([";
      close = "])";
      break;
    case SequenceType::kItems:
      open = "dict_items([";
      close = "])";
      break;
    case SequenceType::kGenerator:
      execution.Fail("a generator has no text; make it a list first");
      return;
  }
  out->AppendUntrusted(open);
  AppendItems(execution, sequence.items, out);
  out->AppendUntrusted(close);
}

void AppendDictRepr(Execution& execution, const Dict& dict, StringBuilder* out) {
  out->AppendUntrusted("{");
  for (size_t i = 0; i < dict.items.size() && execution.Charge(1); ++i) {
    if (i > 0) out->AppendUntrusted(", ");
    AppendRepr(execution, dict.items[i].first, out);
    out->AppendUntrusted(": ");
    AppendRepr(execution, dict.items[i].second, out);
  }
  out->AppendUntrusted("}");
}

}  // namespace

// Shortest digits that give the number back; an exponent from 1e16 on and below 1e-4.
std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[400];
  const double size = std::fabs(value);
  if (size != 0 && (size >= 1e16 || size < 1e-4)) {
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    return std::string(buffer, end.ptr);
  }
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

TrackedString Str(Execution& execution, const Value& value) {
  if (value.is_string()) return value.string();
  StringBuilder builder(execution);
  AppendStr(execution, value, &builder);
  return builder.Take();
}

void AppendStr(Execution& execution, const Value& value, StringBuilder* out) {
  if (value.is_string()) {
    out->Append(value.string());
  } else if (!value.is_undefined()) {
    AppendRepr(execution, value, out);
  }
}

void AppendRepr(Execution& execution, const Value& value, StringBuilder* out) {
  if (!execution.Charge(1)) return;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out->AppendUntrusted("Undefined");
    case Kind::kNone:
      return out->AppendUntrusted("None");
    case Kind::kBool:
      return out->AppendUntrusted(value.as_bool() ? "True" : "False");
    case Kind::kInt:
      return out->AppendUntrusted(std::to_string(value.as_int()));
    case Kind::kFloat:
      return out->AppendUntrusted(FloatRepr(value.as_float()));
    case Kind::kString:
      return AppendStringRepr(value.string(), out);
    case Kind::kSequence:
      return AppendSequenceRepr(execution, value.sequence(), out);
    case Kind::kDict:
      return AppendDictRepr(execution, value.dict(), out);
    default:
      execution.Fail(fmt::format("a {} has no text", TypeName(value)));
  }
}

void AppendEscaped(const TrackedString& text, StringBuilder* out) {
  if (text.is_markup()) return out->Append(text);
  const std::string_view bytes = text.bytes();
  size_t plain = 0;
  for (size_t at = bytes.find_first_of("&<>'\""); at != std::string_view::npos;
       at = bytes.find_first_of("&<>'\"", at + 1)) {
    out->Append(text, plain, at);
    const char c = bytes[at];
    out->AppendUntrusted(c == '&'   ? "&amp;"
                         : c == '<' ? "&lt;"
                         : c == '>' ? "&gt;"
                         : c == '"' ? "&#34;"
                                    : "&#39;");
    plain = at + 1;
  }
  out->Append(text, plain, bytes.size());
}

}  // namespace octavo::jinja
