#pragma once

// Purpose:    the caller's end of one running request.
// Ownership:  owned by the caller; must not outlive its Engine. Destroying it aborts the request if
//             it still runs.
// Threading:  one consumer at a time; Abort from any thread.
// Invariants: the pieces of one completion come in order; the last piece of each names its finish
//             reason; after the last piece of the last completion Next returns nothing.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "octavo/request.h"
#include "octavo/request_output.h"

namespace octavo {

// Called on the engine thread when a stream that had nothing to take has something again, a piece
// or the end. Must return soon, and must not call the engine nor wait for the stream.
using UpdateCallback = std::function<void()>;

// A RequestDelta that owns what it shows.
struct RequestUpdate {
  int32_t index = 0;  // of the completion
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;  // one per token, if SamplingParams::logprobs
  FinishReason finish_reason = FinishReason::kNone;
  StopReason stop_reason;
};

class RequestStream {
 public:
  virtual ~RequestStream() = default;

  virtual RequestId id() const = 0;
  // Waits for the next piece; nothing when the request has ended and all was taken.
  virtual std::optional<RequestUpdate> Next() = 0;
  // The next piece if one is there now.
  virtual std::optional<RequestUpdate> TryNext() = 0;
  // True once the request has ended; pieces may still be there to take. Never waits.
  virtual bool has_ended() const = 0;
  // Waits for the end; drops the pieces not taken yet. Does not wait if has_ended(). REQUIRES:
  // called once.
  virtual RequestOutput Finish() = 0;
  // Ends the request within a step, with finish_reason "abort" for what still runs.
  virtual void Abort() = 0;
};

}  // namespace octavo
