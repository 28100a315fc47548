#pragma once

// Purpose:    the engine behind include/octavo/engine.h: it builds the parts in the right order and
//             lends them to requests.
// Ownership:  owns every part; members are declared so that what borrows is destroyed before what
//             it borrows from.
// Threading:  as engine.h says.
// Invariants: a request is checked before anything is computed; the memory plan is accepted before
//             memory is taken.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "engine/engine_core.h"
#include "engine/engine_loop.h"
#include "engine/memory_planner.h"
#include "engine/model_executor.h"
#include "formats/gguf_file.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "octavo/engine.h"
#include "structured/grammar_compiler.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace octavo::engine {

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  Result<std::unique_ptr<RequestStream>> Submit(Request request, UpdateCallback on_update) override;
  Status Check(const Request& request) const override;
  Result<RequestOutput> Generate(Request request, const DeltaCallback& on_delta) override;
  Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                 const SamplingParams& params,
                                 const DeltaCallback& on_delta) override;
  Result<RequestOutput> Generate(std::string_view prompt, const SamplingParams& params,
                                 const DeltaCallback& on_delta) override;
  void Abort() override { loop_->AbortAll(); }
  Result<std::vector<TokenId>> Tokenize(std::string_view text,
                                        const TokenizeOptions& options) const override;
  Result<std::string> Detokenize(const std::vector<TokenId>& token_ids,
                                 bool skip_special_tokens) const override;
  std::string TokenBytes(TokenId id) const override;
  bool IsCompiled(const StructuredOutputs& outputs) override;
  bool IsSpecialToken(TokenId id) const override;
  Result<ChatPrompt> ApplyChatTemplate(const ChatInput& input) const override;
  Result<std::vector<TokenId>> ApplyChatTemplate(const std::vector<ChatMessage>& messages,
                                                 bool add_generation_prompt) const override;
  const ModelInfo& model_info() const override { return info_; }
  MemoryPlan memory_plan() const override;
  EngineStats stats() const override { return loop_->stats(); }
  std::vector<kvcache::BlockExplanation> Explain(const std::vector<TokenId>& prompt_token_ids,
                                                 std::string_view cache_salt) override;
  PinnedPrefix Pin(const std::vector<TokenId>& prompt_token_ids, int64_t ttl_ms,
                   std::string_view cache_salt) override;
  bool Unpin(uint64_t pin_id) override;
  void ResetPrefixCache() override;
  Status CheckIntegrity() override;

 private:
  explicit EngineImpl(formats::GgufFile file) : file_(std::move(file)) {}
  Status LoadText(const ModelOptions& options);
  Status LoadChatTemplate(const ModelOptions& options);
  Status Load(const EngineOptions& options, const kernels::KernelTable& kernels);
  Status AllocateBuffers();
  void StartCore(const EngineOptions& options);
  void FillInfo(const EngineOptions& options, const kernels::KernelTable& kernels);
  kvcache::RootKey RootOf(const EngineOptions& options) const;
  structured::GrammarCompiler& grammar_compiler();
  // The grammar of a request's structured outputs; null without.
  Status CheckBeforeGrammar(const Request& request) const;
  Result<std::shared_ptr<const structured::CompiledGrammar>> CompileGrammar(const Request& request);

  base::MemoryLedger ledger_;
  formats::GgufFile file_;
  model::ModelConfig config_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  Status chat_template_status_;
  std::vector<TokenId> eos_token_ids_;
  bool by_priority_ = false;
  std::once_flag grammar_compiler_once_;
  std::optional<structured::GrammarCompiler> grammar_compiler_;  // made when first asked for
  EnginePlan plan_;
  int32_t max_rows_ = 0;
  std::unique_ptr<base::ThreadPool> threads_;
  std::unique_ptr<model::Model> model_;
  std::optional<kvstore::KvStore> store_;
  std::optional<kvstore::KvStore> swap_store_;  // absent without swap space
  base::AlignedBuffer logits_;                  // [kMaxLogitsRows, vocab_size]
  base::MemoryReservation logits_reservation_;
  base::MemoryReservation tokenizer_reservation_;
  ModelInfo info_;  // its load timing is filled while the engine is made
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<EngineCore> core_;
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses all of the above
};

}  // namespace octavo::engine
