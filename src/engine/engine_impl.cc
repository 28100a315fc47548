#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/float_mode.h"
#include "base/machine.h"
#include "kernels/kernel_table.h"

namespace octavo {

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  return engine::EngineImpl::Create(options);
}

namespace engine {
namespace {

constexpr int32_t kMaxThreads = 256;
constexpr int32_t kMaxBatchedTokens = 16384;

Status CheckRange(std::string_view name, std::optional<int64_t> value, int64_t low, int64_t high) {
  if (!value || (*value >= low && *value <= high)) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be in [{}, {}]", name, *value, low, high));
}

Status CheckOptions(const EngineOptions& options) {
  if (options.model.path.empty()) return Status::InvalidArgument("the model's path is empty");
  const Status checks[] = {
      CheckRange("max_model_len", options.model.max_model_len, 1, 1 << 27),
      CheckRange("threads", options.device.threads, 1, kMaxThreads),
      CheckRange("max_num_batched_tokens", options.scheduler.max_num_batched_tokens, 1,
                 kMaxBatchedTokens),
      CheckRange("kv_cache_memory_bytes", options.cache.kv_cache_memory_bytes, 1, INT64_MAX),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  const double utilization = options.cache.gpu_memory_utilization;
  if (!(utilization > 0.0) || utilization > 1.0) {
    return Status::InvalidArgument(
        fmt::format("gpu_memory_utilization is {}, but must be in (0, 1]", utilization));
  }
  if (!kvcache::IsBlockSize(options.cache.block_size)) {
    return Status::InvalidArgument(fmt::format(
        "block_size is {}, but must be 8, 16, 32, 64, 128 or 256", options.cache.block_size));
  }
  return Status::Ok();
}

uint64_t DrawSeed() {
  std::random_device entropy;
  return (static_cast<uint64_t>(entropy()) << 32) | entropy();
}

Result<const kernels::KernelTable*> ChooseKernels(SimdLevel level) {
  const kernels::KernelTable* best = kernels::BestKernels();
  if (best == nullptr) {
    return Status::Unavailable(
        "this processor lacks AVX2, FMA or F16C; octavo needs an x86-64-v3 processor (Intel "
        "Haswell, AMD Zen or later) or 64-bit Arm");
  }
  const kernels::KernelTable* table = best;
  switch (level) {
    case SimdLevel::kAuto:
      break;
    case SimdLevel::kReference:
      table = kernels::FindKernels(kernels::Isa::kReference);
      break;
    case SimdLevel::kAvx2:
      table = kernels::FindKernels(kernels::Isa::kAvx2);
      break;
    case SimdLevel::kAvx512:
      table = kernels::FindKernels(kernels::Isa::kAvx512);
      break;
    case SimdLevel::kNeon:
      table = kernels::FindKernels(kernels::Isa::kNeon);
      break;
  }
  if (table == nullptr) {
    return Status::Unavailable(fmt::format(
        "this processor cannot run the kernels that --simd asks for; the best it can run is {}",
        best->name));
  }
  return table;
}

}  // namespace

// One conversation; see engine.h.
class SessionImpl : public Session {
 public:
  explicit SessionImpl(EngineImpl& engine)
      : engine_(engine), sequence_(engine.MakeContext().sequence) {
    engine_.live_tables_.push_back(&sequence_.table());
  }
  ~SessionImpl() override { std::erase(engine_.live_tables_, &sequence_.table()); }

  Result<RequestOutput> Generate(const std::vector<TokenId>& prompt_token_ids,
                                 const SamplingParams& params,
                                 const DeltaCallback& on_delta) override {
    return engine_.Run(sequence_, prompt_token_ids, params, on_delta);
  }

