#include "jinja/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "jinja/interpreter.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

template <typename Function>
class FunctionTable {
 public:
  explicit FunctionTable(std::initializer_list<std::vector<NamedFunction<Function>>> parts) {
    for (const auto& part : parts) all_.insert(all_.end(), part.begin(), part.end());
    std::sort(all_.begin(), all_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  Function Find(std::string_view name) const {
    const auto found = std::lower_bound(
        all_.begin(), all_.end(), name,
        [](const auto& entry, std::string_view wanted) { return entry.name < wanted; });
    return found != all_.end() && found->name == name ? found->function : nullptr;
  }

 private:
  std::vector<NamedFunction<Function>> all_;
};

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Attributes that Python's types have beside the methods served here.
bool PythonHas(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString:
      return IsOneOf(name,
                     {"casefold", "encode", "expandtabs", "format_map", "isidentifier", "maketrans",
                      "translate", "isascii", "isnumeric", "isprintable", "striptags", "unescape"});
    case Kind::kDict:
      return IsOneOf(name, {"fromkeys"});
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return IsOneOf(
          name, {"real", "imag", "conjugate", "numerator", "denominator", "bit_length", "bit_count",
                 "to_bytes", "from_bytes", "as_integer_ratio", "hex", "fromhex", "is_integer"});
    case Kind::kSequence:
      return IsOneOf(name,
                     {"start", "stop", "step", "isdisjoint", "mapping", "send", "throw", "close"});
    default:
      return false;
  }
}

// What the sandbox hides: it would change a value, or reach into Python.
bool IsUnsafe(const Value& self, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return true;
  if (self.is(Kind::kDict)) {
    return IsOneOf(name, {"clear", "pop", "popitem", "setdefault", "update"});
  }
  return self.is(Kind::kSequence) && self.sequence().type == SequenceType::kList &&
         IsOneOf(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
}

Value DictGet(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"key", "default"});
  const Value key = bound.Need(0);
  if (!KeyOf(interpreter.execution(), key)) {
    return Fail(interpreter.execution(), "unhashable type as a key");
  }
  const Value* value = self.dict().Find(interpreter.execution(), key);
  return value != nullptr ? *value : bound.GetOr(1, Value::None());
}

Value DictView(Interpreter& interpreter, const Value& self, SequenceType type) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().items) {
    if (!interpreter.execution().Charge(1)) break;
    items.push_back(type == SequenceType::kKeys ? key
                    : type == SequenceType::kValues
                        ? value
                        : MakeTuple(interpreter.execution(), key, value));
  }
  return MakeSequence(interpreter.execution(), type, std::move(items));
}
Value DictKeys(Interpreter& interpreter, const Value& self, const Arguments&) {
  return DictView(interpreter, self, SequenceType::kKeys);
}
Value DictValues(Interpreter& interpreter, const Value& self, const Arguments&) {
  return DictView(interpreter, self, SequenceType::kValues);
}
Value DictItems(Interpreter& interpreter, const Value& self, const Arguments&) {
  return DictView(interpreter, self, SequenceType::kItems);
}

Value Copy(Interpreter&, const Value& self, const Arguments&) { return self; }

Value ListCount(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value wanted = BoundArguments(interpreter.execution(), arguments, {"value"}).Need(0);
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    if (!interpreter.execution().Charge(1)) break;
    count += Equal(interpreter.execution(), item, wanted) ? 1 : 0;
  }
  return Value::Int(count);
}

Value ListIndex(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value wanted = BoundArguments(interpreter.execution(), arguments, {"value"}).Need(0);
  const std::vector<Value>& items = self.sequence().items;
  for (size_t i = 0; i < items.size() && interpreter.execution().Charge(1); ++i) {
    if (Equal(interpreter.execution(), items[i], wanted)) {
      return Value::Int(static_cast<int64_t>(i));
    }
  }
  return Fail(interpreter.execution(), "the value is not in the list");
}

