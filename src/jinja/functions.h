#pragma once

// Purpose:    the filters, tests, methods and global functions of templates, by name, and how their
//             arguments are read.
// Ownership:  the tables are constants.
// Threading:  any thread may look up; a call belongs to its rendering.
// Invariants: every function is total: it gives a value, or fails the Execution and gives any.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace octavo::jinja {

using Filter = Value (*)(Interpreter&, const Value& input, const Arguments&);
using Test = bool (*)(Interpreter&, const Value& input, const Arguments&);
using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);
using Global = Value (*)(Interpreter&, const Arguments&);

// Null for an unknown name.
Filter FindFilter(std::string_view name);
Test FindTest(std::string_view name);
Global FindGlobal(std::string_view name);
// kMissing: Python's type has no such attribute either. kUnsafe: the sandbox hides it.
// kUnsupported: Python has it, this engine does not.
enum class MethodFound : uint8_t { kFound, kMissing, kUnsafe, kUnsupported };
MethodFound FindMethod(const Value& self, std::string_view name, Method* method);

template <typename Function>
struct NamedFunction {
  std::string_view name;
  Function function;
};
// The parts of the tables above, each sorted in its own file.
std::vector<NamedFunction<Filter>> StringFilters();
std::vector<NamedFunction<Filter>> SequenceFilters();
std::vector<NamedFunction<Filter>> ValueFilters();
std::vector<NamedFunction<Method>> StringMethods();
std::vector<NamedFunction<Method>> StringCaseMethods();

// A call's arguments under the names of its parameters. Fails for one too many, or one given twice.
class BoundArguments {
 public:
  BoundArguments(Execution& execution, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters);

  bool Has(size_t i) const { return values_[i].has_value(); }
  // The argument, or undefined.
  Value Get(size_t i) const { return values_[i].value_or(Value()); }
  Value GetOr(size_t i, Value other) const { return values_[i].value_or(std::move(other)); }
  bool GetBool(size_t i, bool other) const { return Has(i) ? Truthy(*values_[i]) : other; }
  // Fails for a value of another type.
  int64_t GetInt(size_t i, int64_t other) const;
  TrackedString GetString(size_t i, std::string_view other = "") const;
  // The argument, which must be there.
  Value Need(size_t i) const;

 private:
  Execution& execution_;
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

// The attribute getter of map, join, sort and others: "a.b.0" steps by item. An undefined step
// becomes `other` if that is given.
Value GetPath(Interpreter& interpreter, Value item, const Value& path,
              const std::optional<Value>& other = std::nullopt);
// Strings in lower case, for comparisons without case.
Value IgnoreCase(Execution& execution, const Value& value);

}  // namespace octavo::jinja
