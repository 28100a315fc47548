#pragma once

// Purpose:    the memory of weights, KV blocks and scratch: zero-filled, aligned for every vector
//             width.
// Ownership:  move-only; the destructor gives the memory back.
// Threading:  the object is one thread's; the bytes are whoever's the owner says.
// Invariants: data() is a multiple of kBufferAlignment, and of kHugePageBytes when size_bytes() >=
//             kHugePageBytes; such a buffer is its own mapping, asks for huge pages, and a page
//             takes RAM only once it has been written, unless the buffer was populated.

#include <cstddef>
#include <span>

namespace octavo::base {

inline constexpr size_t kBufferAlignment = 64;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;  // null
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  // `size_bytes` zero bytes; null if the system has no room for them, or if size_bytes is 0. Never
  // throws.
  static AlignedBuffer Allocate(size_t size_bytes);

  // Takes RAM for every page now. False if the system says that it has not enough; one that has
  // promised too much may end the process instead.
  bool Populate();

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  // The buffer as [size_bytes() / sizeof(T)] elements.
  template <class T>
  std::span<T> As() {
    static_assert(alignof(T) <= kBufferAlignment);
    return {reinterpret_cast<T*>(data_), size_bytes_ / sizeof(T)};
  }

 private:
  AlignedBuffer(std::byte* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  void Release() noexcept;

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace octavo::base
