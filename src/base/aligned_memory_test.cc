#include "base/aligned_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace octavo::base {
namespace {

uintptr_t Address(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data());
}

// Bytes of the buffer that are in RAM.
size_t ResidentBytes(AlignedBuffer& buffer) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((buffer.size_bytes() + page_bytes - 1) / page_bytes);
  EXPECT_EQ(mincore(buffer.data(), buffer.size_bytes(), pages.data()), 0);
  const auto resident = std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) != 0; });
  return static_cast<size_t>(resident) * page_bytes;
}

TEST(AlignedBufferTest, IsZeroFilledAlignedAndWritableToTheLastByte) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{100000}, kHugePageBytes - 1,
                            kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes + 12345}) {
    AlignedBuffer buffer = AlignedBuffer::Allocate(size);

    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer.size_bytes(), size);
    EXPECT_EQ(Address(buffer) % (size >= kHugePageBytes ? kHugePageBytes : kBufferAlignment), 0u);
    const auto bytes = buffer.As<uint8_t>();
    EXPECT_TRUE(std::ranges::all_of(bytes, [](uint8_t b) { return b == 0; })) << size;
    std::ranges::fill(bytes, uint8_t{0xff});
    EXPECT_EQ(bytes[size - 1], 0xff);
  }
}

TEST(AlignedBufferTest, ARequestThatCannotBeMetIsNull) {
  EXPECT_FALSE(AlignedBuffer::Allocate(0));
  EXPECT_FALSE(AlignedBuffer::Allocate(size_t{1} << 60));
  EXPECT_FALSE(AlignedBuffer::Allocate(std::numeric_limits<size_t>::max()));
}

TEST(AlignedBufferTest, MovingHandsTheMemoryOver) {
  AlignedBuffer first = AlignedBuffer::Allocate(4096);
  first.As<uint8_t>()[7] = 42;
  const uintptr_t address = Address(first);

  AlignedBuffer second = std::move(first);
  AlignedBuffer third = AlignedBuffer::Allocate(kHugePageBytes);
  third = std::move(second);

  EXPECT_EQ(Address(third), address);
  EXPECT_EQ(third.As<uint8_t>()[7], 42);
  EXPECT_EQ(third.size_bytes(), 4096u);
}

TEST(AlignedBufferTest, APopulatedBufferHasAllItsRamAndItsContent) {
  AlignedBuffer buffer = AlignedBuffer::Allocate(4 * kHugePageBytes);
  buffer.data()[5] = std::byte{7};
  ASSERT_TRUE(buffer.Populate());
  EXPECT_EQ(ResidentBytes(buffer), 4 * kHugePageBytes);
  EXPECT_EQ(buffer.data()[5], std::byte{7});
  EXPECT_EQ(buffer.data()[6], std::byte{0});

  AlignedBuffer small = AlignedBuffer::Allocate(100);
  EXPECT_TRUE(small.Populate());
}

TEST(AlignedBufferTest, ALargeBufferTakesRamOnlyWhereItWasWritten) {
  AlignedBuffer buffer = AlignedBuffer::Allocate(64 * kHugePageBytes);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(ResidentBytes(buffer), 0u);

  buffer.data()[5 * kHugePageBytes] = std::byte{1};

  EXPECT_GT(ResidentBytes(buffer), 0u);
  EXPECT_LE(ResidentBytes(buffer), kHugePageBytes);
}

}  // namespace
}  // namespace octavo::base
