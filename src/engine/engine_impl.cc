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
#include "engine/compute_type.h"
#include "engine/stream.h"
#include "kernels/arithmetic_version.h"
#include "kernels/kernel_table.h"
#include "structured/grammar_guard.h"

namespace octavo {

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  return engine::EngineImpl::Create(options);
}

namespace engine {
namespace {

constexpr int32_t kMaxThreads = 256;
constexpr int32_t kMaxBatchedTokens = 16384;
constexpr int32_t kMaxSequences = 4096;

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
      CheckRange("swap_space_bytes", options.cache.swap_space_bytes, 0, INT64_MAX),
      CheckRange("max_num_seqs", options.scheduler.max_num_seqs, 1, kMaxSequences),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  const double utilization = options.cache.gpu_memory_utilization;
  if (!(utilization > 0.0) || utilization > 1.0) {
    return Status::InvalidArgument(
        fmt::format("gpu_memory_utilization is {}, but must be in (0, 1]", utilization));
  }
  const double pinned = options.cache.max_pinned_share;
  if (!(pinned >= 0.0) || pinned > 1.0) {
    return Status::InvalidArgument(
        fmt::format("max_pinned_share is {}, but must be in [0, 1]", pinned));
  }
  if (!kvcache::IsBlockSize(options.cache.block_size)) {
    return Status::InvalidArgument(fmt::format(
        "block_size is {}, but must be 8, 16, 32, 64, 128 or 256", options.cache.block_size));
  }
  return Status::Ok();
}

// Seconds since it was made, or since the last Lap.
class LapClock {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

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

Result<std::unique_ptr<Engine>> EngineImpl::Create(const EngineOptions& options) {
  LapClock clock;
  const base::ScopedFloatMode float_mode;  // for the rotary frequencies, computed on this thread
  const Result<const kernels::KernelTable*> kernels = ChooseKernels(options.device.simd);
  if (!kernels.ok()) return kernels.status();
  if (Status status = CheckOptions(options); !status.ok()) return status;

  Result<formats::GgufFile> file = formats::GgufFile::Open(options.model.path);
  if (!file.ok()) return file.status();
  std::unique_ptr<EngineImpl> engine(new EngineImpl(*std::move(file)));
  LoadTiming& load = engine->info_.load;
  load.open_s = clock.Lap();
  if (Status status = engine->LoadText(options.model); !status.ok()) return status;
  load.text_s = clock.Lap();
  if (Status status = engine->Load(options, **kernels); !status.ok()) return status;
  engine->FillInfo(options, **kernels);
  engine->StartCore(options);
  load.rest_s = clock.Lap() - load.weights_s;
  engine->info_.load_s = load.open_s + load.text_s + load.weights_s + load.rest_s;
  return std::unique_ptr<Engine>(std::move(engine));
}

// Configuration, tokenizer and chat template; a file without a usable template serves everything
// but chat.
Status EngineImpl::LoadText(const ModelOptions& options) {
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
  return LoadChatTemplate(options);
}

// A template of the options must be good; the file's own is missed only when it is asked for.
Status EngineImpl::LoadChatTemplate(const ModelOptions& options) {
  const std::string& given = options.chat_template;
  Result<text::ChatTemplate> chat_template =
      given.empty() ? text::ChatTemplate::FromGguf(file_) : text::ChatTemplate::FromText(given);
  if (chat_template.ok()) {
    chat_template_ = *std::move(chat_template);
    return Status::Ok();
  }
  chat_template_status_ = chat_template.status();
  return given.empty() ? Status::Ok() : chat_template_status_;
}

Status EngineImpl::Load(const EngineOptions& options, const kernels::KernelTable& kernels) {
  const int32_t num_threads =
      options.device.threads.value_or(std::min(base::NumUsableProcessors(), kMaxThreads));
  max_rows_ = options.scheduler.max_num_batched_tokens.value_or(DefaultMaxNumBatchedTokens(
      config_, kernels.name == "avx512", std::min(num_threads, base::NumUsableProcessors())));

  const Result<int64_t> weight_bytes = model::ModelWeights::PlannedBytes(file_, config_);
  if (!weight_bytes.ok()) return weight_bytes.status();
  const Result<EnginePlan> plan = PlanMemory(
      {config_, *weight_bytes, tokenizer_->memory_bytes(), base::ReadMachineMemory().limit_bytes(),
       max_rows_, num_threads, ProductsOf(options.model.compute)},
      options.model, options.cache);
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
    ledger_.SetPlanned(static_cast<MemoryTag>(tag), plan_.memory.planned.bytes[tag]);
  }

