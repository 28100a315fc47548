#pragma once

// Purpose:    strings that know which of their bytes were written by the template's author
//             (trusted) and which came from the input (untrusted), and the builder that keeps this
//             through every operation.
// Ownership:  TrackedString shares immutable bytes; copying is cheap.
// Threading:  immutable after it is made; a StringBuilder belongs to one thread.
// Invariants: bytes are valid UTF-8; the trusted ranges are sorted, disjoint, not adjacent and not
//             empty; what is not in one is untrusted. A builder's string never exceeds the limit of
//             its Execution, which fails instead.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/byte_range.h"
#include "jinja/execution.h"

namespace octavo::jinja {

class TrackedString {
 public:
  TrackedString() = default;
  static TrackedString Trusted(std::string bytes);
  static TrackedString Untrusted(std::string bytes);
  TrackedString(std::string bytes, std::vector<ByteRange> trusted);

  std::string_view bytes() const { return data_ ? std::string_view(data_->bytes) : ""; }
  size_t size() const { return bytes().size(); }
  bool empty() const { return size() == 0; }
  std::span<const ByteRange> trusted() const {
    return data_ ? std::span<const ByteRange>(data_->trusted) : std::span<const ByteRange>();
  }

  // markupsafe's type: what is joined to it is escaped. Made by the filters safe and escape.
  bool is_markup() const { return is_markup_; }
  TrackedString WithMarkup(bool is_markup) const {
    TrackedString copy = *this;
    copy.is_markup_ = is_markup;
    return copy;
  }

 private:
  struct Data {
    std::string bytes;
    std::vector<ByteRange> trusted;
  };
  std::shared_ptr<const Data> data_;  // null: empty
  bool is_markup_ = false;
};

class StringBuilder {
 public:
  explicit StringBuilder(Execution& execution) : execution_(&execution) {}

  void Append(const TrackedString& text) { Append(text, 0, text.size()); }
  // Bytes [begin, end) of `text`. REQUIRES: begin <= end <= text.size().
  void Append(const TrackedString& text, size_t begin, size_t end);
  void AppendUntrusted(std::string_view bytes);
  // `bytes`, which stand for one piece of the source: trusted if all of [begin, end) of `text` is.
  void AppendAs(std::string_view bytes, const TrackedString& text, size_t begin, size_t end);

  size_t size() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  TrackedString Take();

 private:
  bool Grow(size_t num_bytes);
  void Trust(size_t begin, size_t end);

  Execution* execution_;
  std::string bytes_;
  std::vector<ByteRange> trusted_;
};

TrackedString Slice(Execution& execution, const TrackedString& text, size_t begin, size_t end);

}  // namespace octavo::jinja