const FunctionTable<Method>& MethodsOfStrings() {
  static const FunctionTable<Method> kTable({StringMethods(), StringCaseMethods()});
  return kTable;
}
const FunctionTable<Method>& MethodsOfDicts() {
  static const FunctionTable<Method> kTable({{{"copy", Copy},
                                              {"get", DictGet},
                                              {"items", DictItems},
                                              {"keys", DictKeys},
                                              {"values", DictValues}}});
  return kTable;
}
const FunctionTable<Method>& MethodsOfSequences() {
  static const FunctionTable<Method> kTable(
      {{{"copy", Copy}, {"count", ListCount}, {"index", ListIndex}}});
  return kTable;
}

Method MethodOf(const Value& self, std::string_view name) {
  if (self.is_string()) return MethodsOfStrings().Find(name);
  if (self.is(Kind::kDict)) return MethodsOfDicts().Find(name);
  if (!self.is(Kind::kSequence) || self.sequence().type > SequenceType::kRange) return nullptr;
  if (name == "copy" && self.sequence().type != SequenceType::kList) return nullptr;
  return MethodsOfSequences().Find(name);
}

}  // namespace

Filter FindFilter(std::string_view name) {
  static const FunctionTable<Filter> kTable({StringFilters(), SequenceFilters(), ValueFilters()});
  return kTable.Find(name);
}

MethodFound FindMethod(const Value& self, std::string_view name, Method* method) {
  *method = MethodOf(self, name);
  if (*method != nullptr) return MethodFound::kFound;
  if (IsUnsafe(self, name)) return MethodFound::kUnsafe;
  return PythonHas(self, name) ? MethodFound::kUnsupported : MethodFound::kMissing;
}

BoundArguments::BoundArguments(Execution& execution, const Arguments& arguments,
                               std::initializer_list<std::string_view> parameters)
    : execution_(execution), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > values_.size()) {
    execution_.Fail(
        fmt::format("at most {} arguments, got {}", values_.size(), arguments.positional.size()));
  }
  for (size_t i = 0; i < std::min(values_.size(), arguments.positional.size()); ++i) {
    values_[i] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    const auto i = static_cast<size_t>(found - parameters_.begin());
    if (found == parameters_.end() || values_[i]) {
      execution_.Fail(fmt::format("unexpected keyword argument '{}'", name));
      return;
    }
    values_[i] = value;
  }
}

int64_t BoundArguments::GetInt(size_t i, int64_t other) const {
  if (!Has(i)) return other;
  if (values_[i]->is_integer()) return values_[i]->as_int();
  execution_.Fail(
      fmt::format("'{}' must be an integer, not {}", parameters_[i], TypeName(*values_[i])));
  return other;
}

TrackedString BoundArguments::GetString(size_t i, std::string_view other) const {
  if (!Has(i)) return TrackedString::Untrusted(std::string(other));
  if (values_[i]->is_string()) return values_[i]->string();
  execution_.Fail(
      fmt::format("'{}' must be a string, not {}", parameters_[i], TypeName(*values_[i])));
  return TrackedString();
}

Value BoundArguments::Need(size_t i) const {
  if (!Has(i)) execution_.Fail(fmt::format("the argument '{}' is missing", parameters_[i]));
  return Get(i);
}

Value GetPath(Interpreter& interpreter, Value item, const Value& path,
              const std::optional<Value>& other) {
  if (!path.is_string()) return interpreter.GetItem(item, path);
  const std::string_view text = path.bytes();
  for (size_t begin = 0; begin <= text.size() && !interpreter.execution().failed();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && parsed.ec == std::errc() &&
                          parsed.ptr == part.data() + part.size() && part[0] != '-';
    item = interpreter.GetItem(item,
                               is_index ? Value::Int(index) : Value::Untrusted(std::string(part)));
    if (other && item.is_undefined()) item = *other;
    begin = end + 1;
  }
  return item;
}

Value IgnoreCase(Execution& execution, const Value& value) {
  if (!value.is_string()) return value;
  if (!execution.ChargeBytes(value.bytes().size() * 4)) return Value();
  std::string text;
  for (size_t at = 0; at < value.bytes().size(); at += CharacterBytes(value.bytes(), at)) {
    text += Lower(CodePointAt(value.bytes(), at));
  }
  return Value::Untrusted(std::move(text));
}

}  // namespace octavo::jinja