  const auto fill =
      options.cache.populate ? kvstore::InitialFill::kPopulated : kvstore::InitialFill::kZero;
  Result<kvstore::KvStore> store = kvstore::KvStore::Create(plan_.layout, ledger_, fill);
  if (!store.ok()) return store.status();
  store_.emplace(*std::move(store));
  if (plan_.swap_layout.num_blocks > 0) {
    Result<kvstore::KvStore> swap = kvstore::KvStore::Create(plan_.swap_layout, ledger_, fill);
    if (!swap.ok()) return swap.status();
    swap_store_.emplace(*std::move(swap));
  }
  Result<std::unique_ptr<base::ThreadPool>> threads = base::ThreadPool::Create(num_threads);
  if (!threads.ok()) return threads.status();
  threads_ = *std::move(threads);

  model::ModelOptions model_options;
  model_options.kernels = &kernels;
  model_options.products = ProductsOf(options.model.compute);
  model_options.profiler = options.profiler;
  if (options.profiler != nullptr) options.profiler->Attach(num_threads);
  model_options.max_rows = max_rows_;
  model_options.max_output_rows = max_rows_;
  model_options.max_model_len = plan_.max_model_len;
  model_options.rope_model_len = options.model.max_model_len.value_or(config_.context_length);
  LapClock clock;
  Result<std::unique_ptr<model::Model>> model = model::Model::Load(
      file_, config_, model_options, *threads_, ledger_, options.on_load_progress);
  info_.load.weights_s = clock.Lap();
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  return AllocateBuffers();
}

Status EngineImpl::AllocateBuffers() {
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
  info_.block_size = options.cache.block_size;
  info_.kv_cache_dtype = kvstore::KvDtypeName(plan_.layout.dtype);
  info_.simd = kernels.name;
  info_.threads = threads_->num_threads();
  info_.file_bytes = static_cast<int64_t>(file_.file_bytes());
}

// Everything but tokens and salt that K and V depend on.
kvcache::RootKey EngineImpl::RootOf(const EngineOptions& options) const {
  kvcache::RootKey root;
  root.Add(kvcache::RootField::kModel, info_.name)
      .Add(kvcache::RootField::kArithmetic, kernels::kArithmeticVersion)
      .Add(kvcache::RootField::kKvFormat, kvstore::KvDtypeName(plan_.layout.dtype))
      .Add(kvcache::RootField::kRope,
           fmt::format("{} {} {}", config_.rot_dim, static_cast<int>(config_.rope.layout),
                       options.model.max_model_len.value_or(config_.context_length)))
      .Add(kvcache::RootField::kOther, static_cast<int64_t>(options.model.compute));
  return root;
}

void EngineImpl::StartCore(const EngineOptions& options) {
  constexpr double kCopiedBytesPerSecond = 4e9;  // out and in again, a cautious figure
  constexpr uint32_t kBlocksPerWatermark = 100;  // 1 % of the pool
  CoreOptions core;
  core.cache.num_blocks = static_cast<uint32_t>(plan_.layout.num_blocks);
  core.cache.block_size_tokens = options.cache.block_size;
  core.cache.enable_prefix_caching = options.cache.enable_prefix_caching;
  core.cache.eviction = options.cache.eviction_policy == EvictionPolicy::kLru
                            ? kvcache::EvictionPolicyKind::kLru
                            : kvcache::EvictionPolicyKind::kCostAware;
  core.cache.max_pinned_share = options.cache.max_pinned_share;
  core.mode = options.cache.mode;
  core.max_model_len = plan_.max_model_len;
  core.cache.max_blocks_per_sequence = core.blocks_per_context();
  core.cache_root = RootOf(options);
  by_priority_ = options.scheduler.policy == SchedulingPolicy::kPriority;
  core.by_priority = by_priority_;
  core.num_swap_blocks = static_cast<uint32_t>(plan_.swap_layout.num_blocks);
  core.seconds_per_swapped_block =
      2.0 * static_cast<double>(plan_.layout.spec.BytesPerBlock().value_or(0)) /
      kCopiedBytesPerSecond;
  core.profiler = options.profiler;
  core.check_integrity = options.scheduler.check_integrity;
  core.limits.block_size_tokens = options.cache.block_size;
  core.limits.max_num_batched_tokens = max_rows_;
  core.limits.max_num_seqs = static_cast<uint32_t>(options.scheduler.max_num_seqs);
  core.limits.watermark_blocks = core.cache.num_blocks / kBlocksPerWatermark;
  core.limits.static_batching = options.scheduler.static_batching;

  CompletionContext context;
  context.tokenizer = tokenizer_.get();
  context.eos_token_ids = eos_token_ids_;
  context.vocab_size = config_.vocab_size;
  context.max_model_len = plan_.max_model_len;
  context.row_ops = &model_->kernels().rows;
  context.profiler = options.profiler;
  executor_ = std::make_unique<ModelExecutor>(
      *model_, *store_, swap_store_ ? &*swap_store_ : nullptr, logits_.As<float>());
  core_ = std::make_unique<EngineCore>(core, context, *executor_);
  loop_ = std::make_unique<EngineLoop>(*core_);
}

structured::GrammarCompiler& EngineImpl::grammar_compiler() {
  std::call_once(grammar_compiler_once_,
                 [this] { grammar_compiler_.emplace(*tokenizer_, eos_token_ids_); });
  return *grammar_compiler_;
}

bool EngineImpl::IsCompiled(const StructuredOutputs& outputs) {
  return grammar_compiler().Holds(outputs);
}

Result<std::shared_ptr<const structured::CompiledGrammar>> EngineImpl::CompileGrammar(
    const Request& request) {
  const SamplingParams& params = request.params;
  if (!params.structured_outputs) return std::shared_ptr<const structured::CompiledGrammar>();
  Result<std::shared_ptr<const structured::CompiledGrammar>> grammar =
      grammar_compiler().Compile(*params.structured_outputs);
  if (!grammar.ok() || params.allowed_token_ids.empty()) return grammar;
  structured::GrammarMatcher matcher(*grammar);
  structured::TokenBitmask mask(config_.vocab_size);
  const bool may_begin =
      matcher.FillMask(&mask) &&
      std::ranges::any_of(params.allowed_token_ids, [&](TokenId id) { return mask.allows(id); });
  if (may_begin) return grammar;
  return Status::InvalidArgument(
      "no token of allowed_token_ids can begin an output that structured_outputs asks for");
}

Status EngineImpl::Check(const Request& request) const {
  if (Status status = CheckBeforeGrammar(request); !status.ok()) return status;
  const std::optional<StructuredOutputs>& outputs = request.params.structured_outputs;
  return outputs ? structured::GuardGrammar(*outputs).status() : Status::Ok();
}

Status EngineImpl::CheckBeforeGrammar(const Request& request) const {
  if (Status status = core_->Check(request); !status.ok()) return status;
  if (request.priority == 0 || by_priority_) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("priority is {}, but requests are served in the order of their coming: start "
                  "with --scheduling-policy priority",
                  request.priority));
}

