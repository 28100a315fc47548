#pragma once

// Purpose:    writing K and V into blocks, and the canonical attention over them (arithmetic.md A8,
//             A8b, A9).
// Threading:  pure; callers split (kv head, rows, chunk) among threads.
// Invariants: the result of a query row depends on its own query and on the visible stored K and V
//             only.
// Layout of one (layer, block), B = block_size_tokens, T = min(B, 16), per kv head:
//             K [B / T][head_dim][T], then V [B][head_dim]; elements of `dtype`. INT8: codes of K
//             [B / T][head_dim / 4][T][4], then of V [B / 4][head_dim][4], so that each group of 4
//             bytes is one operand of an integer dot product; then FP16 scales of K [B] and V [B].

#include <cstddef>
#include <cstdint>

namespace octavo::kernels {

enum class KvDtype : uint8_t { kFloat32, kFloat16, kBFloat16, kInt8 };

// One layer's K and V of one sequence, as a kernel sees it.
struct PagedKvView {
  std::byte* base;              // the layer's block 0; 64-byte aligned
  size_t block_stride_bytes;    // from block id b to b + 1; a multiple of 64
  size_t head_stride_bytes;     // from kv head h to h + 1 within a block; a multiple of 64
  size_t v_offset_bytes;        // from a head's K to its V; a multiple of 64
  const uint32_t* block_table;  // [ceil(num_tokens / block_size_tokens)]: logical -> physical
  int32_t block_size_tokens;    // 8, 16, 32, 64, 128 or 256
  int32_t head_dim;             // a multiple of 8, up to 256
  KvDtype dtype;
};

// INT8: from a head's K to its scales. V's codes take as many bytes as K's.
inline size_t ScalesOffsetBytes(const PagedKvView& view) { return 2 * view.v_offset_bytes; }

// Query rows that one block table serves: rows of one sequence at consecutive positions, or rows of
// several sequences that see the same positions of blocks that they share.
struct QueryRows {
  const float* q;          // [num_rows, row_stride], after RoPE: head h of row r begins at
                           // q + r * row_stride + h * head_dim
  int64_t row_stride;      // elements
  int64_t num_rows;        // at least 1
  int64_t first_position;  // the last position that row 0 sees
  int64_t position_step;   // what each further row sees more: 1 (one sequence) or 0 (several)
  int32_t group_size;      // query heads per kv head: kv head k serves heads k * group_size ..
  float scale;             // 1 / sqrt(head_dim)
};

// Tiles [begin, end) of one chunk, counted from position 0.
struct TileSpan {
  int64_t begin;
  int64_t end;
};

// What one chunk leaves for one (row, head): [kPartialHeader + head_dim] floats: m, then padding to
// 16 floats, l[16], acc[head_dim].
inline constexpr int64_t kPartialHeader = 32;
inline constexpr int64_t PartialFloats(int64_t head_dim) { return kPartialHeader + head_dim; }

struct AttentionKernels {
  // Stores K and V of one token (all kv heads; k, v: [num_kv_heads * head_dim]) at `position`.
  void (*store_kv)(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
                   const float* v);
  // Attends all rows x the group's heads to the tiles of one chunk, as far as each row sees them;
  // the states begin anew at a chunk's first tile, and go on from `partials` at any other. A tile
  // is read once for all rows (and unpacked once for each kAttentionPassPairs pairs of a row and a
  // head). partials: [num_rows, group_size, PartialFloats(head_dim)], 64-byte aligned. `scratch`
  // holds AttentionScratchFloats(head_dim) floats, 64-byte aligned. REQUIRES: row 0 sees at least
  // one position of the first tile.
  void (*attend_tiles)(const PagedKvView& view, const QueryRows& rows, int64_t kv_head,
                       TileSpan tiles, float* scratch, float* partials);
  // Folds the next chunk's partial into the running one (both [PartialFloats(head_dim)]).
  void (*fold_partial)(float* running, const float* next, int64_t head_dim);
  // out[d] = A[d] / lane tree(L).
  void (*finish)(const float* running, int64_t head_dim, float* out);
};

// Rows of a prompt that are attended together.
inline constexpr int64_t kMaxAttentionRows = 16;
// Pairs of a row and a head that share one unpacked tile, and the floats from one packed query to
// the next.
inline constexpr int64_t kAttentionPassPairs = 48;
inline constexpr int64_t kAttentionQueryStride = 256 + 16;
// Room for one tile of K and one of V as float32, and for the queries and the tile's scores of a
// pass.
inline constexpr int64_t AttentionScratchFloats(int64_t head_dim) {
  return 2 * 32 * head_dim + kAttentionPassPairs * (kAttentionQueryStride + 32);
}

}  // namespace octavo::kernels
