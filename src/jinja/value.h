#pragma once

// Purpose:    the values of a template: Python's, as far as templates meet them.
// Ownership:  values share their contents, which are immutable except for namespaces; the
//             interpreter breaks the cycles that those can make (Interpreter::~Interpreter).
// Threading:  one thread.
// Invariants: lists, objects and bound methods nest at most kMaxValueDepth deep, so that walking
//             and destroying them is bounded in stack. A dict keeps the order of insertion.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/tracked_string.h"

namespace octavo::jinja {

class Interpreter;
class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kCallable,
  kLoop,
};

struct NoneType {};
struct UndefinedInfo {
  std::string message;  // what is said when it is used
};

class Value {
 public:
  Value() : data_(std::shared_ptr<const UndefinedInfo>()) {}
  static Value Undefined(std::string message) {
    Value value;
    value.data_ = std::make_shared<const UndefinedInfo>(UndefinedInfo{std::move(message)});
    return value;
  }
  static Value None() { return Value(Data(NoneType{})); }
  static Value Bool(bool value) { return Value(Data(value)); }
  static Value Int(int64_t value) { return Value(Data(value)); }
  static Value Float(double value) { return Value(Data(value)); }
  static Value String(TrackedString value) { return Value(Data(std::move(value))); }
  static Value Untrusted(std::string bytes) {
    return String(TrackedString::Untrusted(std::move(bytes)));
  }
  static Value Of(std::shared_ptr<const Sequence> value) { return Value(Data(std::move(value))); }
  static Value Of(std::shared_ptr<const Dict> value) { return Value(Data(std::move(value))); }
  static Value Of(std::shared_ptr<Namespace> value) { return Value(Data(std::move(value))); }
  static Value Of(std::shared_ptr<const Callable> value) { return Value(Data(std::move(value))); }
  static Value Of(std::shared_ptr<Loop> value) { return Value(Data(std::move(value))); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind_asked) const { return kind() == kind_asked; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  bool is_integer() const { return is(Kind::kBool) || is(Kind::kInt); }  // Python's int

  // Each REQUIRES that kind.
  const std::string& undefined_message() const;
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const {  // kInt or kBool
    return is(Kind::kBool) ? (as_bool() ? 1 : 0) : std::get<int64_t>(data_);
  }
  double as_float() const {  // any number
    return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const TrackedString& string() const { return std::get<TrackedString>(data_); }
  std::string_view bytes() const { return string().bytes(); }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace& ns() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  const std::shared_ptr<Loop>& loop() const { return std::get<std::shared_ptr<Loop>>(data_); }

  int32_t depth() const;
  // The same object: for `is sameas`.
  bool SameAs(const Value& other) const;

 private:
  using Data = std::variant<std::shared_ptr<const UndefinedInfo>, NoneType, bool, int64_t, double,
                            TrackedString, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Callable>, std::shared_ptr<Loop>>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

enum class SequenceType : uint8_t {
  kList,
  kTuple,
  kRange,
  kKeys,  // a dict's views
  kValues,
  kItems,
  kGenerator,  // may be walked once
};

struct Sequence {
  SequenceType type = SequenceType::kList;
  std::vector<Value> items;
  int32_t depth = 1;
  int64_t start = 0, stop = 0, step = 1;  // kRange
  mutable bool consumed = false;          // kGenerator
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int32_t depth = 1;
  std::unordered_map<std::string, size_t> index;  // by KeyOf; filled from kIndexedFrom items on

  static constexpr size_t kIndexedFrom = 9;
  const Value* Find(Execution& execution, const Value& key) const;
  const Value* Find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using NativeFunction = std::function<Value(Interpreter&, const Arguments&)>;

struct Callable {
  std::string name;
  NativeFunction call;
  bool is_macro = false;
  int32_t depth = 1;
};

struct Loop {
  std::vector<Value> items;
  size_t index = 0;
  int32_t depth0 = 0;                 // of recursive loops
  std::optional<Value> last_changed;  // loop.changed(...)
  NativeFunction recurse;             // empty unless the loop is recursive
};

// Fails if the result would nest too deep.
Value MakeSequence(Execution& execution, SequenceType type, std::vector<Value> items);
inline Value MakeList(Execution& execution, std::vector<Value> items) {
  return MakeSequence(execution, SequenceType::kList, std::move(items));
}
inline Value MakeGenerator(Execution& execution, std::vector<Value> items) {
  return MakeSequence(execution, SequenceType::kGenerator, std::move(items));
}
Value MakeTuple(Execution& execution, Value first, Value second);

class DictBuilder {
 public:
  explicit DictBuilder(Execution& execution) : execution_(&execution) {}
  // A key that is there keeps its place and gets the new value. Fails for an unhashable key.
  void Set(Value key, Value value);
  Value Take();

 private:
  Execution* execution_;
  std::shared_ptr<Dict> dict_ = std::make_shared<Dict>();
};

// Equal keys have equal texts; nothing for an unhashable value.
std::optional<std::string> KeyOf(Execution& execution, const Value& value);

// Python's name for the type, as error messages show it.
std::string_view TypeName(const Value& value);

bool Truthy(const Value& value);
bool Equal(Execution& execution, const Value& a, const Value& b);
// -1, 0, 1; fails for values that have no order. `op` is for the message.
int Compare(Execution& execution, const Value& a, const Value& b, std::string_view op);

// The elements of what Python can iterate: fails for the rest. A generator is used up.
std::vector<Value> Elements(Execution& execution, const Value& value);
// len(); nothing for what has none.
std::optional<int64_t> Length(const Value& value);

// Records the error and gives a value to go on with.
Value Fail(Execution& execution, std::string_view message);
Value FailUndefined(Execution& execution, const Value& value);

}  // namespace octavo::jinja
