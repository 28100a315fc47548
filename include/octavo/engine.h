#pragma once

// Purpose:    the engine: one loaded model, its tokenizer, its KV cache, its compute threads, and a
//             thread of its own that serves all requests together.
// Ownership:  Engine owns everything; a RequestStream borrows its Engine and must not outlive it.
// Threading:  every method may be called from any thread, but not from within a callback; Abort()
//             also from a callback and from a signal handler. Callbacks run on the thread that
//             called Generate.
// Invariants: for one model file, one KvCacheDtype, one ComputeType and one request the token ids
//             and log-probabilities are bit-identical whatever the block size, chunk size, cache
//             mode, threads, instruction set, cached prefix, other requests and preemptions are
//             (docs/contracts/exactness.md). What was accepted ends; what can never be served is
//             refused when it is submitted.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/chat.h"
#include "octavo/engine_options.h"
#include "octavo/engine_stats.h"
#include "octavo/kvcache/explanation.h"
#include "octavo/memory_plan.h"
#include "octavo/request.h"
#include "octavo/request_output.h"
#include "octavo/request_stream.h"
#include "octavo/sampling_params.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo {

struct TokenizeOptions {
  bool add_special = true;     // the tokens that begin and end a text, where the model wants them
  bool parse_special = false;  // text that spells a special token becomes that token
};

// Where the time of Engine::Create went, in seconds.
struct LoadTiming {
  double open_s = 0;     // the file mapped, its metadata and the place of its tensors checked
  double text_s = 0;     // configuration, tokenizer and chat template
  double weights_s = 0;  // read and packed
  double rest_s = 0;     // memory planned, block pool, threads, buffers
};

struct ModelInfo {
  std::string name;          // general.name, or the file's name
  std::string architecture;  // "llama"
  int32_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t hidden_dim = 0, ffn_dim = 0, vocab_size = 0;
  int32_t context_length = 0;  // tokens, as trained
  int32_t max_model_len = 0;   // tokens, as this engine allows
  int32_t block_size = 0;      // tokens per block of the KV cache
  std::string kv_cache_dtype;  // "float32", "float16", "bfloat16" or "int8"
  std::string simd;            // the kernels in use: "reference", "avx2", "avx512" or "neon"
  int32_t threads = 0;
  double load_s = 0;
  LoadTiming load;         // adds up to load_s
  int64_t file_bytes = 0;  // of the model's file, of all shards
};

// Called for each piece of a stream; returning false stops the request with finish_reason "abort".
using DeltaCallback = std::function<bool(const RequestDelta&)>;

struct PinnedPrefix {
  uint64_t pin_id = 0;
  int64_t num_tokens = 0;
};

class Engine {
 public:
  // Loads the model and reserves its memory. Errors: a missing, corrupt or unsupported file,
  // options out of range, too little memory, a processor without AVX2 and FMA.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Accepts a request; its pieces arrive at the stream, and `on_update` (which may be empty) tells
  // a caller that does not want to wait in Next. An empty prompt, a prompt longer than the
  // context, a parameter out of range or a need beyond the whole cache is kInvalidArgument, before
  // any work is done.
  virtual Result<std::unique_ptr<RequestStream>> Submit(Request request,
                                                        UpdateCallback on_update = nullptr) = 0;

  // What Submit would say of the request, but that structured outputs are only read, not compiled:
  // whether that is possible in time, and whether allowed_token_ids can begin one, shows then.
  virtual Status Check(const Request& request) const = 0;

  // Whether a request with these would be submitted at once, since they are compiled already; else
  // Submit may take seconds. Of this moment: others may take their place.
  virtual bool IsCompiled(const StructuredOutputs& outputs) = 0;

  // Submit, and wait for the end. `on_delta` returning false ends the request: the output is what
  // was delivered until then.
  virtual Result<RequestOutput> Generate(Request request,
                                         const DeltaCallback& on_delta = nullptr) = 0;
  virtual Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                         const SamplingParams& params,
                                         const DeltaCallback& on_delta = nullptr) = 0;
  // The same for text: Tokenize with the default options, then Generate.
  virtual Result<RequestOutput> Generate(std::string_view prompt, const SamplingParams& params,
                                         const DeltaCallback& on_delta = nullptr) = 0;

  // Makes every request that was submitted before this call end after the current step, with
  // finish_reason "abort". Async-signal-safe.
  virtual void Abort() = 0;

  virtual Result<std::vector<TokenId>> Tokenize(std::string_view text,
                                                const TokenizeOptions& options = {}) const = 0;
  // The text of `token_ids`; ENSURES: the bytes are exactly those of the tokens that are not
  // skipped, but for the space that SentencePiece puts in front of a text. They need not be UTF-8.
  virtual Result<std::string> Detokenize(const std::vector<TokenId>& token_ids,
                                         bool skip_special_tokens = true) const = 0;
  // The bytes of one token. REQUIRES: 0 <= id < vocab_size.
  virtual std::string TokenBytes(TokenId id) const = 0;
  // Control and unknown tokens, which are not part of a text. REQUIRES: 0 <= id < vocab_size.
  virtual bool IsSpecialToken(TokenId id) const = 0;
  // The prompt that the chat template makes of a conversation. Errors: kInvalidArgument for an
  // input that is not what ChatInput says or that the template refuses, with the template's own
  // message; kNotFound for a model without a template, kUnimplemented for one that this version
  // cannot read.
  virtual Result<ChatPrompt> ApplyChatTemplate(const ChatInput& input) const = 0;
  // The ids of the prompt for messages of plain text, ready for Generate.
  virtual Result<std::vector<TokenId>> ApplyChatTemplate(
      const std::vector<ChatMessage>& messages, bool add_generation_prompt = true) const = 0;

  virtual const ModelInfo& model_info() const = 0;
  virtual MemoryPlan memory_plan() const = 0;

  // As of the last step; never waits for one. Counts every request whose end the caller has seen.
  virtual EngineStats stats() const = 0;

  // The rest of this interface runs between two steps, and waits for that.

  // For each block of a prompt, whether the cache holds it for this salt, and if not, why.
  virtual std::vector<kvcache::BlockExplanation> Explain(
      const std::vector<TokenId>& prompt_token_ids, std::string_view cache_salt = {}) = 0;
  // Keeps what is cached of a prompt for ttl_ms, within the cap on pins. Returns the tokens that
  // are kept, 0 for none: nothing is cached, the cap is reached, or ttl_ms is below 1.
  virtual PinnedPrefix Pin(const std::vector<TokenId>& prompt_token_ids, int64_t ttl_ms,
                           std::string_view cache_salt = {}) = 0;
  virtual bool Unpin(uint64_t pin_id) = 0;  // false: it had ended already
  // Drops all cached content that no request holds.
  virtual void ResetPrefixCache() = 0;
  // The cache's audit: OK, or a Status that says which count is wrong. O(blocks).
  virtual Status CheckIntegrity() = 0;
};

}  // namespace octavo
