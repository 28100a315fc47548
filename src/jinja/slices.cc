#include <fmt/format.h>

#include <algorithm>

#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

struct SliceRange {
  int64_t start = 0, stop = 0, step = 1;
};

bool IsGiven(const Value& value) { return !value.is_undefined() && !value.is_none(); }

// Python's slice.indices(length).
std::optional<SliceRange> Indices(const Value& start, const Value& stop, const Value& step,
                                  int64_t length) {
  for (const Value* part : {&start, &stop, &step}) {
    if (IsGiven(*part) && !part->is_integer()) return std::nullopt;
  }
  SliceRange range;
  if (IsGiven(step)) range.step = step.as_int();
  if (range.step == 0 || range.step == INT64_MIN) return std::nullopt;
  const bool back = range.step < 0;
  const int64_t lowest = back ? -1 : 0;
  const int64_t highest = back ? length - 1 : length;
  const auto clamp = [&](const Value& value, int64_t other) {
    if (!IsGiven(value)) return other;
    const int64_t index = value.as_int() < 0 ? value.as_int() + length : value.as_int();
    return std::clamp(index, lowest, highest);
  };
  range.start = clamp(start, back ? highest : lowest);
  range.stop = clamp(stop, back ? lowest : highest);
  return range;
}

Value SliceString(Execution& execution, const TrackedString& text, const SliceRange& range) {
  const std::string_view bytes = text.bytes();
  if (!execution.ChargeBytes(bytes.size())) return Value();
  if (range.step == 1) {
    const size_t begin = OffsetOf(bytes, range.start);
    const size_t count = static_cast<size_t>(std::max<int64_t>(0, range.stop - range.start));
    const size_t end = begin + OffsetOf(bytes.substr(begin), static_cast<int64_t>(count));
    return Value::String(Slice(execution, text, begin, end));
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < bytes.size(); at += CharacterBytes(bytes, at)) offsets.push_back(at);
  offsets.push_back(bytes.size());
  if (!execution.Charge(static_cast<int64_t>(offsets.size()))) return Value();
  StringBuilder builder(execution);
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    const auto index = static_cast<size_t>(i);
    builder.Append(text, offsets[index], offsets[index + 1]);
    if (!execution.Charge(1) || __builtin_add_overflow(i, range.step, &i)) break;
  }
  return Value::String(builder.Take().WithMarkup(text.is_markup()));
}

}  // namespace

Value ApplySlice(Execution& execution, const Value& value, const Value& start, const Value& stop,
                 const Value& step) {
  if (value.is_undefined()) return FailUndefined(execution, value);
  const bool is_list = value.is(Kind::kSequence) &&
                       value.sequence().type <= SequenceType::kRange;  // list, tuple, range
  if (!value.is_string() && !is_list) {
    return Fail(execution, fmt::format("'{}' object cannot be sliced", TypeName(value)));
  }
  const std::optional<SliceRange> range = Indices(start, stop, step, Length(value).value_or(0));
  if (!range) {
    if (step.is_integer() && step.as_int() == 0) {
      return Fail(execution, "slice step cannot be zero");
    }
    return Fail(execution, "slice indices must be integers or None");
  }
  if (value.is_string()) return SliceString(execution, value.string(), *range);
  std::vector<Value> items;
  for (int64_t i = range->start; range->step > 0 ? i < range->stop : i > range->stop;) {
    items.push_back(value.sequence().items[static_cast<size_t>(i)]);
    if (!execution.Charge(1) || __builtin_add_overflow(i, range->step, &i)) break;
  }
  const bool is_tuple = value.sequence().type == SequenceType::kTuple;
  return MakeSequence(execution, is_tuple ? SequenceType::kTuple : SequenceType::kList,
                      std::move(items));
}

}  // namespace octavo::jinja
