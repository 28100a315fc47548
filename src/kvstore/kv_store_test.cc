#include "kvstore/kv_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace octavo::kvstore {
namespace {

using kernels::KvDtype;
using kvcache::BlockId;

constexpr int32_t kNumLayers = 3;
constexpr int32_t kNumKvHeads = 2;
constexpr int32_t kHeadDim = 8;
constexpr int32_t kBlockSize = 8;
constexpr size_t kHeadElements = size_t{kHeadDim} * kBlockSize;  // of K, and again of V

KvLayout SmallLayout(KvDtype dtype, int64_t num_blocks) {
  return *KvLayout::Create({.num_layers = kNumLayers,
                            .num_kv_heads = kNumKvHeads,
                            .head_dim = kHeadDim,
                            .block_size_tokens = kBlockSize},
                           dtype, num_blocks);
}

// The first element of K (or V) of one head in a physical block, as the view tells.
std::byte* Part(const kernels::PagedKvView& view, uint32_t block, int32_t head, bool is_value) {
  return view.base + block * view.block_stride_bytes +
         static_cast<size_t>(head) * view.head_stride_bytes + (is_value ? view.v_offset_bytes : 0);
}

TEST(KvStoreTest, AViewCarriesTheLayoutAndTheTable) {
  base::MemoryLedger ledger;
  KvStore store = *KvStore::Create(SmallLayout(KvDtype::kBFloat16, 4), ledger);
  const std::array<uint32_t, 2> table = {3, 1};

  const kernels::PagedKvView view = store.View(1, table);

  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.base) % 64, 0u);
  EXPECT_EQ(view.base - store.View(0, table).base,
            static_cast<std::ptrdiff_t>(store.layout().layer_stride_bytes));
  EXPECT_EQ(view.block_table, table.data());
  EXPECT_EQ(view.block_size_tokens, kBlockSize);
  EXPECT_EQ(view.head_dim, kHeadDim);
  EXPECT_EQ(view.dtype, KvDtype::kBFloat16);
  EXPECT_EQ(view.v_offset_bytes, 128u);       // 8 tokens x 8 x 2 bytes
  EXPECT_EQ(view.head_stride_bytes, 256u);    // K and V
  EXPECT_EQ(view.block_stride_bytes, 1536u);  // 2 heads, 3 layers
}

TEST(KvStoreTest, NoTwoPartsOverlapAndTogetherTheyFillTheArena) {
  base::MemoryLedger ledger;
  constexpr uint32_t kNumBlocks = 5;
  KvStore store = *KvStore::Create(SmallLayout(KvDtype::kFloat32, kNumBlocks), ledger);

  const auto for_each_part = [&store](auto visit) {
    float mark = 0;
    for (int32_t layer = 0; layer < kNumLayers; ++layer) {
      const kernels::PagedKvView view = store.View(layer, {});
      for (uint32_t block = 0; block < kNumBlocks; ++block) {
        for (int32_t head = 0; head < kNumKvHeads; ++head) {
          visit(Part(view, block, head, false), ++mark);
          visit(Part(view, block, head, true), ++mark);
        }
      }
    }
    return static_cast<size_t>(mark);
  };
  for_each_part([](std::byte* part, float mark) {
    const std::vector<float> values(kHeadElements, mark);
    std::memcpy(part, values.data(), values.size() * sizeof(float));
  });

  const size_t num_parts = for_each_part([](const std::byte* part, float mark) {
    std::vector<float> values(kHeadElements);
    std::memcpy(values.data(), part, values.size() * sizeof(float));
    EXPECT_EQ(values, std::vector<float>(kHeadElements, mark));
  });

  EXPECT_EQ(num_parts * kHeadElements * sizeof(float), store.layout().arena_bytes);
}

TEST(KvStoreTest, CopyingABlockCopiesAllItsLayersAndTouchesNoOtherBlock) {
  base::MemoryLedger ledger;
  KvStore store = *KvStore::Create(SmallLayout(KvDtype::kFloat16, 3), ledger);
  const size_t block_bytes = store.layout().layer_stride_bytes;
  const auto block_at = [&store, block_bytes](int32_t layer, uint32_t block) {
    const std::byte* const data = Part(store.View(layer, {}), block, 0, false);
    return std::vector<std::byte>(data, data + block_bytes);
  };
  for (int32_t layer = 0; layer < kNumLayers; ++layer) {
    for (uint32_t block = 0; block < 3; ++block) {
      std::memset(Part(store.View(layer, {}), block, 0, false),
                  static_cast<int>(10 * static_cast<uint32_t>(layer) + block + 1), block_bytes);
    }
  }

  store.CopyBlock(BlockId(0), BlockId(2));

  for (int32_t layer = 0; layer < kNumLayers; ++layer) {
    const auto mark = static_cast<std::byte>(10 * layer + 1);
    EXPECT_EQ(block_at(layer, 0), std::vector<std::byte>(block_bytes, mark));
    EXPECT_EQ(block_at(layer, 1),
              std::vector<std::byte>(block_bytes, static_cast<std::byte>(10 * layer + 2)));
    EXPECT_EQ(block_at(layer, 2), std::vector<std::byte>(block_bytes, mark));
  }
}

