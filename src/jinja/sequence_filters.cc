#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"
#include "jinja/selection_filters.h"
#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

Value LengthFilter(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is_string() && !interpreter.execution().ChargeBytes(input.bytes().size())) {
    return Value();
  }
  const std::optional<int64_t> length = Length(input);
  if (length) return Value::Int(*length);
  return Fail(interpreter.execution(),
              fmt::format("object of type '{}' has no len()", TypeName(input)));
}

Value First(Interpreter& interpreter, const Value& input, const Arguments&) {
  const std::vector<Value> items = Elements(interpreter.execution(), input);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.") : items.front();
}

bool IsGenerator(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence().type == SequenceType::kGenerator;
}

Value Last(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (IsGenerator(input)) return Fail(interpreter.execution(), "a generator is not reversible");
  if (input.is_undefined()) return FailUndefined(interpreter.execution(), input);
  const std::vector<Value> items = Elements(interpreter.execution(), input);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value JoinFilter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"d", "attribute"});
  const TrackedString separator = Str(execution, bound.GetOr(0, Value::String(TrackedString())));
  const bool has_attribute = bound.Has(1) && !bound.Get(1).is_none();
  std::vector<Value> items = Elements(execution, input);
  for (Value& item : items) {
    if (has_attribute) item = GetPath(interpreter, item, bound.Get(1));
    item = Value::String(Str(execution, item));
    if (!execution.Charge(1)) return Value();
  }
  return Value::String(Join(execution, separator.WithMarkup(false), items));
}

Value ToList(Interpreter& interpreter, const Value& input, const Arguments&) {
  return MakeList(interpreter.execution(), Elements(interpreter.execution(), input));
}

Value Reverse(Interpreter& interpreter, const Value& input, const Arguments&) {
  Execution& execution = interpreter.execution();
  if (input.is_string()) {
    return ApplySlice(execution, input, Value(), Value(), Value::Int(-1));
  }
  std::vector<Value> items = Elements(execution, input);
  std::reverse(items.begin(), items.end());
  return IsGenerator(input) || input.is_undefined() ? MakeList(execution, std::move(items))
                                                    : MakeGenerator(execution, std::move(items));
}

Value Items(Interpreter& interpreter, const Value& input, const Arguments&) {
  Execution& execution = interpreter.execution();
  std::vector<Value> items;
  if (!input.is_undefined() && !input.is(Kind::kDict)) {
    return Fail(execution, "Can only get item pairs from a mapping.");
  }
  if (input.is(Kind::kDict)) {
    for (const auto& [key, value] : input.dict().items) {
      items.push_back(MakeTuple(execution, key, value));
    }
  }
  return MakeGenerator(execution, std::move(items));
}

// Sorts by keys that were made before; stable, also when reversed, as Python's sorted.
std::vector<Value> SortedBy(Execution& execution, const std::vector<Value>& items,
                            const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!execution.Charge(1)) return false;
    return reverse ? Compare(execution, keys[b], keys[a], "<") < 0
                   : Compare(execution, keys[a], keys[b], "<") < 0;
  });
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Value DictSort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"case_sensitive", "by", "reverse"});
  const TrackedString by = bound.GetString(1, "key");
  if (by.bytes() != "key" && by.bytes() != "value") {
    return Fail(execution, "You can only sort by either \"key\" or \"value\"");
  }
  if (input.is_undefined()) return FailUndefined(execution, input);
  if (!input.is(Kind::kDict)) return Fail(execution, "dictsort needs a mapping");
  std::vector<Value> items, keys;
  for (const auto& [key, value] : input.dict().items) {
    items.push_back(MakeTuple(execution, key, value));
    const Value& sorted_by = by.bytes() == "key" ? key : value;
    keys.push_back(bound.GetBool(0, false) ? sorted_by : IgnoreCase(execution, sorted_by));
  }
  return MakeList(execution, SortedBy(execution, items, keys, bound.GetBool(2, false)));
}

// What sort, min, max, unique and groupby compare; `attribute` may be none.
Value KeyFor(Interpreter& interpreter, const Value& item, const Value& attribute,
             bool case_sensitive) {
  const bool has_attribute = !attribute.is_undefined() && !attribute.is_none();
  Value key = has_attribute ? GetPath(interpreter, item, attribute) : item;
  return case_sensitive ? key : IgnoreCase(interpreter.execution(), key);
}

Value Sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = Elements(execution, input);
  std::vector<TrackedString> attributes;
  if (bound.Has(2) && bound.Get(2).is_string()) {
    const TrackedString comma = TrackedString::Untrusted(",");
    attributes = Split(execution, bound.GetString(2), &comma, -1);
  }
  std::vector<Value> keys;
  for (const Value& item : items) {
    if (attributes.empty()) {
      keys.push_back(KeyFor(interpreter, item, bound.Get(2), bound.GetBool(1, false)));
      continue;
    }
    std::vector<Value> parts;
    for (const TrackedString& attribute : attributes) {
      parts.push_back(KeyFor(interpreter, item, Value::String(attribute), bound.GetBool(1, false)));
    }
    keys.push_back(MakeList(execution, std::move(parts)));
  }
  if (execution.failed()) return Value();
  return MakeList(execution, SortedBy(execution, items, keys, bound.GetBool(0, false)));
}

