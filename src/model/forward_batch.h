#pragma once

// Purpose:    what one step computes, as the model sees it: rows of tokens, and for each sequence
//             where its K and V lie.
// Ownership:  borrows everything; valid during Model::Forward.
// Threading:  read-only.
// Invariants: slices cover the rows in order without gaps; a slice's rows have consecutive
//             positions; its block table reaches its last position.

#include <cstdint>
#include <span>

#include "octavo/types.h"

namespace octavo::model {

struct SequenceSlice {
  int64_t num_rows = 0;
  int64_t first_position = 0;             // of its first row
  std::span<const uint32_t> block_table;  // logical -> physical blocks
};

struct ForwardBatch {
  std::span<const TokenId> tokens;        // [num_rows]
  std::span<const SequenceSlice> slices;  // [num_sequences]
  std::span<const int32_t> output_rows;   // rows whose final hidden state is wanted, ascending
};

}  // namespace octavo::model