Result<std::unique_ptr<RequestStream>> EngineImpl::Submit(Request request,
                                                          UpdateCallback on_update) {
  if (Status status = CheckBeforeGrammar(request); !status.ok()) return status;
  Result<std::shared_ptr<const structured::CompiledGrammar>> grammar = CompileGrammar(request);
  if (!grammar.ok()) return grammar.status();
  const base::ScopedFloatMode float_mode;  // for what the samplers derive from the parameters
  const uint64_t seed = request.params.seed ? *request.params.seed : DrawSeed();
  auto state = std::make_shared<StreamState>(std::move(on_update));
  std::unique_ptr<RequestState> prepared = core_->Prepare(std::move(request), seed, state);
  prepared->grammar = *std::move(grammar);
  const RequestId id = loop_->Submit(std::move(prepared));
  return std::unique_ptr<RequestStream>(std::make_unique<Stream>(*loop_, id, std::move(state)));
}

Result<RequestOutput> EngineImpl::Generate(Request request, const DeltaCallback& on_delta) {
  Result<std::unique_ptr<RequestStream>> stream = Submit(std::move(request), nullptr);
  if (!stream.ok()) return stream.status();
  return Deliver(**stream, on_delta);
}

Result<RequestOutput> EngineImpl::Generate(const std::vector<TokenId>& prompt_token_ids,
                                           const SamplingParams& params,
                                           const DeltaCallback& on_delta) {
  Request request;
  request.prompt_token_ids = prompt_token_ids;
  request.params = params;
  return Generate(std::move(request), on_delta);
}

