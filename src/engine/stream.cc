#include "engine/stream.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace octavo::engine {

void StreamState::OnDelta(const RequestDelta& delta) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (discards_) return;
    was_empty = updates_.empty();
    updates_.push_back({delta.index,
                        std::string(delta.text),
                        {delta.token_ids.begin(), delta.token_ids.end()},
                        {delta.logprobs.begin(), delta.logprobs.end()},
                        delta.finish_reason,
                        delta.stop_reason});
  }
  changed_.notify_one();
  if (was_empty && on_update_) on_update_();
}

void StreamState::OnEnd(RequestOutput output) {
  {
    const std::lock_guard lock(mutex_);
    output_ = std::move(output);
  }
  changed_.notify_one();
  if (on_update_) on_update_();
}

std::optional<RequestUpdate> StreamState::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !updates_.empty() || output_.has_value(); });
  return TakeFirst();
}

std::optional<RequestUpdate> StreamState::TryNext() {
  const std::lock_guard lock(mutex_);
  return TakeFirst();
}

bool StreamState::has_ended() const {
  const std::lock_guard lock(mutex_);
  return output_.has_value();
}

// REQUIRES: mutex_ is held.
std::optional<RequestUpdate> StreamState::TakeFirst() {
  if (updates_.empty()) return std::nullopt;
  RequestUpdate update = std::move(updates_.front());
  updates_.pop_front();
  return update;
}

RequestOutput StreamState::WaitForEnd() {
  std::unique_lock lock(mutex_);
  discards_ = true;
  updates_.clear();
  changed_.wait(lock, [this] { return output_.has_value(); });
  RequestOutput output = *std::move(output_);
  return output;
}

std::optional<RequestUpdate> Stream::Next() {
  std::optional<RequestUpdate> update = state_->Next();
  if (!update) ended_ = true;
  return update;
}

RequestOutput Stream::Finish() {
  RequestOutput output = state_->WaitForEnd();
  ended_ = true;
  return output;
}

namespace {

// What one completion's pieces came to so far.
struct Delivered {
  size_t num_tokens = 0;
  size_t num_bytes = 0;
  bool ended = false;
};

void CutTo(const Delivered& delivered, CompletionOutput* output) {
  if (delivered.ended) return;
  output->token_ids.resize(std::min(delivered.num_tokens, output->token_ids.size()));
  output->text.resize(std::min(delivered.num_bytes, output->text.size()));
  output->logprobs.resize(std::min(delivered.num_tokens, output->logprobs.size()));
  output->cumulative_logprob = 0.0;
  for (const TokenLogprobs& token : output->logprobs) {
    output->cumulative_logprob += static_cast<double>(token.chosen.logprob);
  }
  output->finish_reason = FinishReason::kAbort;
  output->stop_reason = std::monostate();
}

}  // namespace

RequestOutput Deliver(RequestStream& stream, const DeltaCallback& on_delta) {
  if (!on_delta) return stream.Finish();
  std::vector<Delivered> delivered;
  while (const std::optional<RequestUpdate> update = stream.Next()) {
    const auto index = static_cast<size_t>(update->index);
    if (delivered.size() <= index) delivered.resize(index + 1);
    delivered[index].num_tokens += update->token_ids.size();
    delivered[index].num_bytes += update->text.size();
    delivered[index].ended = update->finish_reason != FinishReason::kNone;
    if (on_delta({update->index, update->text, update->token_ids, update->logprobs,
                  update->finish_reason, update->stop_reason})) {
      continue;
    }
    stream.Abort();
    RequestOutput output = stream.Finish();
    delivered.resize(output.outputs.size());
    for (size_t i = 0; i < delivered.size(); ++i) CutTo(delivered[i], &output.outputs[i]);
    return output;
  }
  return stream.Finish();
}

}  // namespace octavo::engine
