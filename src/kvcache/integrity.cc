#include "octavo/kvcache/integrity.h"

#include <fmt/format.h>

#include <utility>

namespace octavo::kvcache {
namespace {

// Walks the free list from its head; on return on_list[b] says whether block b was met. Stops at
// the first broken link, since what follows it is not known to be the list.
size_t WalkFreeList(const BlockPoolState& state, std::vector<bool>& on_list,
                    IntegrityReport& report) {
  size_t length = 0;
  uint32_t previous = kNoBlock;
  for (uint32_t block = state.first_free; block != kNoBlock;) {
    if (block >= state.blocks.size()) {
      report.Add(fmt::format("the free list leads to block {}, the pool has {}", block,
                             state.blocks.size()));
      break;
    }
    if (on_list[block]) {
      report.Add(fmt::format("the free list comes back to block {}", block));
      break;
    }
    if (state.blocks[block].prev_free != previous) {
      report.Add(fmt::format("block {} follows {} on the free list, its own link says {}", block,
                             previous, state.blocks[block].prev_free));
    }
    on_list[block] = true;
    ++length;
    previous = block;
    block = state.blocks[block].next_free;
  }
  return length;
}

}  // namespace

std::string IntegrityReport::ToString() const {
  if (ok()) return "ok";
  std::string text;
  for (const std::string& finding : findings) {
    if (!text.empty()) text += "; ";
    text += finding;
  }
  if (num_findings > findings.size()) {
    text += fmt::format("; and {} more", num_findings - findings.size());
  }
  return text;
}

void IntegrityReport::Add(std::string finding) {
  ++num_findings;
  if (findings.size() < kMaxFindings) findings.push_back(std::move(finding));
}

void IntegrityReport::Append(const IntegrityReport& other) {
  for (const std::string& finding : other.findings) Add(finding);
  num_findings += other.num_findings - other.findings.size();
}

IntegrityReport AuditPool(const BlockPoolState& state) {
  IntegrityReport report;
  std::vector<bool> on_list(state.blocks.size());
  const size_t length = WalkFreeList(state, on_list, report);
  if (length != state.num_free) {
    report.Add(fmt::format("num_free is {}, the free list holds {}", state.num_free, length));
  }
  size_t num_evictable = 0;
  for (size_t b = 0; b < state.blocks.size(); ++b) {
    const BlockPoolState::Block& block = state.blocks[b];
    if (block.is_evictable) ++num_evictable;
    if ((on_list[b] || block.is_evictable) && block.ref_count != 0) {
      report.Add(fmt::format("block {} is {} with {} references", b,
                             on_list[b] ? "on the free list" : "evictable", block.ref_count));
    }
    if (on_list[b] && block.is_evictable) {
      report.Add(fmt::format("block {} is on the free list and evictable", b));
    }
    if (on_list[b]) continue;
    if (block.ref_count == 0 && !block.is_evictable) {
      report.Add(fmt::format("block {} has no reference and is not on the free list", b));
    }
    if (block.prev_free != kNoBlock || block.next_free != kNoBlock) {
      report.Add(fmt::format("block {} is not on the free list but has links", b));
    }
  }
  if (num_evictable != state.num_evictable) {
    report.Add(
        fmt::format("num_evictable is {}, {} blocks are", state.num_evictable, num_evictable));
  }
  return report;
}

IntegrityReport AuditReferences(const BlockPoolState& state,
                                std::span<const std::span<const uint32_t>> tables) {
  IntegrityReport report;
  std::vector<uint32_t> num_entries(state.blocks.size());
  for (const auto& table : tables) {
    for (const uint32_t block : table) {
      if (block < num_entries.size()) {
        ++num_entries[block];
      } else {
        report.Add(fmt::format("a block table names block {}, the pool has {}", block,
                               num_entries.size()));
      }
    }
  }
  for (size_t b = 0; b < num_entries.size(); ++b) {
    if (num_entries[b] != state.blocks[b].ref_count) {
      report.Add(fmt::format("block {} has {} references, the block tables hold {}", b,
                             state.blocks[b].ref_count, num_entries[b]));
    }
  }
  return report;
}

}  // namespace octavo::kvcache
