#pragma once

// Purpose:    the block pool's books as plain data, and the audit that reads them.
// Ownership:  values.
// Threading:  pure functions of their arguments.
// Invariants: an audit never aborts, whatever the books say; it reports at most kMaxFindings
//             findings and counts the rest.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "octavo/kvcache/block_id.h"

namespace octavo::kvcache {

struct BlockPoolState {
  struct Block {
    uint32_t ref_count = 0;
    uint32_t prev_free = kNoBlock;  // links of the free list; kNoBlock while in use
    uint32_t next_free = kNoBlock;
    bool is_evictable = false;  // without a reference, but its content is kept
  };
  std::vector<Block> blocks;  // [num_blocks], indexed by block id
  uint32_t first_free = kNoBlock;
  uint32_t num_free = 0;
  uint32_t num_evictable = 0;
};

struct IntegrityReport {
  static constexpr size_t kMaxFindings = 16;

  std::vector<std::string> findings;  // one sentence each, with the block and the figures
  size_t num_findings = 0;            // all of them, also those past kMaxFindings

  bool ok() const { return num_findings == 0; }
  // "ok", or the findings on one line.
  std::string ToString() const;
  void Add(std::string finding);
  void Append(const IntegrityReport& other);
};

// Free list, kept blocks and counts against each other.
IntegrityReport AuditPool(const BlockPoolState& state);

// Reference counts against the entries of all block tables (a block id for each entry).
IntegrityReport AuditReferences(const BlockPoolState& state,
                                std::span<const std::span<const uint32_t>> tables);

}  // namespace octavo::kvcache