 private:
  EngineImpl& engine_;
  Sequence sequence_;
};

Result<std::unique_ptr<Engine>> EngineImpl::Create(const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const base::ScopedFloatMode float_mode;  // for the rotary frequencies, computed on this thread
  const Result<const kernels::KernelTable*> kernels = ChooseKernels(options.device.simd);
  if (!kernels.ok()) return kernels.status();
  if (Status status = CheckOptions(options); !status.ok()) return status;

  Result<formats::GgufFile> file = formats::GgufFile::Open(options.model.path);
  if (!file.ok()) return file.status();
  std::unique_ptr<EngineImpl> engine(new EngineImpl(*std::move(file)));
  if (Status status = engine->LoadText(); !status.ok()) return status;
  if (Status status = engine->Load(options, **kernels); !status.ok()) return status;
  engine->FillInfo(options, **kernels);
  engine->info_.load_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::unique_ptr<Engine>(std::move(engine));
}

// Configuration, tokenizer and chat template; a file without a usable template serves everything
// but chat.
Status EngineImpl::LoadText() {
  Result<model::ModelConfig> config = model::ReadModelConfig(file_);
  if (!config.ok()) return config.status();
  config_ = *std::move(config);

  Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::LoadTokenizer(file_);
  if (!tokenizer.ok()) return tokenizer.status();
  tokenizer_ = *std::move(tokenizer);
  if (tokenizer_->vocab_size() != config_.vocab_size) {
    return Status::DataLoss(
        fmt::format("{}: the tokenizer has {} tokens, but token_embd.weight {} rows", file_.name(),
                    tokenizer_->vocab_size(), config_.vocab_size));
  }
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->IsEndOfGeneration(id)) eos_token_ids_.push_back(id);
  }
  Result<text::ChatTemplate> chat_template = text::ChatTemplate::FromGguf(file_);
  if (chat_template.ok()) {
    chat_template_ = *std::move(chat_template);
  } else {
    chat_template_status_ = chat_template.status();
  }
  return Status::Ok();
}

Status EngineImpl::Load(const EngineOptions& options, const kernels::KernelTable& kernels) {
  const int32_t num_threads =
      options.device.threads.value_or(std::min(base::NumUsableProcessors(), kMaxThreads));
  cache_mode_ = options.cache.mode;
  max_rows_ = options.scheduler.max_num_batched_tokens.value_or(DefaultMaxNumBatchedTokens(
      config_, kernels.name == "avx512", std::min(num_threads, base::NumUsableProcessors())));

  const Result<int64_t> weight_bytes = model::ModelWeights::PlannedBytes(file_, config_);
  if (!weight_bytes.ok()) return weight_bytes.status();
  const Result<EnginePlan> plan =
      PlanMemory({config_, *weight_bytes, tokenizer_->memory_bytes(),
                  base::ReadMachineMemory().limit_bytes(), max_rows_, num_threads},
                 options.model, options.cache);
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
    ledger_.SetPlanned(static_cast<MemoryTag>(tag), plan_.memory.planned.bytes[tag]);
  }

  Result<kvstore::KvStore> store = kvstore::KvStore::Create(plan_.layout, ledger_);
  if (!store.ok()) return store.status();
  store_.emplace(*std::move(store));
  pool_ = std::make_unique<kvcache::BlockPool>(static_cast<uint32_t>(plan_.layout.num_blocks));
  Result<std::unique_ptr<base::ThreadPool>> threads = base::ThreadPool::Create(num_threads);
  if (!threads.ok()) return threads.status();
  threads_ = *std::move(threads);

  model::ModelOptions model_options;
  model_options.kernels = &kernels;
  model_options.int8_products = options.model.compute == ComputeType::kInt8;
  model_options.max_rows = max_rows_;
  model_options.max_output_rows = max_rows_;
  model_options.max_model_len = plan_.max_model_len;
  model_options.rope_model_len = options.model.max_model_len.value_or(config_.context_length);
  Result<std::unique_ptr<model::Model>> model = model::Model::Load(
      file_, config_, model_options, *threads_, ledger_, options.on_load_progress);
  if (!model.ok()) return model.status();
  model_ = *std::move(model);

  const int64_t logits_bytes = plan_.memory.planned[MemoryTag::kScratch];
  logits_ = base::AlignedBuffer::Allocate(static_cast<size_t>(logits_bytes));
  if (!logits_) {
    return Status::ResourceExhausted(
        fmt::format("cannot allocate {} bytes for the logits", logits_bytes));
  }
  logits_reservation_ = ledger_.Reserve(MemoryTag::kScratch, logits_bytes);
  tokenizer_reservation_ = ledger_.Reserve(MemoryTag::kTokenizer, tokenizer_->memory_bytes());
  return Status::Ok();
}