Value Extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments, int sign) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> items = Elements(execution, input);
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size() && execution.Charge(1); ++i) {
    Value key = KeyFor(interpreter, items[i], bound.Get(1), bound.GetBool(0, false));
    if (i > 0 && Compare(execution, key, best_key, sign < 0 ? "<" : ">") * sign <= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}
Value Min(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Extreme(interpreter, input, arguments, -1);
}
Value Max(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Extreme(interpreter, input, arguments, 1);
}

Value Sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"attribute", "start"});
  const bool has_attribute = bound.Has(0) && !bound.Get(0).is_none();
  Value total = bound.GetOr(1, Value::Int(0));
  if (total.is_string())
    return Fail(execution, "sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : Elements(execution, input)) {
    if (!execution.Charge(1)) break;
    total = ApplyBinary(execution, Op::kAdd, total,
                        has_attribute ? GetPath(interpreter, item, bound.Get(0)) : item);
  }
  return total;
}

Value Unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"case_sensitive", "attribute"});
  std::unordered_set<std::string> seen;
  std::vector<Value> kept;
  for (const Value& item : Elements(execution, input)) {
    if (!execution.Charge(1)) break;
    const std::optional<std::string> key =
        KeyOf(execution, KeyFor(interpreter, item, bound.Get(1), bound.GetBool(0, false)));
    if (!key) return Fail(execution, "unhashable type in unique");
    if (seen.insert(*key).second) kept.push_back(item);
  }
  return MakeGenerator(execution, std::move(kept));
}

Value GroupBy(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"attribute", "default", "case_sensitive"});
  const Value attribute = bound.Need(0);
  const bool has_default = bound.Has(1) && !bound.Get(1).is_none();
  const std::optional<Value> other =
      has_default ? std::optional<Value>(bound.Get(1)) : std::nullopt;
  const std::vector<Value> items = Elements(execution, input);
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = GetPath(interpreter, item, attribute, other);
    keys.push_back(bound.GetBool(2, false) ? key : IgnoreCase(execution, key));
  }
  if (execution.failed()) return Value();
  const std::vector<Value> sorted_items = SortedBy(execution, items, keys, false);
  const std::vector<Value> sorted_keys = SortedBy(execution, keys, keys, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < sorted_items.size() && execution.Charge(1);) {
    size_t end = begin + 1;
    while (end < sorted_items.size() && Equal(execution, sorted_keys[begin], sorted_keys[end])) {
      ++end;
    }
    const auto at = sorted_items.begin();
    groups.push_back(MakeTuple(execution,
                               GetPath(interpreter, sorted_items[begin], attribute, other),
                               MakeList(execution, {at + static_cast<std::ptrdiff_t>(begin),
                                                    at + static_cast<std::ptrdiff_t>(end)})));
    begin = end;
  }
  return MakeList(execution, std::move(groups));
}

Value Batch(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"linecount", "fill_with"});
  bound.Need(0);
  const int64_t size = bound.GetInt(0, 1);
  if (size < 1 || size > execution.limits().max_range) {
    return Fail(execution, "batch: the count is out of range");
  }
  std::vector<Value> batches, batch;
  const std::vector<Value> items = Elements(execution, input);
  for (size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    if (static_cast<int64_t>(batch.size()) < size && i + 1 < items.size()) continue;
    if (bound.Has(1) && !bound.Get(1).is_none()) {
      batch.resize(static_cast<size_t>(size), bound.Get(1));
    }
    batches.push_back(MakeList(execution, std::exchange(batch, {})));
  }
  return MakeGenerator(execution, std::move(batches));
}

Value SliceFilter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"slices", "fill_with"});
  bound.Need(0);
  const int64_t slices = bound.GetInt(0, 1);
  if (slices < 1 || slices > execution.limits().max_range) {
    return Fail(execution, "slice: the count is out of range");
  }
  const std::vector<Value> items = Elements(execution, input);
  const auto length = static_cast<int64_t>(items.size());
  std::vector<Value> parts;
  auto at = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const bool has_extra = i < length % slices;
    const int64_t size = length / slices + (has_extra ? 1 : 0);
    std::vector<Value> part(at, at + size);
    at += size;
    if (!has_extra && bound.Has(1) && !bound.Get(1).is_none()) part.push_back(bound.Get(1));
    parts.push_back(MakeList(execution, std::move(part)));
  }
  return MakeGenerator(execution, std::move(parts));
}

}  // namespace

std::vector<NamedFunction<Filter>> SequenceFilters() {
  std::vector<NamedFunction<Filter>> filters = {
      {"batch", Batch},         {"count", LengthFilter}, {"dictsort", DictSort}, {"first", First},
      {"groupby", GroupBy},     {"items", Items},        {"join", JoinFilter},   {"last", Last},
      {"length", LengthFilter}, {"list", ToList},        {"max", Max},           {"min", Min},
      {"reverse", Reverse},     {"slice", SliceFilter},  {"sort", Sort},         {"sum", Sum},
      {"unique", Unique}};
  const std::vector<NamedFunction<Filter>> selections = SelectionFilters();
  filters.insert(filters.end(), selections.begin(), selections.end());
  return filters;
}

}  // namespace octavo::jinja
