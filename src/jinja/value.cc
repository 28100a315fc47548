#include "jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

bool EqualSequences(Execution& execution, const Sequence& a, const Sequence& b) {
  if (a.type != b.type || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!execution.Charge(1) || !Equal(execution, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool EqualDicts(Execution& execution, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.Find(execution, key);
    if (other == nullptr || !execution.Charge(1) || !Equal(execution, value, *other)) return false;
  }
  return true;
}

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int CompareSequences(Execution& execution, const Sequence& a, const Sequence& b,
                     std::string_view op) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common && execution.Charge(1); ++i) {
    if (Equal(execution, a.items[i], b.items[i])) continue;
    return Compare(execution, a.items[i], b.items[i], op);
  }
  return Sign(a.items.size(), b.items.size());
}

bool IsOrderedSequence(const Value& value) {
  return value.is(Kind::kSequence) && (value.sequence().type == SequenceType::kList ||
                                       value.sequence().type == SequenceType::kTuple);
}

}  // namespace

const std::string& Value::undefined_message() const {
  static const std::string kNothing = "the value is undefined";
  const auto& info = std::get<std::shared_ptr<const UndefinedInfo>>(data_);
  return info ? info->message : kNothing;
}

int32_t Value::depth() const {
  switch (kind()) {
    case Kind::kSequence:
      return sequence().depth;
    case Kind::kDict:
      return dict().depth;
    case Kind::kCallable:
      return callable().depth;
    default:
      return 0;
  }
}

bool Value::SameAs(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return as_bool() == other.as_bool();
    case Kind::kInt:
      return as_int() == other.as_int() && as_int() >= -5 && as_int() <= 256;
    case Kind::kString:
      return bytes().data() == other.bytes().data();
    case Kind::kSequence:
      return &sequence() == &other.sequence();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kNamespace:
      return &ns() == &other.ns();
    case Kind::kCallable:
      return &callable() == &other.callable();
    case Kind::kLoop:
      return loop() == other.loop();
    case Kind::kUndefined:
    case Kind::kFloat:
      return false;
  }
  return false;
}

const Value* Dict::Find(Execution& execution, const Value& key) const {
  if (items.size() < kIndexedFrom) {
    for (const auto& [other, value] : items) {
      if (!execution.Charge(1)) return nullptr;
      if (Equal(execution, other, key)) return &value;
    }
    return nullptr;
  }
  const std::optional<std::string> text = KeyOf(execution, key);
  const auto found = text ? index.find(*text) : index.end();
  return found == index.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::Find(std::string_view key) const {
  if (items.size() < kIndexedFrom) {
    for (const auto& [other, value] : items) {
      if (other.is_string() && other.bytes() == key) return &value;
    }
    return nullptr;
  }
  const auto found = index.find("s" + std::string(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

Value MakeSequence(Execution& execution, SequenceType type, std::vector<Value> items) {
  if (!execution.Charge(static_cast<int64_t>(items.size()) + 1)) return Value();
  auto sequence = std::make_shared<Sequence>();
  sequence->type = type;
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, item.depth() + 1);
  sequence->items = std::move(items);
  Value value = Value::Of(std::shared_ptr<const Sequence>(std::move(sequence)));
  if (value.depth() > kMaxValueDepth) return Fail(execution, "lists nested too deep");
  return value;
}

Value MakeTuple(Execution& execution, Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return MakeSequence(execution, SequenceType::kTuple, std::move(items));
}

void DictBuilder::Set(Value key, Value value) {
  if (!execution_->Charge(2)) return;
  std::optional<std::string> text = KeyOf(*execution_, key);
  if (!text) {
    execution_->Fail("unhashable type: '" + std::string(TypeName(key)) + "'");
    return;
  }
  dict_->depth = std::max({dict_->depth, key.depth() + 1, value.depth() + 1});
  if (dict_->depth > kMaxValueDepth) {
    execution_->Fail("objects nested too deep");
    return;
  }
  if (Value* there = const_cast<Value*>(dict_->Find(*execution_, key))) {  // ours until Take
    *there = std::move(value);
    return;
  }
  dict_->items.emplace_back(std::move(key), std::move(value));
  if (dict_->items.size() < Dict::kIndexedFrom) return;
  if (dict_->items.size() > Dict::kIndexedFrom) {
    dict_->index.emplace(*std::move(text), dict_->items.size() - 1);
    return;
  }
  for (size_t i = 0; i < dict_->items.size(); ++i) {
    dict_->index.emplace(KeyOf(*execution_, dict_->items[i].first).value_or(""), i);
  }
}

Value DictBuilder::Take() {
  return Value::Of(std::shared_ptr<const Dict>(std::exchange(dict_, std::make_shared<Dict>())));
}

std::optional<std::string> KeyOf(Execution& execution, const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "n";
    case Kind::kString:
      return "s" + std::string(value.bytes());
    case Kind::kBool:
    case Kind::kInt:
      return "i" + std::to_string(value.as_int());
    case Kind::kFloat: {
      const double number = value.as_float();
      if (std::trunc(number) == number && std::fabs(number) < 9e18) {
        return "i" + std::to_string(static_cast<int64_t>(number));
      }
      char digits[40];
      const auto end = std::to_chars(digits, digits + sizeof digits, number);
      return "f" + std::string(digits, end.ptr);
    }
    case Kind::kUndefined:
      return "u";
    case Kind::kSequence:
      break;
    default:
      return std::nullopt;
  }
  if (value.sequence().type != SequenceType::kTuple) return std::nullopt;
  std::string key = "t";
  for (const Value& item : value.sequence().items) {
    std::optional<std::string> part = KeyOf(execution, item);
    if (!part) return std::nullopt;
    if (!execution.ChargeBytes(key.size() + part->size())) return key;
    key += std::to_string(part->size()) + ":" + *part;
  }
  return key;
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.string().is_markup() ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return value.callable().is_macro ? "Macro" : "function";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kSequence:
      break;
  }
  switch (value.sequence().type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kKeys:
      return "dict_keys";
    case SequenceType::kValues:
      return "dict_values";
    case SequenceType::kItems:
      return "dict_items";
    case SequenceType::kGenerator:
      return "generator";
  }
  return "object";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.string().empty();
    case Kind::kSequence:
      return value.sequence().type == SequenceType::kGenerator || !value.sequence().items.empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    default:
      return true;
  }
}

