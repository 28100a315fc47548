#include <algorithm>

#include "jinja/brace_format.h"
#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/python_text.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

// An argument that may be None; null if it is.
class OptionalString {
 public:
  OptionalString(const BoundArguments& bound, size_t i) {
    if (bound.Has(i) && !bound.Get(i).is_none()) text_ = bound.GetString(i);
  }
  const TrackedString* get() const { return text_ ? &*text_ : nullptr; }

 private:
  std::optional<TrackedString> text_;
};

Value StripSides(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                 Sides sides) {
  const BoundArguments bound(interpreter.execution(), arguments, {"chars"});
  const OptionalString chars(bound, 0);
  return Value::String(Strip(interpreter.execution(), self.string(), chars.get(), sides));
}
Value StripBoth(Interpreter& i, const Value& self, const Arguments& a) {
  return StripSides(i, self, a, {});
}
Value StripLeft(Interpreter& i, const Value& self, const Arguments& a) {
  return StripSides(i, self, a, {.left = true, .right = false});
}
Value StripRight(Interpreter& i, const Value& self, const Arguments& a) {
  return StripSides(i, self, a, {.left = false, .right = true});
}

Value ListOf(Execution& execution, std::vector<TrackedString> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (TrackedString& part : parts) items.push_back(Value::String(std::move(part)));
  return MakeList(execution, std::move(items));
}

Value SplitWith(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                decltype(Split)* split) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"sep", "maxsplit"});
  const OptionalString separator(bound, 0);
  const int64_t max = bound.GetInt(1, -1);
  if (separator.get() != nullptr && separator.get()->empty()) {
    return Fail(execution, "empty separator");
  }
  if (execution.failed()) return Value();
  return ListOf(execution, split(execution, self.string(), separator.get(), max));
}
Value SplitMethod(Interpreter& i, const Value& self, const Arguments& a) {
  return SplitWith(i, self, a, Split);
}
Value RsplitMethod(Interpreter& i, const Value& self, const Arguments& a) {
  return SplitWith(i, self, a, SplitFromRight);
}

Value Splitlines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"keepends"});
  return ListOf(interpreter.execution(),
                SplitLines(interpreter.execution(), self.string(), bound.GetBool(0, false)));
}

Value PartitionAt(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                  bool from_right) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"sep"});
  bound.Need(0);
  const TrackedString separator = bound.GetString(0);
  if (separator.empty()) execution.Fail("empty separator");
  if (execution.failed()) return Value();
  const TrackedString& text = self.string();
  const size_t at =
      from_right ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  execution.ChargeBytes(text.size());
  const bool found = at != std::string_view::npos;
  TrackedString parts[3];
  if (found) {
    parts[0] = Slice(execution, text, 0, at);
    parts[1] = separator;
    parts[2] = Slice(execution, text, at + separator.size(), text.size());
  } else {
    parts[from_right ? 2 : 0] = text;
  }
  return MakeSequence(execution, SequenceType::kTuple,
                      {Value::String(parts[0]), Value::String(parts[1]), Value::String(parts[2])});
}
Value Partition(Interpreter& i, const Value& self, const Arguments& a) {
  return PartitionAt(i, self, a, false);
}
Value Rpartition(Interpreter& i, const Value& self, const Arguments& a) {
  return PartitionAt(i, self, a, true);
}

// The part of the text between the optional arguments start and end, and its offset in characters.
struct Window {
  std::string_view bytes;
  int64_t offset = 0;
  bool exists = true;
};
Window WindowOf(const BoundArguments& bound, std::string_view text) {
  const int64_t length = CountCharacters(text);
  const auto index = [&](size_t i, int64_t other) {
    if (!bound.Has(i) || bound.Get(i).is_none()) return other;
    const int64_t value = bound.GetInt(i, other);
    return value < 0 ? std::max<int64_t>(0, value + length) : value;
  };
  const int64_t start = index(1, 0);
  const int64_t end = std::min(index(2, length), length);
  if (start > end) return {{}, start, false};
  const size_t begin = OffsetOf(text, start);
  return {text.substr(begin, OffsetOf(text, end) - begin), start, true};
}

bool HasAffix(const Window& window, const Value& affix, bool at_end) {
  if (!window.exists) return false;
  return at_end ? window.bytes.ends_with(affix.bytes()) : window.bytes.starts_with(affix.bytes());
}

Value TestAffix(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                bool at_end) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"prefix", "start", "end"});
  const Value affix = bound.Need(0);
  const bool is_tuple = affix.is(Kind::kSequence) && affix.sequence().type == SequenceType::kTuple;
  execution.ChargeBytes(bound.Has(1) ? self.bytes().size() : 0);
  const Window window = WindowOf(bound, self.bytes());
  const std::vector<Value> affixes = is_tuple ? affix.sequence().items : std::vector{affix};
  for (const Value& each : affixes) {
    if (!each.is_string()) {
      return Fail(execution, std::string(at_end ? "endswith" : "startswith") +
                                 " first arg must be str or a tuple of str, not " +
                                 std::string(TypeName(each)));
    }
    if (execution.Charge(1) && HasAffix(window, each, at_end)) return Value::Bool(true);
  }
  return Value::Bool(false);
}
Value StartsWith(Interpreter& i, const Value& self, const Arguments& a) {
  return TestAffix(i, self, a, false);
}
Value EndsWith(Interpreter& i, const Value& self, const Arguments& a) {
  return TestAffix(i, self, a, true);
}