Result<RequestOutput> EngineImpl::Generate(std::string_view prompt, const SamplingParams& params,
                                           const DeltaCallback& on_delta) {
  const Result<std::vector<TokenId>> tokens = Tokenize(prompt, {});
  if (!tokens.ok()) return tokens.status();
  return Generate(*tokens, params, on_delta);
}

std::vector<kvcache::BlockExplanation> EngineImpl::Explain(
    const std::vector<TokenId>& prompt_token_ids, std::string_view cache_salt) {
  std::vector<kvcache::BlockExplanation> blocks;
  loop_->Call([&](EngineCore& core) {
    blocks = core.cache().Explain(core.RootOf(cache_salt), prompt_token_ids);
  });
  return blocks;
}

PinnedPrefix EngineImpl::Pin(const std::vector<TokenId>& prompt_token_ids, int64_t ttl_ms,
                             std::string_view cache_salt) {
  PinnedPrefix pinned;
  if (ttl_ms < 1) return pinned;
  loop_->Call([&](EngineCore& core) {
    kvcache::PinId pin;
    pinned.num_tokens = core.cache().Pin(core.RootOf(cache_salt), prompt_token_ids, ttl_ms, &pin);
    if (pinned.num_tokens > 0) pinned.pin_id = pin.value();
  });
  return pinned;
}

bool EngineImpl::Unpin(uint64_t pin_id) {
  bool ended = false;
  loop_->Call([&](EngineCore& core) { ended = core.cache().Unpin(kvcache::PinId(pin_id)); });
  return ended;
}

void EngineImpl::ResetPrefixCache() {
  loop_->Call([](EngineCore& core) { core.cache().Reset(); });
}

Status EngineImpl::CheckIntegrity() {
  kvcache::IntegrityReport report;
  loop_->Call([&report](EngineCore& core) { report = core.CheckIntegrity(); });
  if (report.ok()) return Status::Ok();
  return Status::Internal("the cache's audit failed: " + report.ToString());
}

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

bool EngineImpl::IsSpecialToken(TokenId id) const {
  OCTAVO_CHECK(id >= 0 && id < tokenizer_->vocab_size(), "a token of the vocabulary");
  return tokenizer_->IsSpecial(id);
}

Result<ChatPrompt> EngineImpl::ApplyChatTemplate(const ChatInput& input) const {
  if (!chat_template_) return chat_template_status_;
  return chat_template_->Encode(*tokenizer_, input);
}

Result<std::vector<TokenId>> EngineImpl::ApplyChatTemplate(const std::vector<ChatMessage>& messages,
                                                           bool add_generation_prompt) const {
  if (!chat_template_) return chat_template_status_;
  Result<ChatPrompt> prompt = chat_template_->Encode(*tokenizer_, messages, add_generation_prompt);
  if (!prompt.ok()) return prompt.status();
  return std::move(prompt->token_ids);
}

MemoryPlan EngineImpl::memory_plan() const {
  MemoryPlan plan = plan_.memory;
  plan.actual = ledger_.actual();
  return plan;
}

}  // namespace engine
}  // namespace octavo
