#include <algorithm>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

template <TrackedString (*kMap)(Execution&, const TrackedString&)>
Value Mapped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  return Value::String(kMap(interpreter.execution(), self.string()));
}

// True if the text is not empty and every character passes.
template <typename Passes>
bool All(Execution& execution, std::string_view text, Passes passes) {
  for (size_t at = 0; at < text.size(); at += CharacterBytes(text, at)) {
    if (!execution.Charge(1) || !passes(CodePointAt(text, at))) return false;
  }
  return !text.empty();
}

bool IsDecimalCharacter(int32_t code_point) { return IsDecimal(code_point); }
bool IsDigitCharacter(int32_t code_point) {
  constexpr int32_t kSuperscripts[] = {0xB2, 0xB3, 0xB9, 0x2070};
  return IsDecimal(code_point) || (code_point >= 0x2074 && code_point <= 0x2079) ||
         (code_point >= 0x2080 && code_point <= 0x2089) ||
         std::find(std::begin(kSuperscripts), std::end(kSuperscripts), code_point) !=
             std::end(kSuperscripts);
}
bool IsAlnumCharacter(int32_t code_point) {
  return IsAlpha(code_point) || IsDigitCharacter(code_point);
}

template <bool (*kPasses)(int32_t)>
Value AllAre(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  return Value::Bool(All(interpreter.execution(), self.bytes(), kPasses));
}

// No character of the other case, and at least one of this.
template <bool (*kIs)(int32_t), bool (*kIsOther)(int32_t)>
Value HasCase(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  bool any = false;
  const bool none_other = All(interpreter.execution(), self.bytes(), [&any](int32_t code_point) {
    any = any || kIs(code_point);
    return !kIsOther(code_point);
  });
  return Value::Bool(any && none_other);
}

Value IsTitle(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  bool after_cased = false, any = false;
  const bool good = All(interpreter.execution(), self.bytes(), [&](int32_t code_point) {
    const bool upper = IsUpper(code_point), lower = IsLower(code_point);
    const bool fits = !(upper && after_cased) && !(lower && !after_cased);
    after_cased = upper || lower;
    any = any || after_cased;
    return fits;
  });
  return Value::Bool(good && any);
}

Value Padded(Interpreter& interpreter, const Value& self, const Arguments& arguments, char align) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"width", "fillchar"});
  bound.Need(0);
  const int64_t width = bound.GetInt(0, 0);
  const TrackedString fill = bound.GetString(1, " ");
  if (CountCharacters(fill.bytes()) != 1) {
    return Fail(execution, "The fill character must be exactly one character long");
  }
  return Value::String(Pad(execution, self.string(), width, fill, align));
}
Value Ljust(Interpreter& i, const Value& self, const Arguments& a) {
  return Padded(i, self, a, '<');
}
Value Rjust(Interpreter& i, const Value& self, const Arguments& a) {
  return Padded(i, self, a, '>');
}
Value Center(Interpreter& i, const Value& self, const Arguments& a) {
  return Padded(i, self, a, 'c');
}

Value Zfill(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"width"});
  bound.Need(0);
  const int64_t width = bound.GetInt(0, 0);
  const TrackedString& text = self.string();
  const bool has_sign = text.bytes().starts_with('-') || text.bytes().starts_with('+');
  const size_t sign = has_sign ? 1 : 0;
  const TrackedString digits = Slice(execution, text, sign, text.size());
  StringBuilder builder(execution);
  builder.Append(text, 0, sign);
  builder.Append(Pad(execution, digits, width - static_cast<int64_t>(sign),
                     TrackedString::Untrusted("0"), '>'));
  return Value::String(builder.Take().WithMarkup(text.is_markup()));
}

}  // namespace

std::vector<NamedFunction<Method>> StringCaseMethods() {
  return {{"capitalize", Mapped<Capitalize>},
          {"center", Center},
          {"isalnum", AllAre<IsAlnumCharacter>},
          {"isalpha", AllAre<IsAlpha>},
          {"isdecimal", AllAre<IsDecimalCharacter>},
          {"isdigit", AllAre<IsDigitCharacter>},
          {"islower", HasCase<IsLower, IsUpper>},
          {"isspace", AllAre<IsSpace>},
          {"istitle", IsTitle},
          {"isupper", HasCase<IsUpper, IsLower>},
          {"ljust", Ljust},
          {"lower", Mapped<ToLower>},
          {"rjust", Rjust},
          {"swapcase", Mapped<SwapCase>},
          {"title", Mapped<TitleCase>},
          {"upper", Mapped<ToUpper>},
          {"zfill", Zfill}};
}

}  // namespace octavo::jinja
