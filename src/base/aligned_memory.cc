#include "base/aligned_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked_math.h"

namespace octavo::base {
namespace {

// A zero-filled private mapping of `size_bytes` (a multiple of the page size) that starts on a
// huge-page border: maps one huge page more than needed and unmaps what lies before and after.
std::byte* MapHugeAligned(size_t size_bytes) {
  const auto padded = CheckedAdd(size_bytes, kHugePageBytes);
  if (!padded) return nullptr;
  void* const raw =
      mmap(nullptr, *padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const size_t lead = (kHugePageBytes - begin % kHugePageBytes) % kHugePageBytes;
  auto* const data = static_cast<std::byte*>(raw) + lead;
  if (lead > 0) munmap(raw, lead);
  if (const size_t tail = kHugePageBytes - lead; tail > 0) munmap(data + size_bytes, tail);
  madvise(data, size_bytes,
          MADV_HUGEPAGE);  // a hint: a kernel without huge pages serves small ones
  return data;
}

// What is really mapped or allocated for a buffer of `size_bytes`; absent on overflow.
std::optional<size_t> BackingBytes(size_t size_bytes) {
  constexpr size_t kPageBytes = 65536;  // the largest base page of the supported machines
  return CheckedRoundUp(size_bytes, size_bytes >= kHugePageBytes ? kPageBytes : kBufferAlignment);
}

}  // namespace

AlignedBuffer AlignedBuffer::Allocate(size_t size_bytes) {
  const auto backing = BackingBytes(size_bytes);
  if (size_bytes == 0 || !backing) return {};
  if (size_bytes >= kHugePageBytes) {
    std::byte* const data = MapHugeAligned(*backing);
    return data == nullptr ? AlignedBuffer() : AlignedBuffer(data, size_bytes);
  }
  void* const data = std::aligned_alloc(kBufferAlignment, *backing);
  if (data == nullptr) return {};
  std::memset(data, 0, *backing);
  return {static_cast<std::byte*>(data), size_bytes};
}

bool AlignedBuffer::Populate() {
  if (size_bytes_ < kHugePageBytes) return true;  // written when it was allocated
  if (madvise(data_, *BackingBytes(size_bytes_), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // A kernel before 5.14. A write that changes nothing makes a page the buffer's own.
  constexpr size_t kSmallestPageBytes = 4096;
  for (size_t at = 0; at < size_bytes_; at += kSmallestPageBytes) {
    volatile std::byte& touched = data_[at];
    touched = touched;
  }
  return true;
}

AlignedBuffer::~AlignedBuffer() { Release(); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this != &other) {
    Release();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void AlignedBuffer::Release() noexcept {
  if (data_ == nullptr) return;
  if (size_bytes_ >= kHugePageBytes) {
    munmap(data_, *BackingBytes(size_bytes_));
  } else {
    std::free(data_);
  }
}

}  // namespace octavo::base
