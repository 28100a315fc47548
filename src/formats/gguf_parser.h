#pragma once

// Purpose:    parses the bytes of one GGUF file (one shard of a split file) and checks all of it
//             (docs/contracts/gguf.md).
// Ownership:  a shard's views point into the bytes that were parsed.
// Threading:  pure.
// Invariants: time and memory are linear in the bytes (times a logarithm for the search for
//             duplicates), whatever the file claims.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf_file.h"
#include "formats/gguf_value.h"
#include "octavo/status.h"

namespace octavo::formats {

inline constexpr uint64_t kMaxKeyValues = uint64_t{1} << 24;
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 24;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxStringBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxTensorNameBytes = 63;
inline constexpr uint64_t kMaxArrayElements = uint64_t{1} << 30;
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMaxAlignment = uint32_t{1} << 20;

struct GgufShard {
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  std::vector<GgufKeyValue> key_values;                      // in file order
  std::vector<uint32_t> keys_sorted;                         // positions in key_values
  std::vector<std::vector<std::string_view>> string_arrays;  // what GgufArray::strings points to
  std::vector<GgufTensor> tensors;                           // in file order

  const GgufValue* Find(std::string_view key) const;  // null if there is no such key
};

// `name` is what errors call the file.
Result<GgufShard> ParseGgufShard(std::span<const std::byte> bytes, const std::string& name);

// The value of `key`, by binary search in `sorted` (positions in key_values, sorted by key); null
// if there is none.
const GgufValue* FindValue(std::span<const GgufKeyValue> key_values,
                           std::span<const uint32_t> sorted, std::string_view key);

// The value of any integer type, if it fits.
std::optional<int64_t> AsInt(const GgufValue& value);
std::optional<uint64_t> AsUint(const GgufValue& value);

// The positions in `items`, in the order of their names (`name_of` gives an item's name). A sorted
// index and not a hash table: its time is bounded for names that were chosen to collide, too.
template <typename Item, typename Projection>
std::vector<uint32_t> SortedPositions(const std::vector<Item>& items, Projection name_of) {
  std::vector<uint32_t> positions(items.size());
  std::iota(positions.begin(), positions.end(), uint32_t{0});
  std::sort(positions.begin(), positions.end(), [&](uint32_t a, uint32_t b) {
    const int order = std::invoke(name_of, items[a]).compare(std::invoke(name_of, items[b]));
    return order != 0 ? order < 0 : a < b;
  });
  return positions;
}

// The second of the first two equally named items in a sorted index, or null.
template <typename Item, typename Projection>
const Item* FindDuplicate(const std::vector<Item>& items, std::span<const uint32_t> sorted,
                          Projection name_of) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    const Item& item = items[sorted[i]];
    if (std::invoke(name_of, item) == std::invoke(name_of, items[sorted[i - 1]])) return &item;
  }
  return nullptr;
}

}  // namespace octavo::formats
