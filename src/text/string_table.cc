#include "text/string_table.h"

#include <bit>
#include <functional>

namespace octavo::text {
namespace {

constexpr size_t kMaxProbes = 4096;

size_t HashOf(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace

void StringTable::Append(std::string_view text) {
  chars_ += text;
  offsets_.push_back(chars_.size());
}

void StringTable::ShrinkToFit() {
  chars_.shrink_to_fit();
  offsets_.shrink_to_fit();
}

int64_t StringTable::memory_bytes() const {
  return static_cast<int64_t>(chars_.capacity() + offsets_.capacity() * sizeof(size_t));
}

void StringIndex::Reserve(size_t num_entries) {
  slots_.assign(std::bit_ceil(2 * num_entries + 1), kNoToken);
}

bool StringIndex::Insert(const StringTable& table, TokenId id) {
  const std::string_view text = table[static_cast<size_t>(id)];
  const size_t mask = slots_.size() - 1;
  size_t slot = HashOf(text) & mask;
  for (size_t probes = 0; probes < kMaxProbes; ++probes, slot = (slot + 1) & mask) {
    if (slots_[slot] == kNoToken) {
      slots_[slot] = id;
      return true;
    }
    if (table[static_cast<size_t>(slots_[slot])] == text) return true;
  }
  return false;
}

std::optional<TokenId> StringIndex::Find(const StringTable& table, std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  for (size_t slot = HashOf(text) & mask; slots_[slot] != kNoToken; slot = (slot + 1) & mask) {
    if (table[static_cast<size_t>(slots_[slot])] == text) return slots_[slot];
  }
  return std::nullopt;
}

}  // namespace octavo::text
