#pragma once

// Purpose:    a cursor over little-endian bytes that cannot leave them.
// Ownership:  borrows the bytes.
// Threading:  one thread.
// Invariants: position() <= the number of bytes; a read that does not fit gives nothing and moves
//             nothing.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace octavo::formats {

static_assert(std::endian::native == std::endian::little, "stored values are read in place");

// The value stored at `stored`, which needs no alignment.
template <typename T>
T LoadLittleEndian(const std::byte* stored) {
  T value;
  std::memcpy(&value, stored, sizeof(value));
  return value;
}

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  std::optional<T> Read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    const T value = LoadLittleEndian<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }

  std::optional<std::span<const std::byte>> Take(uint64_t num_bytes) {
    if (remaining() < num_bytes) return std::nullopt;
    const std::span<const std::byte> taken = bytes_.subspan(position_, num_bytes);
    position_ += num_bytes;
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace octavo::formats