TEST(KvStoreTest, TheLedgerHoldsTheArenaWhileTheStoreLives) {
  base::MemoryLedger ledger;
  const KvLayout layout = SmallLayout(KvDtype::kFloat16, 64);
  {
    KvStore store = *KvStore::Create(layout, ledger);
    const KvStore moved = std::move(store);
    EXPECT_EQ(ledger.actual()[MemoryTag::kKvCache], static_cast<int64_t>(layout.arena_bytes));
    EXPECT_EQ(ledger.actual().total(), static_cast<int64_t>(layout.arena_bytes));
  }
  EXPECT_EQ(ledger.actual().total(), 0);
}

TEST(KvStoreTest, APoisonedStoreHoldsNothingButNaN) {
  base::MemoryLedger ledger;
  KvStore wide = *KvStore::Create(SmallLayout(KvDtype::kFloat32, 2), ledger, InitialFill::kNaN);
  std::vector<float> values(wide.layout().arena_bytes / sizeof(float));
  std::memcpy(values.data(), wide.View(0, {}).base, wide.layout().arena_bytes);
  for (const float value : values) ASSERT_TRUE(std::isnan(value));

  // A 16-bit NaN has all exponent bits and some of the mantissa's.
  for (const auto& [dtype, exponent] :
       {std::pair{KvDtype::kFloat16, 0x7c00}, std::pair{KvDtype::kBFloat16, 0x7f80},
        std::pair{KvDtype::kInt8, 0x7c00}}) {
    KvStore store = *KvStore::Create(SmallLayout(dtype, 2), ledger, InitialFill::kNaN);
    std::vector<uint16_t> bits(store.layout().arena_bytes / sizeof(uint16_t));
    std::memcpy(bits.data(), store.View(0, {}).base, store.layout().arena_bytes);
    for (const uint16_t b : bits) ASSERT_GT(b & 0x7fff, exponent);
  }
}

TEST(KvStoreTest, AnArenaThatTheSystemRefusesIsAStatusAndReservesNothing) {
  base::MemoryLedger ledger;
  const KvLayout layout = *KvLayout::Create(
      {.num_layers = 1000, .num_kv_heads = 128, .head_dim = 256, .block_size_tokens = 256},
      KvDtype::kFloat32, 1 << 24);

  const auto store = KvStore::Create(layout, ledger);

  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store.status().message(),
            "KV cache: the system refuses 1125899906842624000 bytes (16777216 blocks of 256 "
            "tokens)");
  EXPECT_EQ(ledger.actual().total(), 0);
}

// Whether each page of the arena is in RAM.
std::vector<bool> ResidentPages(KvStore& store) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((store.layout().arena_bytes + page_bytes - 1) / page_bytes);
  EXPECT_EQ(mincore(store.View(0, {}).base, store.layout().arena_bytes, pages.data()), 0);
  std::vector<bool> resident;
  for (const unsigned char page : pages) resident.push_back((page & 1) != 0);
  return resident;
}

TEST(KvStoreTest, ABlockTakesOnePageInAllItsLayersAndTheOthersTakeNone) {
  base::MemoryLedger ledger;
  KvStore store = *KvStore::Create(SmallLayout(KvDtype::kFloat32, 1 << 16), ledger);
  for (int32_t layer = 0; layer < kNumLayers; ++layer) {
    std::memset(store.View(layer, {}).base, 1, store.layout().layer_stride_bytes);
  }

  const std::vector<bool> pages = ResidentPages(store);
  const auto last = std::find(pages.rbegin(), pages.rend(), true);
  const auto resident_end = static_cast<size_t>(pages.rend() - last);  // in pages
  EXPECT_GE(resident_end, 1u);
  EXPECT_LE(resident_end * static_cast<size_t>(sysconf(_SC_PAGESIZE)), base::kHugePageBytes);
}

TEST(KvStoreTest, APopulatedStoreHasAllItsRamAtOnce) {
  base::MemoryLedger ledger;
  KvStore store =
      *KvStore::Create(SmallLayout(KvDtype::kFloat32, 1 << 14), ledger, InitialFill::kPopulated);
  const std::vector<bool> pages = ResidentPages(store);
  EXPECT_EQ(std::ranges::count(pages, true), std::ssize(pages));
  EXPECT_GT(std::ssize(pages), 100);
}

TEST(KvStoreDeathTest, CopyingABlockThatIsNotInTheStoreIsABug) {
  base::MemoryLedger ledger;
  KvStore store = *KvStore::Create(SmallLayout(KvDtype::kFloat16, 3), ledger);

  EXPECT_DEATH(store.CopyBlock(BlockId(0), BlockId(3)), "not in the store");
  EXPECT_DEATH(store.CopyBlock(BlockId(1), BlockId(1)), "over itself");
}

}  // namespace
}  // namespace octavo::kvstore
