#include "engine/scheduling/admission.h"

#include <limits>

#include "base/check.h"
#include "base/checked_math.h"

namespace octavo::engine {
namespace {

constexpr int64_t kUncountable = std::numeric_limits<int64_t>::max();

// Each sequence holds its output's blocks, and one more: its copy of the block in which the prompt
// ends, or of the one that it shared with another until it wrote.
std::optional<int64_t> NumBlocksInLockstep(const RequestDemand& demand, int64_t block_size) {
  const int64_t prompt = base::CeilDivide(demand.num_prompt_tokens, block_size);
  const int64_t output = base::CeilDivide(demand.max_output_tokens, block_size);
  const auto own = base::CheckedMultiply<int64_t>(demand.num_sequences, output + 1);
  return own ? base::CheckedAdd(prompt, *own) : std::nullopt;
}

}  // namespace

int64_t NumBlocksAlone(const RequestDemand& demand, int32_t block_size_tokens) {
  OCTAVO_DCHECK(block_size_tokens > 0, "a block holds tokens");
  OCTAVO_DCHECK(demand.num_prompt_tokens >= 0 && demand.max_output_tokens >= 0, "counts");
  const int64_t block_size = block_size_tokens;
  if (demand.in_lockstep && demand.shares_blocks) {
    return NumBlocksInLockstep(demand, block_size).value_or(kUncountable);
  }
  const auto tokens = base::CheckedAdd(demand.num_prompt_tokens, demand.max_output_tokens);
  if (!tokens) return kUncountable;
  const int64_t one = base::CeilDivide(*tokens, block_size);
  if (!demand.in_lockstep) return one;
  return base::CheckedMultiply<int64_t>(demand.num_sequences, one).value_or(kUncountable);
}

std::optional<Refusal> RefuseIfImpossible(const RequestDemand& demand, uint32_t num_blocks,
                                          const SchedulerLimits& limits) {
  if (demand.num_sequences > limits.max_num_seqs) {
    return Refusal{Refusal::Reason::kSequences, demand.num_sequences, limits.max_num_seqs};
  }
  const int64_t needed = NumBlocksAlone(demand, limits.block_size_tokens);
  if (needed > int64_t{num_blocks}) return Refusal{Refusal::Reason::kBlocks, needed, num_blocks};
  return std::nullopt;
}

}  // namespace octavo::engine
