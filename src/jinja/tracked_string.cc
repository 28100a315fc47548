#include "jinja/tracked_string.h"

#include <algorithm>

namespace octavo::jinja {
namespace {

// The first trusted range that ends behind `begin`.
const ByteRange* FirstBehind(std::span<const ByteRange> ranges, size_t begin) {
  return std::partition_point(ranges.data(), ranges.data() + ranges.size(),
                              [begin](const ByteRange& range) { return range.end <= begin; });
}

}  // namespace

TrackedString::TrackedString(std::string bytes, std::vector<ByteRange> trusted) {
  if (bytes.empty()) return;
  data_ = std::make_shared<const Data>(Data{std::move(bytes), std::move(trusted)});
}

TrackedString TrackedString::Trusted(std::string bytes) {
  const size_t size = bytes.size();
  return TrackedString(std::move(bytes), {{0, size}});
}

TrackedString TrackedString::Untrusted(std::string bytes) {
  return TrackedString(std::move(bytes), {});
}

bool StringBuilder::Grow(size_t num_bytes) {
  if (!execution_->ChargeBytes(num_bytes)) return false;
  if (num_bytes <= execution_->limits().max_bytes - bytes_.size()) return true;
  execution_->Fail("a text longer than " + std::to_string(execution_->limits().max_bytes) +
                   " bytes");
  return false;
}

void StringBuilder::Trust(size_t begin, size_t end) {
  if (begin == end) return;
  if (!trusted_.empty() && trusted_.back().end == begin) {
    trusted_.back().end = end;
  } else {
    trusted_.push_back({begin, end});
  }
}

void StringBuilder::Append(const TrackedString& text, size_t begin, size_t end) {
  if (begin == end || !Grow(end - begin)) return;
  const size_t at = bytes_.size();
  bytes_.append(text.bytes().substr(begin, end - begin));
  const std::span<const ByteRange> ranges = text.trusted();
  const ByteRange* last = ranges.data() + ranges.size();
  for (const ByteRange* range = FirstBehind(ranges, begin); range != last && range->begin < end;
       ++range) {
    if (!execution_->Charge(1)) return;
    Trust(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
  }
}

void StringBuilder::AppendUntrusted(std::string_view bytes) {
  if (Grow(bytes.size())) bytes_.append(bytes);
}

void StringBuilder::AppendAs(std::string_view bytes, const TrackedString& text, size_t begin,
                             size_t end) {
  if (!Grow(bytes.size())) return;
  const size_t at = bytes_.size();
  bytes_.append(bytes);
  const std::span<const ByteRange> ranges = text.trusted();
  const ByteRange* range = FirstBehind(ranges, begin);
  if (range != ranges.data() + ranges.size() && range->begin <= begin && end <= range->end) {
    Trust(at, bytes_.size());
  }
}

TrackedString StringBuilder::Take() {
  return TrackedString(std::exchange(bytes_, {}), std::exchange(trusted_, {}));
}

TrackedString Slice(Execution& execution, const TrackedString& text, size_t begin, size_t end) {
  if (begin == 0 && end == text.size()) return text;
  StringBuilder builder(execution);
  builder.Append(text, begin, end);
  return builder.Take().WithMarkup(text.is_markup());
}

}  // namespace octavo::jinja
