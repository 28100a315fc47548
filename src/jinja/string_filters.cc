#include <algorithm>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

template <TrackedString (*kMap)(Execution&, const TrackedString&)>
Value MappedFilter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  return Value::String(kMap(interpreter.execution(), Str(interpreter.execution(), input)));
}

// Words begin behind white space, - ( { [ and <.
TrackedString TitleWords(Execution& execution, const TrackedString& text) {
  constexpr std::string_view kBeginnings = "-({[<";
  StringBuilder builder(execution);
  bool at_beginning = true;
  for (size_t begin = 0; begin < text.size() && !execution.failed();) {
    const size_t end = begin + CharacterBytes(text.bytes(), begin);
    const int32_t code_point = CodePointAt(text.bytes(), begin);
    builder.AppendAs(at_beginning ? Upper(code_point) : Lower(code_point), text, begin, end);
    at_beginning = IsSpace(code_point) ||
                   (code_point < 0x80 &&
                    kBeginnings.find(static_cast<char>(code_point)) != std::string_view::npos);
    begin = end;
  }
  return builder.Take().WithMarkup(text.is_markup());
}

Value Trim(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"chars"});
  const bool has_chars = bound.Has(0) && !bound.Get(0).is_none();
  const TrackedString chars = has_chars ? bound.GetString(0) : TrackedString();
  return Value::String(
      Strip(execution, Str(execution, input), has_chars ? &chars : nullptr, Sides{}));
}

Value ReplaceFilter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"old", "new", "count"});
  const TrackedString old = Str(execution, bound.Need(0));
  const TrackedString replacement = Str(execution, bound.Need(1));
  const bool has_count = bound.Has(2) && !bound.Get(2).is_none();
  const int64_t count = has_count ? bound.GetInt(2, -1) : -1;
  const TrackedString text = Str(execution, input).WithMarkup(false);
  return Value::String(Replace(execution, text, old, replacement, count));
}

Value Indent(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"width", "first", "blank"});
  if (input.is_undefined()) return FailUndefined(execution, input);
  if (!input.is_string()) return Fail(execution, "indent needs a string");
  const bool has_text = bound.Has(0) && bound.Get(0).is_string();
  const int64_t width = has_text ? 0 : std::min<int64_t>(bound.GetInt(0, 4), 1 << 20);
  if (execution.failed()) return Value();
  TrackedString indention = has_text ? bound.GetString(0)
                                     : TrackedString::Untrusted(std::string(
                                           static_cast<size_t>(std::max<int64_t>(0, width)), ' '));
  const TrackedString& text = input.string();
  StringBuilder builder(execution);
  builder.Append(text);
  builder.AppendUntrusted("\n");
  const std::vector<TrackedString> lines = SplitLines(execution, builder.Take(), false);
  const bool blank = bound.GetBool(2, false);
  if (bound.GetBool(1, false)) builder.Append(indention);
  for (size_t i = 0; i < lines.size() && !execution.failed(); ++i) {
    if (i > 0) builder.AppendUntrusted("\n");
    if (i > 0 && (blank || !lines[i].empty())) builder.Append(indention);
    builder.Append(lines[i]);
  }
  return Value::String(builder.Take().WithMarkup(text.is_markup()));
}

Value CenterFilter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"width"});
  return Value::String(Pad(execution, Str(execution, input), bound.GetInt(0, 80),
                           TrackedString::Untrusted(" "), 'c'));
}

Value Truncate(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.GetInt(0, 255);
  const TrackedString end = bound.GetString(2, "...");
  const bool has_leeway = bound.Has(3) && !bound.Get(3).is_none();
  const int64_t leeway = has_leeway ? bound.GetInt(3, 5) : 5;
  const int64_t kept = length - CountCharacters(end.bytes());
  if (kept < 0 || leeway < 0) return Fail(execution, "truncate: the length is too small");
  if (!input.is_string()) return Fail(execution, "truncate needs a string");
  const TrackedString& text = input.string();
  if (!execution.ChargeBytes(text.size())) return Value();
  const int64_t size = CountCharacters(text.bytes());
  if (size <= leeway || size - leeway <= length) return input;
  size_t cut = OffsetOf(text.bytes(), kept);
  if (!bound.GetBool(1, false)) {
    const size_t space = text.bytes().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  return ApplyBinary(execution, Op::kAdd, Value::String(Slice(execution, text, 0, cut)),
                     Value::String(end));
}

Value WordCount(Interpreter& interpreter, const Value& input, const Arguments&) {
  const TrackedString text = Str(interpreter.execution(), input);
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size(); at += CharacterBytes(text.bytes(), at)) {
    if (!interpreter.execution().Charge(1)) break;
    const int32_t code_point = CodePointAt(text.bytes(), at);
    const bool is_word = code_point == '_' || IsAlpha(code_point) || IsDecimal(code_point);
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value::Int(count);
}

Value Escape(Interpreter& interpreter, const Value& input, const Arguments&) {
  StringBuilder builder(interpreter.execution());
  AppendEscaped(Str(interpreter.execution(), input), &builder);
  return Value::String(builder.Take().WithMarkup(true));
}

Value ForceEscape(Interpreter& interpreter, const Value& input, const Arguments&) {
  StringBuilder builder(interpreter.execution());
  AppendEscaped(Str(interpreter.execution(), input).WithMarkup(false), &builder);
  return Value::String(builder.Take().WithMarkup(true));
}

Value Safe(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::String(Str(interpreter.execution(), input).WithMarkup(true));
}

Value ToString(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::String(Str(interpreter.execution(), input));
}

Value Format(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return Fail(execution, "can't handle positional and keyword arguments at the same time");
  }
  Value values;
  if (arguments.named.empty()) {
    values = MakeSequence(execution, SequenceType::kTuple, arguments.positional);
  } else {
    DictBuilder dict(execution);
    for (const auto& [name, value] : arguments.named) dict.Set(Value::Untrusted(name), value);
    values = dict.Take();
  }
  return FormatPercent(execution, Str(execution, input), values);
}

}  // namespace

std::vector<NamedFunction<Filter>> StringFilters() {
  return {{"capitalize", MappedFilter<Capitalize>},
          {"center", CenterFilter},
          {"e", Escape},
          {"escape", Escape},
          {"forceescape", ForceEscape},
          {"format", Format},
          {"indent", Indent},
          {"lower", MappedFilter<ToLower>},
          {"replace", ReplaceFilter},
          {"safe", Safe},
          {"string", ToString},
          {"title", MappedFilter<TitleWords>},
          {"trim", Trim},
          {"truncate", Truncate},
          {"upper", MappedFilter<ToUpper>},
          {"wordcount", WordCount}};
}

}  // namespace octavo::jinja
