#pragma once

// Purpose:    the engine behind include/octavo/engine.h: it builds the parts in the right order and
//             lends them to requests.
// Ownership:  owns every part; members are declared so that what borrows is destroyed before what
//             it borrows from.
// Threading:  as engine.h says.
// Invariants: a request is checked before anything is computed; the memory plan is accepted before
//             memory is taken.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "engine/generation.h"
#include "engine/memory_planner.h"
#include "formats/gguf_file.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "octavo/engine.h"
#include "octavo/kvcache/block_pool.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace octavo::engine {

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                 const SamplingParams& params,
                                 const DeltaCallback& on_delta) override;
  Result<RequestOutput> Generate(std::string_view prompt, const SamplingParams& params,
                                 const DeltaCallback& on_delta) override;
  std::unique_ptr<Session> NewSession() override;
  void Abort() override { abort_.store(true, std::memory_order_relaxed); }
  Result<std::vector<TokenId>> Tokenize(std::string_view text,
                                        const TokenizeOptions& options) const override;
  Result<std::string> Detokenize(const std::vector<TokenId>& token_ids,
                                 bool skip_special_tokens) const override;
  std::string TokenBytes(TokenId id) const override;
  Result<std::vector<TokenId>> ApplyChatTemplate(const std::vector<ChatMessage>& messages,
                                                 bool add_generation_prompt) const override;
  const ModelInfo& model_info() const override { return info_; }
  MemoryPlan memory_plan() const override;
  Status CheckIntegrity() const override;

 private:
  friend class SessionImpl;

  explicit EngineImpl(formats::GgufFile file) : file_(std::move(file)) {}
  Status LoadText();
  Status Load(const EngineOptions& options, const kernels::KernelTable& kernels);
  void FillInfo(const EngineOptions& options, const kernels::KernelTable& kernels);
  Result<RequestOutput> Run(Sequence& sequence, const std::vector<TokenId>& prompt_token_ids,
                            const SamplingParams& params, const DeltaCallback& on_delta);
  GenerationContext MakeContext();

  base::MemoryLedger ledger_;
  formats::GgufFile file_;
  model::ModelConfig config_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  Status chat_template_status_;
  std::vector<TokenId> eos_token_ids_;
  EnginePlan plan_;
  KvCacheMode cache_mode_ = KvCacheMode::kPaged;
  int32_t max_rows_ = 0;
  std::unique_ptr<base::ThreadPool> threads_;
  std::unique_ptr<model::Model> model_;
  std::optional<kvstore::KvStore> store_;
  std::unique_ptr<kvcache::BlockPool> pool_;
  base::AlignedBuffer logits_;  // [kMaxLogitsRows, vocab_size]
  base::MemoryReservation logits_reservation_;
  base::MemoryReservation tokenizer_reservation_;
  ModelInfo info_;
  std::atomic<bool> abort_{false};
  std::vector<const kvcache::BlockTable*> live_tables_;  // of all sessions, for the audit
};

}  // namespace octavo::engine
