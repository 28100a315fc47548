#include "engine/sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace octavo::engine {
namespace {

size_t BlocksForContext(const SequenceContext& context) {
  const int64_t block_size = context.store->layout().spec.block_size_tokens;
  return static_cast<size_t>((context.max_model_len + block_size - 1) / block_size);
}

}  // namespace

Sequence::Sequence(const SequenceContext& context)
    : context_(context),
      table_(context.pool, context.store->layout().spec.block_size_tokens,
             BlocksForContext(context)) {
  tokens_.reserve(static_cast<size_t>(context.max_model_len));
  output_rows_.reserve(static_cast<size_t>(context.max_rows));
}

int64_t Sequence::Reset(std::span<const TokenId> tokens, int64_t max_cached) {
  const int64_t comparable =
      std::min({num_computed_tokens(), max_cached, static_cast<int64_t>(tokens.size())});
  int64_t kept = 0;
  while (kept < comparable &&
         tokens_[static_cast<size_t>(kept)] == tokens[static_cast<size_t>(kept)]) {
    ++kept;
  }
  if (context_.mode == KvCacheMode::kContiguous) {
    table_.Rewind(kept);  // the one reservation stays
  } else {
    table_.Truncate(kept);
  }
  tokens_.assign(tokens.begin(), tokens.end());
  return kept;
}

Status Sequence::EnsureBlocks(int64_t num_tokens) {
  if (context_.mode == KvCacheMode::kContiguous && table_.num_blocks() == 0) {
    const auto num_blocks = static_cast<uint32_t>(BlocksForContext(context_));
    std::optional<std::vector<kvcache::BlockRef>> run =
        context_.pool->AllocateContiguous(num_blocks);
    if (run.has_value()) {
      for (kvcache::BlockRef& block : *run) table_.Append(std::move(block));
    }
  }
  if (context_.mode == KvCacheMode::kContiguous ? table_.capacity_tokens() >= num_tokens
                                                : table_.EnsureCapacity(num_tokens)) {
    return Status::Ok();
  }
  return Status::ResourceExhausted(fmt::format(
      "the KV cache is full: {} tokens need {} blocks of {} tokens, but of {} blocks only {} are "
      "free beside the {} that this sequence holds; end another session or raise "
      "kv_cache_memory_bytes",
      num_tokens, context_.store->layout().spec.NumBlocksForTokens(num_tokens),
      table_.block_size_tokens(), context_.pool->num_blocks(), context_.pool->num_free(),
      table_.num_blocks()));
}

Status Sequence::Compute(OutputRows output_rows, const StepCallback& on_step) {
  const auto num_tokens = static_cast<int64_t>(tokens_.size());
  OCTAVO_CHECK(num_tokens <= context_.max_model_len, "the caller has checked the length");
  while (num_computed_tokens() < num_tokens) {
    const int64_t first = num_computed_tokens();
    const int64_t count = std::min<int64_t>(num_tokens - first, context_.max_rows);
    if (Status status = EnsureBlocks(first + count); !status.ok()) return status;

    const bool is_last = first + count == num_tokens;
    output_rows_.clear();
    if (output_rows == OutputRows::kAll) {
      for (int32_t row = 0; row < count; ++row) output_rows_.push_back(row);
    } else if (is_last) {
      output_rows_.push_back(static_cast<int32_t>(count - 1));
    }
    const model::SequenceSlice slice{count, first, table_.block_ids()};
    context_.model->Forward(
        {std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
         std::span(&slice, 1), output_rows_},
        *context_.store);
    table_.Advance(count);
    if (!on_step) continue;
    const auto num_outputs = static_cast<int64_t>(output_rows_.size());
    if (!on_step(first + count - num_outputs, num_outputs)) break;
  }
  if (context_.mode == KvCacheMode::kNone) table_.Truncate(0);
  return Status::Ok();
}

}  // namespace octavo::engine
