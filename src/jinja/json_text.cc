#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/python_text.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Execution& execution, const JsonStyle& style, StringBuilder* out)
      : execution_(execution), style_(style), out_(out) {}

  void Write(const Value& value, int32_t level) {
    if (!execution_.Charge(1)) return;
    switch (value.kind()) {
      case Kind::kNone:
        return out_->AppendUntrusted("null");
      case Kind::kBool:
        return out_->AppendUntrusted(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return out_->AppendUntrusted(std::to_string(value.as_int()));
      case Kind::kFloat:
        return out_->AppendUntrusted(FloatText(value.as_float()));
      case Kind::kString:
        return WriteString(value.string());
      case Kind::kDict:
        return WriteDict(value.dict(), level);
      case Kind::kSequence:
        if (value.sequence().type == SequenceType::kList ||
            value.sequence().type == SequenceType::kTuple) {
          return WriteList(value.sequence(), level);
        }
        break;
      default:
        break;
    }
    execution_.Fail(fmt::format("Object of type {} is not JSON serializable", TypeName(value)));
  }

 private:
  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value);
  }

  // What replaces a character; empty for one that is copied.
  std::string Escape(int32_t code_point) const {
    switch (code_point) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (code_point < 0x20) return fmt::format("\\u{:04x}", code_point);
    if (!style_.ensure_ascii || code_point < 0x7F) return "";
    if (code_point < 0x10000) return fmt::format("\\u{:04x}", code_point);
    const int32_t rest = code_point - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  void WriteString(const TrackedString& text) {
    const std::string_view bytes = text.bytes();
    out_->AppendUntrusted("\"");
    size_t plain = 0;
    for (size_t at = 0; at < bytes.size() && !execution_.failed();) {
      const size_t end = at + CharacterBytes(bytes, at);
      const std::string escape = Escape(CodePointAt(bytes, at));
      if (!escape.empty()) {
        out_->Append(text, plain, at);
        out_->AppendUntrusted(escape);
        plain = end;
      }
      at = end;
    }
    out_->Append(text, plain, bytes.size());
    out_->AppendUntrusted("\"");
  }

  void NewLine(int32_t level) {
    if (!style_.indent) return;
    out_->AppendUntrusted("\n");
    for (int32_t i = 0; i < level && !execution_.failed(); ++i) out_->Append(*style_.indent);
  }

  void WriteList(const Sequence& list, int32_t level) {
    if (list.items.empty()) return out_->AppendUntrusted("[]");
    out_->AppendUntrusted("[");
    for (size_t i = 0; i < list.items.size() && !execution_.failed(); ++i) {
      if (i > 0) out_->Append(style_.item_separator);
      NewLine(level + 1);
      Write(list.items[i], level + 1);
    }
    NewLine(level);
    out_->AppendUntrusted("]");
  }

  void WriteKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return WriteString(key.string());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_->AppendUntrusted("\"");
        Write(key, 0);
        return out_->AppendUntrusted("\"");
      default:
        execution_.Fail("keys must be str, int, float, bool or None, not " +
                        std::string(TypeName(key)));
    }
  }

  void WriteDict(const Dict& dict, int32_t level) {
    if (dict.items.empty()) return out_->AppendUntrusted("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [this](const auto* a, const auto* b) {
        return Compare(execution_, a->first, b->first, "<") < 0;
      });
    }
    out_->AppendUntrusted("{");
    for (size_t i = 0; i < items.size() && !execution_.failed(); ++i) {
      if (i > 0) out_->Append(style_.item_separator);
      NewLine(level + 1);
      WriteKey(items[i]->first);
      out_->Append(style_.key_separator);
      Write(items[i]->second, level + 1);
    }
    NewLine(level);
    out_->AppendUntrusted("}");
  }

  Execution& execution_;
  const JsonStyle& style_;
  StringBuilder* out_;
};

}  // namespace

void AppendJson(Execution& execution, const Value& value, const JsonStyle& style,
                StringBuilder* out) {
  JsonWriter(execution, style, out).Write(value, 0);
}

}  // namespace octavo::jinja
