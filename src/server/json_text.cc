#include "server/json_text.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <cmath>

#include "server/json_writer.h"

namespace octavo::server {
namespace {

namespace json = boost::json;

bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Walks over the parts of a text that is known to be JSON.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  // Steps into an array or object.
  void Enter() {
    SkipSpace();
    ++position_;
  }
  // Steps over the comma or colon, if one is next; false at the end of the array or object.
  bool HasNext() {
    SkipSpace();
    if (text_[position_] == ',' || text_[position_] == ':') ++position_;
    SkipSpace();
    return text_[position_] != ']' && text_[position_] != '}';
  }
  // Steps over one value, a member's name included.
  std::string_view TakeValue() {
    SkipSpace();
    const size_t begin = position_;
    size_t depth = 0;
    do {
      const char c = text_[position_];
      if (c == '"') {
        SkipString();
      } else if (c == '[' || c == '{') {
        ++depth;
        ++position_;
      } else if (c == ']' || c == '}') {
        --depth;
        ++position_;
      } else {
        ++position_;
        if (depth == 0) SkipScalar();
      }
    } while (depth > 0);
    return text_.substr(begin, position_ - begin);
  }

 private:
  void SkipSpace() {
    while (IsJsonSpace(text_[position_])) ++position_;
  }
  void SkipString() {
    for (++position_; text_[position_] != '"'; ++position_) {
      if (text_[position_] == '\\') ++position_;
    }
    ++position_;
  }
  void SkipScalar() {
    while (position_ < text_.size() &&
           std::string_view(",:]} \t\r\n").find(text_[position_]) == std::string_view::npos) {
      ++position_;
    }
  }

  std::string_view text_;
  size_t position_ = 0;
};

void Spell(const json::value& value, JsonWriter& writer) {
  if (const json::object* object = value.if_object()) {
    writer.BeginObject();
    for (const auto& [key, member] : *object) {
      writer.Key(key);
      Spell(member, writer);
    }
    writer.EndObject();
  } else if (const json::array* array = value.if_array()) {
    writer.BeginArray();
    for (const json::value& element : *array) Spell(element, writer);
    writer.EndArray();
  } else if (const json::string* string = value.if_string()) {
    writer.String(*string);
  } else if (const double* number = value.if_double()) {
    if (std::isinf(*number)) {  // a number too large for a double
      writer.Raw(*number > 0 ? "1e999" : "-1e999");
      return;
    }
    std::string digits = fmt::format("{}", *number);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    writer.Raw(digits);
  } else if (const uint64_t* whole = value.if_uint64()) {
    writer.Raw(fmt::format("{}", *whole));
  } else if (value.is_int64()) {
    writer.Int(value.get_int64());
  } else if (value.is_bool()) {
    writer.Bool(value.get_bool());
  } else {
    writer.Null();
  }
}

}  // namespace

std::vector<std::string_view> JsonElements(std::string_view array) {
  std::vector<std::string_view> elements;
  JsonScanner scanner(array);
  scanner.Enter();
  while (scanner.HasNext()) elements.push_back(scanner.TakeValue());
  return elements;
}

std::optional<std::string_view> JsonMember(std::string_view object, std::string_view name) {
  std::optional<std::string_view> found;
  JsonScanner scanner(object);
  scanner.Enter();
  while (scanner.HasNext()) {
    const json::value key = json::parse(scanner.TakeValue());
    scanner.HasNext();
    const std::string_view value = scanner.TakeValue();
    if (key.get_string() == name) found = value;
  }
  return found;
}

std::string CompactJson(std::string_view json) {
  std::string compact;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!in_string && IsJsonSpace(c)) continue;
    compact += c;
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string && c == '\\') {
      compact += json[++i];
    }
  }
  return compact;
}

std::string SpellJson(const json::value& value) {
  JsonWriter writer;
  Spell(value, writer);
  return writer.Take();
}

}  // namespace octavo::server
