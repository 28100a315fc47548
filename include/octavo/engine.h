#pragma once

// Purpose:    the engine: one loaded model, its tokenizer, its KV cache and its compute threads.
// Ownership:  Engine owns everything; a Session borrows its Engine and must not outlive it.
// Threading:  an Engine and its Sessions are used by one thread at a time; Abort() alone may be
//             called from any thread and from a signal handler. Callbacks run on the calling
//             thread, between steps, in the default floating-point environment; the caller's own is
//             restored when the call returns. A callback may call Abort(), and nothing else of the
//             engine that runs.
// Invariants: for one model file, one KvCacheDtype, one ComputeType and one request the token ids
//             and log-probabilities are bit-identical whatever the block size, chunk size, cache
//             mode, threads, instruction set and cached prefix are (docs/contracts/exactness.md).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/engine_options.h"
#include "octavo/memory_plan.h"
#include "octavo/request_output.h"
#include "octavo/sampling_params.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct TokenizeOptions {
  bool add_special = true;     // the tokens that begin and end a text, where the model wants them
  bool parse_special = false;  // text that spells a special token becomes that token
};

struct ModelInfo {
  std::string name;          // general.name, or the file's name
  std::string architecture;  // "llama"
  int32_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t hidden_dim = 0, ffn_dim = 0, vocab_size = 0;
  int32_t context_length = 0;  // tokens, as trained
  int32_t max_model_len = 0;   // tokens, as this engine allows
  std::string simd;            // the kernels in use: "reference", "avx2", "avx512" or "neon"
  int32_t threads = 0;
  double load_s = 0;
};

// Called for each piece of a stream; returning false stops the request with finish_reason "abort".
using DeltaCallback = std::function<bool(const RequestDelta&)>;

// A conversation whose K and V stay in the cache between calls: each Generate reuses the longest
// common prefix of its prompt with what the session holds already, token by token.
class Session {
 public:
  virtual ~Session() = default;

  // Runs one request to its end. An empty prompt, a prompt longer than the context or a parameter
  // out of range is kInvalidArgument, before any work is done. When other sessions hold so many
  // blocks that this request cannot go on, it ends with kResourceExhausted; what it had computed
  // stays in the session.
  virtual Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                         const SamplingParams& params,
                                         const DeltaCallback& on_delta = nullptr) = 0;
};

class Engine {
 public:
  // Loads the model and reserves its memory. Errors: a missing, corrupt or unsupported file,
  // options out of range, too little memory, a processor without AVX2 and FMA.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // One request in a session of its own.
  virtual Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                         const SamplingParams& params,
                                         const DeltaCallback& on_delta = nullptr) = 0;
  // The same for text: Tokenize with the default options, then Generate.
  virtual Result<RequestOutput> Generate(std::string_view prompt, const SamplingParams& params,
                                         const DeltaCallback& on_delta = nullptr) = 0;

  virtual std::unique_ptr<Session> NewSession() = 0;

  // Makes the request that runs now end after its current step, with finish_reason "abort".
  // Async-signal-safe.
  virtual void Abort() = 0;

  virtual Result<std::vector<TokenId>> Tokenize(std::string_view text,
                                                const TokenizeOptions& options = {}) const = 0;
  // The text of `token_ids`; ENSURES: the bytes are exactly those of the tokens that are not
  // skipped, but for the space that SentencePiece puts in front of a text. They need not be UTF-8.
  virtual Result<std::string> Detokenize(const std::vector<TokenId>& token_ids,
                                         bool skip_special_tokens = true) const = 0;
  // The bytes of one token. REQUIRES: 0 <= id < vocab_size.
  virtual std::string TokenBytes(TokenId id) const = 0;
  // The prompt that the model's chat template makes of `messages`, ready for Generate.
  virtual Result<std::vector<TokenId>> ApplyChatTemplate(
      const std::vector<ChatMessage>& messages, bool add_generation_prompt = true) const = 0;

  virtual const ModelInfo& model_info() const = 0;
  virtual MemoryPlan memory_plan() const = 0;

  // The block pool's own audit: OK, or a Status that says which count is wrong. O(blocks).
  virtual Status CheckIntegrity() const = 0;
};

}  // namespace octavo