void EngineImpl::FillInfo(const EngineOptions& options, const kernels::KernelTable& kernels) {
  const size_t slash = options.model.path.find_last_of('/');
  info_.name = config_.name.empty() ? options.model.path.substr(slash + 1) : config_.name;
  info_.architecture = config_.architecture;
  info_.num_layers = config_.num_layers;
  info_.num_heads = config_.num_heads;
  info_.num_kv_heads = config_.num_kv_heads;
  info_.head_dim = config_.head_dim;
  info_.hidden_dim = config_.hidden_dim;
  info_.ffn_dim = config_.ffn_dim;
  info_.vocab_size = config_.vocab_size;
  info_.context_length = config_.context_length;
  info_.max_model_len = plan_.max_model_len;
  info_.simd = kernels.name;
  info_.threads = threads_->num_threads();
}

GenerationContext EngineImpl::MakeContext() {
  GenerationContext context;
  context.sequence = {model_.get(), &*store_,  pool_.get(),
                      cache_mode_,  max_rows_, plan_.max_model_len};
  context.tokenizer = tokenizer_.get();
  context.eos_token_ids = eos_token_ids_;
  context.logits = logits_.As<float>();
  context.abort = &abort_;
  return context;
}

Result<RequestOutput> EngineImpl::Run(Sequence& sequence,
                                      const std::vector<TokenId>& prompt_token_ids,
                                      const SamplingParams& params, const DeltaCallback& on_delta) {
  abort_.store(false, std::memory_order_relaxed);
  const base::ScopedFloatMode float_mode;  // for sampling and log-probabilities, on this thread
  const GenerationContext context = MakeContext();
  if (Status status = Generation::CheckRequest(context, prompt_token_ids, params); !status.ok()) {
    return status;
  }
  Generation generation(context, params, params.seed ? *params.seed : DrawSeed(),
                        static_cast<int64_t>(prompt_token_ids.size()));
  return generation.Run(sequence, prompt_token_ids, on_delta);
}

Result<RequestOutput> EngineImpl::Generate(const std::vector<TokenId>& prompt_token_ids,
                                           const SamplingParams& params,
                                           const DeltaCallback& on_delta) {
  return NewSession()->Generate(prompt_token_ids, params, on_delta);
}

Result<RequestOutput> EngineImpl::Generate(std::string_view prompt, const SamplingParams& params,
                                           const DeltaCallback& on_delta) {
  const Result<std::vector<TokenId>> tokens = Tokenize(prompt, {});
  if (!tokens.ok()) return tokens.status();
  return Generate(*tokens, params, on_delta);
}

std::unique_ptr<Session> EngineImpl::NewSession() { return std::make_unique<SessionImpl>(*this); }

Result<std::vector<TokenId>> EngineImpl::Tokenize(std::string_view text,
                                                  const TokenizeOptions& options) const {
  return tokenizer_->Encode(
      text, {.add_special = options.add_special, .parse_special = options.parse_special});
}

Result<std::string> EngineImpl::Detokenize(const std::vector<TokenId>& token_ids,
                                           bool skip_special_tokens) const {
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= tokenizer_->vocab_size()) {
      return Status::InvalidArgument(fmt::format("token {} is {}, but must be in [0, {}]", i,
                                                 token_ids[i], tokenizer_->vocab_size() - 1));
    }
  }
  return tokenizer_->Decode(token_ids, skip_special_tokens);
}

std::string EngineImpl::TokenBytes(TokenId id) const {
  OCTAVO_CHECK(id >= 0 && id < tokenizer_->vocab_size(), "a token of the vocabulary");
  return std::string(tokenizer_->TokenBytes(id));
}

Result<std::vector<TokenId>> EngineImpl::ApplyChatTemplate(const std::vector<ChatMessage>& messages,
                                                           bool add_generation_prompt) const {
  if (!chat_template_) return chat_template_status_;
  return chat_template_->Encode(*tokenizer_, messages, add_generation_prompt);
}

MemoryPlan EngineImpl::memory_plan() const {
  MemoryPlan plan = plan_.memory;
  plan.actual = ledger_.actual();
  return plan;
}

Status EngineImpl::CheckIntegrity() const {
  const kvcache::IntegrityReport report = pool_->CheckIntegrity(live_tables_);
  if (report.ok()) return Status::Ok();
  return Status::Internal("the block pool's audit failed: " + report.ToString());
}

}  // namespace engine
}  // namespace octavo
