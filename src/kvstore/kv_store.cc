#include "kvstore/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace octavo::kvstore {
namespace {

// A quiet NaN of the element type, as bits; INT8: in the scales.
void FillWithNaN(base::AlignedBuffer& arena, kernels::KvDtype dtype) {
  switch (dtype) {
    case kernels::KvDtype::kFloat32:
      std::ranges::fill(arena.As<uint32_t>(), uint32_t{0x7fc00000});
      break;
    case kernels::KvDtype::kFloat16:
      std::ranges::fill(arena.As<uint16_t>(), uint16_t{0x7e00});
      break;
    case kernels::KvDtype::kBFloat16:
      std::ranges::fill(arena.As<uint16_t>(), uint16_t{0x7fc0});
      break;
    case kernels::KvDtype::kInt8:
      std::ranges::fill(arena.As<uint16_t>(), uint16_t{0xffff});
      break;
  }
}

}  // namespace

KvStore::KvStore(const KvLayout& layout, base::AlignedBuffer arena,
                 base::MemoryReservation reservation)
    : layout_(layout), arena_(std::move(arena)), reservation_(std::move(reservation)) {}

Result<KvStore> KvStore::Create(const KvLayout& layout, base::MemoryLedger& ledger,
                                InitialFill fill) {
  base::AlignedBuffer arena = base::AlignedBuffer::Allocate(layout.arena_bytes);
  if (!arena || (fill == InitialFill::kPopulated && !arena.Populate())) {
    return Status::ResourceExhausted(
        fmt::format("KV cache: the system refuses {} bytes ({} blocks of {} tokens)",
                    layout.arena_bytes, layout.num_blocks, layout.spec.block_size_tokens));
  }
  if (fill == InitialFill::kNaN) FillWithNaN(arena, layout.dtype);
  return KvStore(layout, std::move(arena),
                 ledger.Reserve(MemoryTag::kKvCache, static_cast<int64_t>(layout.arena_bytes)));
}

kernels::PagedKvView KvStore::View(int32_t layer, std::span<const uint32_t> block_table) {
  OCTAVO_DCHECK(layer >= 0 && layer < layout_.spec.num_layers, "this layer stores no K and V");
  return {.base = arena_.data() + layout_.KeyOffset(layer, 0, 0),
          .block_stride_bytes = layout_.block_stride_bytes,
          .head_stride_bytes = layout_.head_stride_bytes,
          .v_offset_bytes = layout_.v_offset_bytes,
          .block_table = block_table.data(),
          .block_size_tokens = layout_.spec.block_size_tokens,
          .head_dim = layout_.spec.head_dim,
          .dtype = layout_.dtype};
}

void KvStore::CopyBlock(kvcache::BlockId source, kvcache::BlockId destination) {
  OCTAVO_CHECK(source != destination, "a block is not copied over itself");
  CopyBlockBetween(*this, source, *this, destination);
}

void CopyBlockBetween(const KvStore& from, kvcache::BlockId source, KvStore& to,
                      kvcache::BlockId destination) {
  OCTAVO_CHECK(
      source.value() < from.layout_.num_blocks && destination.value() < to.layout_.num_blocks,
      "this block is not in the store");
  OCTAVO_CHECK(from.layout_.block_stride_bytes == to.layout_.block_stride_bytes &&
                   from.layout_.layer_stride_bytes == to.layout_.layer_stride_bytes,
               "the stores have the same geometry");
  std::memcpy(to.arena_.data() + to.layout_.KeyOffset(0, destination.value(), 0),
              from.arena_.data() + from.layout_.KeyOffset(0, source.value(), 0),
              from.layout_.block_stride_bytes);
}

}  // namespace octavo::kvstore