// The index of a substring in characters, or -1.
int64_t FindIn(Interpreter& interpreter, const Value& self, const Arguments& arguments,
               bool from_right) {
  const BoundArguments bound(interpreter.execution(), arguments, {"sub", "start", "end"});
  bound.Need(0);
  const TrackedString wanted = bound.GetString(0);
  const Window window = WindowOf(bound, self.bytes());
  interpreter.execution().ChargeBytes(self.bytes().size());
  const size_t at =
      from_right ? window.bytes.rfind(wanted.bytes()) : window.bytes.find(wanted.bytes());
  if (!window.exists || at == std::string_view::npos) return -1;
  return window.offset + CountCharacters(window.bytes.substr(0, at));
}
Value Find(Interpreter& i, const Value& self, const Arguments& a) {
  return Value::Int(FindIn(i, self, a, false));
}
Value Rfind(Interpreter& i, const Value& self, const Arguments& a) {
  return Value::Int(FindIn(i, self, a, true));
}
Value IndexOf(Interpreter& interpreter, const Value& self, const Arguments& arguments,
              bool from_right) {
  const int64_t index = FindIn(interpreter, self, arguments, from_right);
  return index >= 0 ? Value::Int(index) : Fail(interpreter.execution(), "substring not found");
}
Value Index(Interpreter& i, const Value& self, const Arguments& a) {
  return IndexOf(i, self, a, false);
}
Value Rindex(Interpreter& i, const Value& self, const Arguments& a) {
  return IndexOf(i, self, a, true);
}

Value Count(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"sub", "start", "end"});
  bound.Need(0);
  const TrackedString wanted = bound.GetString(0);
  const Window window = WindowOf(bound, self.bytes());
  interpreter.execution().ChargeBytes(self.bytes().size());
  if (!window.exists) return Value::Int(0);
  if (wanted.empty()) return Value::Int(CountCharacters(window.bytes) + 1);
  int64_t count = 0;
  for (size_t at = window.bytes.find(wanted.bytes()); at != std::string_view::npos;
       at = window.bytes.find(wanted.bytes(), at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

TrackedString EscapedFor(Execution& execution, const TrackedString& self,
                         const TrackedString& text) {
  if (!self.is_markup()) return text;
  StringBuilder builder(execution);
  AppendEscaped(text, &builder);
  return builder.Take();
}

Value ReplaceMethod(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"old", "new", "count"});
  bound.Need(0);
  bound.Need(1);
  const TrackedString old = EscapedFor(execution, self.string(), bound.GetString(0));
  const TrackedString replacement = EscapedFor(execution, self.string(), bound.GetString(1));
  const int64_t count = bound.GetInt(2, -1);
  if (execution.failed()) return Value();
  return Value::String(Replace(execution, self.string(), old, replacement, count));
}

Value RemoveAffix(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                  bool at_end) {
  const BoundArguments bound(interpreter.execution(), arguments, {"affix"});
  bound.Need(0);
  const TrackedString affix = bound.GetString(0);
  const std::string_view bytes = self.bytes();
  const bool has = at_end ? bytes.ends_with(affix.bytes()) : bytes.starts_with(affix.bytes());
  if (!has) return self;
  return Value::String(Slice(interpreter.execution(), self.string(), at_end ? 0 : affix.size(),
                             at_end ? bytes.size() - affix.size() : bytes.size()));
}
Value RemovePrefix(Interpreter& i, const Value& self, const Arguments& a) {
  return RemoveAffix(i, self, a, false);
}
Value RemoveSuffix(Interpreter& i, const Value& self, const Arguments& a) {
  return RemoveAffix(i, self, a, true);
}

Value JoinMethod(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"iterable"});
  const std::vector<Value> items = Elements(interpreter.execution(), bound.Need(0));
  return Value::String(Join(interpreter.execution(), self.string(), items));
}

Value FormatMethod(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return FormatBraces(interpreter, self.string(), arguments);
}

}  // namespace

std::vector<NamedFunction<Method>> StringMethods() {
  return {{"count", Count},
          {"endswith", EndsWith},
          {"find", Find},
          {"format", FormatMethod},
          {"index", Index},
          {"join", JoinMethod},
          {"lstrip", StripLeft},
          {"partition", Partition},
          {"removeprefix", RemovePrefix},
          {"removesuffix", RemoveSuffix},
          {"replace", ReplaceMethod},
          {"rfind", Rfind},
          {"rindex", Rindex},
          {"rpartition", Rpartition},
          {"rsplit", RsplitMethod},
          {"rstrip", StripRight},
          {"split", SplitMethod},
          {"splitlines", Splitlines},
          {"startswith", StartsWith},
          {"strip", StripBoth}};
}

}  // namespace octavo::jinja