bool Equal(Execution& execution, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.bytes().size() == b.bytes().size() && execution.ChargeBytes(a.bytes().size()) &&
             a.bytes() == b.bytes();
    case Kind::kSequence:
      return a.SameAs(b) || EqualSequences(execution, a.sequence(), b.sequence());
    case Kind::kDict:
      return a.SameAs(b) || EqualDicts(execution, a.dict(), b.dict());
    default:
      return a.SameAs(b);
  }
}

int Compare(Execution& execution, const Value& a, const Value& b, std::string_view op) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return Sign(a.as_int(), b.as_int());
    return Sign(a.as_float(), b.as_float());
  }
  if (a.is_string() && b.is_string()) {
    execution.ChargeBytes(a.bytes().size());
    const int order = a.bytes().compare(b.bytes());
    return Sign(order, 0);
  }
  if (IsOrderedSequence(a) && IsOrderedSequence(b) && a.sequence().type == b.sequence().type) {
    return CompareSequences(execution, a.sequence(), b.sequence(), op);
  }
  if (a.is_undefined() || b.is_undefined()) {
    FailUndefined(execution, a.is_undefined() ? a : b);
  } else {
    execution.Fail("'" + std::string(op) + "' not supported between instances of '" +
                   std::string(TypeName(a)) + "' and '" + std::string(TypeName(b)) + "'");
  }
  return 0;
}

std::vector<Value> Elements(Execution& execution, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      if (sequence.type == SequenceType::kGenerator && std::exchange(sequence.consumed, true)) {
        return items;
      }
      if (execution.Charge(static_cast<int64_t>(sequence.items.size()))) items = sequence.items;
      return items;
    }
    case Kind::kDict:
      if (!execution.Charge(static_cast<int64_t>(value.dict().items.size()))) return items;
      for (const auto& [key, unused] : value.dict().items) items.push_back(key);
      return items;
    case Kind::kString: {
      const TrackedString& text = value.string();
      for (size_t begin = 0; begin < text.size() && !execution.failed();) {
        const size_t end = begin + CharacterBytes(text.bytes(), begin);
        items.push_back(Value::String(Slice(execution, text, begin, end)));
        begin = end;
      }
      return items;
    }
    default:
      execution.Fail("'" + std::string(TypeName(value)) + "' object is not iterable");
      return items;
  }
}

std::optional<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCharacters(value.bytes());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().items.size());
    case Kind::kLoop:
      return static_cast<int64_t>(value.loop()->items.size());
    case Kind::kSequence:
      if (value.sequence().type == SequenceType::kGenerator) return std::nullopt;
      return static_cast<int64_t>(value.sequence().items.size());
    default:
      return std::nullopt;
  }
}

Value Fail(Execution& execution, std::string_view message) {
  execution.Fail(message);
  return Value();
}

Value FailUndefined(Execution& execution, const Value& value) {
  return Fail(execution, value.undefined_message());
}

}  // namespace octavo::jinja
