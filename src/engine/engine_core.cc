#include "engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduling/admission.h"

namespace octavo::engine {
namespace {

constexpr size_t kReservedSequences = 512;

Status StatusOf(const Refusal& refusal, const RequestDemand& demand) {
  if (refusal.reason == Refusal::Reason::kSequences) {
    return Status::InvalidArgument(
        fmt::format("the request needs {} sequences at once, but max_num_seqs allows {}",
                    refusal.num_needed, refusal.limit));
  }
  return Status::InvalidArgument(fmt::format(
      "{} prompt tokens and up to {} output tokens in {} sequences need {} cache blocks, but there "
      "are {}; lower max_tokens or raise kv_cache_memory_bytes",
      demand.num_prompt_tokens, demand.max_output_tokens, demand.num_sequences, refusal.num_needed,
      refusal.limit));
}

Status CheckSharing(const Request& request) {
  constexpr size_t kMaxSaltBytes = 1024;
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return Status::InvalidArgument(fmt::format("cache_salt has {} bytes, but must have at most {}",
                                               request.cache_salt.size(), kMaxSaltBytes));
  }
  if (request.pin_ttl_ms && *request.pin_ttl_ms < 1) {
    return Status::InvalidArgument(
        fmt::format("pin_ttl_ms is {}, but must be at least 1", *request.pin_ttl_ms));
  }
  return Status::Ok();
}

// Log-probabilities that would fill the memory are refused before the first of them is made.
Status CheckReports(const Request& request, int32_t max_output_tokens, int32_t vocab_size,
                    int64_t max_bytes) {
  const SamplingParams& params = request.params;
  if (request.beam_search && (params.prompt_logprobs || params.logprobs.value_or(0) != 0)) {
    return Status::InvalidArgument(
        "a beam search reports the log-probabilities of the chosen tokens only: logprobs must be 0 "
        "or absent, prompt_logprobs absent");
  }
  const auto entries = [vocab_size](const std::optional<int32_t>& count) -> int64_t {
    return count ? 1 + (*count < 0 ? vocab_size : *count) : 0;
  };
  const int64_t num_entries =
      entries(params.logprobs) * max_output_tokens * params.n +
      entries(params.prompt_logprobs) * static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t num_bytes = num_entries * static_cast<int64_t>(sizeof(TokenLogprob));
  if (num_bytes <= max_bytes) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("logprobs, prompt_logprobs, n and max_tokens together ask for up to {} "
                  "log-probabilities of {} "
                  "bytes, but {} bytes is the most",
                  num_entries, sizeof(TokenLogprob), max_bytes));
}

// Every sequence of the contiguous baseline has its whole reservation or none.
CoreOptions Normalised(CoreOptions options) {
  if (options.mode == KvCacheMode::kContiguous) {
    options.limits.max_num_seqs = std::min(options.limits.max_num_seqs,
                                           options.cache.num_blocks / options.blocks_per_context());
  }
  if (!options.shares_blocks()) options.cache.enable_prefix_caching = false;
  return options;
}

}  // namespace

EngineCore::EngineCore(const CoreOptions& options, const CompletionContext& context,
                       StepExecutor& executor)
    : options_(Normalised(options)),
      context_(context),
      executor_(executor),
      cache_(options_.cache),
      swap_(options_.num_swap_blocks),
      state_(options_.by_priority),
      snapshot_builder_(options_, state_, cache_, swap_),
      row_copy_(static_cast<size_t>(executor.vocab_size())) {
  OCTAVO_CHECK(options.limits.block_size_tokens == options.cache.block_size_tokens,
               "scheduler and cache count in the same blocks");
  const auto rows = static_cast<size_t>(options.limits.max_num_batched_tokens);
  batch_tokens_.reserve(rows);
  batch_output_rows_.reserve(rows);
  batch_.reserve(kReservedSequences);
  batch_slices_.reserve(kReservedSequences);
  copies_.reserve(kReservedSequences);
}

EngineCore::~EngineCore() = default;

Status EngineCore::Check(const Request& request) const {
  if (request.beam_search) {
    if (Status status = CheckBeamSearch(*request.beam_search); !status.ok()) return status;
    if (request.params.structured_outputs) {
      return Status::InvalidArgument("a beam search cannot have structured outputs");
    }
  }
  if (Status status = CheckPromptAndParams(context_, request.prompt_token_ids, request.params);
      !status.ok()) {
    return status;
  }
  if (Status status = CheckSharing(request); !status.ok()) return status;
  if (Status status = CheckReports(request, MaxOutputTokens(request), context_.vocab_size,
                                   options_.max_report_bytes);
      !status.ok())
    return status;
  RequestDemand demand;
  demand.num_prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  demand.max_output_tokens = MaxOutputTokens(request);
  demand.num_sequences = static_cast<uint32_t>(request.beam_search ? request.beam_search->beam_width
                                                                   : request.params.n);
  demand.in_lockstep = request.beam_search.has_value();
  demand.shares_blocks = options_.shares_blocks() && options_.cache.enable_prefix_caching;
  const std::optional<Refusal> refusal =
      RefuseIfImpossible(demand, options_.cache.num_blocks, options_.limits);
  return refusal ? StatusOf(*refusal, demand) : Status::Ok();
}

int32_t EngineCore::MaxOutputTokens(const Request& request) const {
  return engine::MaxOutputTokens(
      request.beam_search ? std::optional(request.beam_search->max_tokens)
                          : request.params.max_tokens,
      options_.max_model_len, static_cast<int64_t>(request.prompt_token_ids.size()));
}

std::string EngineCore::RootOf(std::string_view cache_salt) const {
  kvcache::RootKey root = options_.cache_root;
  if (!cache_salt.empty()) root.Add(kvcache::RootField::kSalt, cache_salt);
  return std::string(root.bytes());
}

std::unique_ptr<RequestState> EngineCore::Prepare(Request request, uint64_t seed,
                                                  std::shared_ptr<RequestSink> sink) const {
  auto state = std::make_unique<RequestState>();
  state->seed = seed;
  state->sink = std::move(sink);
  state->root = RootOf(request.cache_salt);
  state->request = std::move(request);
  if (state->request.beam_search) state->beams.emplace();
  state->num_unfinished = static_cast<int32_t>(NumSequences(*state));
  state->output.seed = seed;
  state->output.timing.token_s.reserve(static_cast<size_t>(MaxOutputTokens(state->request)));
  state->times.submitted = executor_.Now();
  return state;
}

// What chooses a request's tokens is as large as the vocabulary, several times over: it is made
// when the request begins, not while it waits.
void EngineCore::EnsureCompletions(RequestState& request) const {
  if (request.reporter || !request.completions.empty()) return;
  const SamplingParams& params = request.params();
  if (request.beams) {
    request.reporter.emplace(2 * request.request.beam_search->beam_width, context_.vocab_size,
                             *context_.row_ops);
    return;
  }
  if (params.prompt_logprobs) {
    request.reporter.emplace(*params.prompt_logprobs, context_.vocab_size, *context_.row_ops);
  }
  for (int32_t index = 0; index < params.n; ++index) {
    request.completions.emplace_back(context_, params, request.seed, index,
                                     request.request.prompt_token_ids, request.grammar);
  }
}

void EngineCore::Add(std::unique_ptr<RequestState> request) {
  RequestState& state = *request;
  state.arrival = next_arrival_++;
  requests_.emplace(state.id, std::move(request));
  state_.Insert(NewSequence(state, 0, state.request.prompt_token_ids));
}

// A waiting sequence with room for all the tokens that it may get.
std::unique_ptr<SequenceState> EngineCore::NewSequence(RequestState& request, int32_t index,
                                                       std::span<const TokenId> tokens) {
  auto sequence = std::make_unique<SequenceState>();
  sequence->request = &request;
  sequence->index = index;
  sequence->tokens.reserve(
      static_cast<size_t>(request.num_prompt_tokens() + MaxOutputTokens(request.request)));
  sequence->tokens.assign(tokens.begin(), tokens.end());
  sequence->cache = cache_.NewSequence(request.root);
  return sequence;
}

bool EngineCore::Abort(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second->num_unfinished == 0) return false;
  EndRequest(*found->second, FinishReason::kAbort);
  return true;
}

void EngineCore::AbortBefore(uint64_t epoch) {
  std::vector<RequestState*> aborted;
  for (const auto& [id, request] : requests_) {
    if (request->abort_epoch < epoch) aborted.push_back(request.get());
  }
  for (RequestState* request : aborted) EndRequest(*request, FinishReason::kAbort);
}

void EngineCore::NoteTime() { cache_.SetNow(static_cast<int64_t>(executor_.Now() * 1e3)); }

void EngineCore::Step() {
  OCTAVO_CHECK(has_work(), "a step has something to do");
  if (options_.profiler != nullptr) options_.profiler->BeginStep();
  NoteTime();
  MakePlan();
  Mark(ProfileZone::kPlan);
  FillBatch();
  OCTAVO_CHECK(!batch_.empty(), "the cache gives what the plan has counted");
  const double start = executor_.Now();
  executor_.Forward({batch_tokens_, batch_slices_, batch_output_rows_});
  NoteSpeed(executor_.Now() - start);
  CommitBatch();
  Mark(ProfileZone::kCommit);
  ReadLogits();
  ++stats_.num_steps;
  const auto num_rows = static_cast<uint32_t>(batch_tokens_.size());
  const auto bucket = std::ranges::lower_bound(kStepRowBounds, num_rows) - kStepRowBounds.begin();
  ++stats_.num_steps_by_rows[static_cast<size_t>(bucket)];
  if (options_.check_integrity) {
    const kvcache::IntegrityReport report = CheckIntegrity();
    OCTAVO_CHECK(report.ok(), report.ToString());
  }
  if (options_.profiler != nullptr) {
    options_.profiler->EndStep(
        batch_tokens_.size() > batch_.size() ? ProfileStepKind::kPrefill : ProfileStepKind::kDecode,
        num_rows);
  }
}

// For the choice between recompute and swap; a step's first figure counts whole.
void EngineCore::NoteSpeed(double seconds) {
  constexpr double kWeight = 0.1;
  const double sample = seconds / static_cast<double>(batch_tokens_.size());
  seconds_per_token_ += (seconds_per_token_ > 0.0 ? kWeight : 1.0) * (sample - seconds_per_token_);
}

// One completion has ended.
void EngineCore::EndSequence(SequenceId id) {
  RequestState& request = *state_.at(id).request;
  state_.Erase(id);  // with its blocks
  if (--request.num_unfinished == 0) FinishRequest(request);
}

// Ends whatever of a request has not ended.
void EngineCore::EndRequest(RequestState& request, FinishReason reason) {
  if (request.num_unfinished == 0) return;
  if (request.beams) return EndBeams(request, reason);
  if (request.completions.empty()) return EndBeforeItBegan(request, reason);
  std::vector<bool> lives(request.completions.size(), !request.prompt_is_computed);
  for (const SequenceId id : request.live) {
    lives[static_cast<size_t>(state_.at(id).index)] = true;
  }
  while (!request.live.empty()) state_.Erase(request.live.back());
  for (size_t index = 0; index < lives.size(); ++index) {
    if (lives[index]) request.completions[index].End(reason, *request.sink);
  }
  request.num_unfinished = 0;
  FinishRequest(request);
}

// A client may abort thousands that wait: none of them is given what it would need to begin.
void EngineCore::EndBeforeItBegan(RequestState& request, FinishReason reason) {
  while (!request.live.empty()) state_.Erase(request.live.back());
  for (int32_t index = 0; index < request.params().n; ++index) {
    CompletionOutput& completion = request.output.outputs.emplace_back();
    completion.index = index;
    completion.finish_reason = reason;
    request.sink->OnDelta({index, {}, {}, {}, reason, {}});
  }
  request.num_unfinished = 0;
  FinishRequest(request);
}

void EngineCore::FinishRequest(RequestState& request) {
  const double now = executor_.Now();
  RequestOutput& output = request.output;
  RequestTiming& timing = output.timing;
  const RequestTimes& times = request.times;
  timing.queued_s = (times.admitted < 0 ? now : times.admitted) - times.submitted;
  if (times.first_token >= 0) {
    timing.ttft_s = times.first_token - times.submitted;
    timing.decode_s = now - times.first_token;
  }
  for (Completion& completion : request.completions) {
    output.outputs.push_back(completion.TakeOutput());
  }
  if (!output.outputs.empty()) {
    ++stats_.num_finished[static_cast<size_t>(output.outputs.front().finish_reason)];
  }
  output.prompt_token_ids = std::move(request.request.prompt_token_ids);
  ended_.push_back(request.id);
}

void EngineCore::DeliverEnded() {
  state_.RecycleIds();
  for (const RequestId id : ended_) {
    const auto found = requests_.find(id);
    RequestState& request = *found->second;
    request.sink->OnEnd(std::move(request.output));
    requests_.erase(found);
  }
  ended_.clear();
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.num_running = static_cast<uint32_t>(state_.running().size());
  stats.num_waiting = static_cast<uint32_t>(state_.waiting().size());
  for (const SequenceId id : state_.running()) {
    stats.num_held_tokens += state_.at(id).num_computed();
    stats.num_held_blocks += static_cast<int64_t>(state_.at(id).cache.num_blocks());
  }
  stats.num_swap_blocks = swap_.num_blocks();
  stats.num_free_swap_blocks = swap_.num_free();
  if (swap_.num_free() < swap_.num_blocks()) {  // else thousands may wait for nothing
    for (const SequenceId id : state_.waiting()) {
      if (state_.at(id).swapped.num_tokens > 0) ++stats.num_swapped;
    }
  }
  stats.cache = cache_.stats();
  return stats;
}

kvcache::IntegrityReport EngineCore::CheckIntegrity() const {
  std::vector<const kvcache::CachedSequence*> sequences;
  for (const auto* queue : {&state_.running(), &state_.waiting()}) {
    for (const SequenceId id : *queue) sequences.push_back(&state_.at(id).cache);
  }
  kvcache::IntegrityReport report = cache_.CheckIntegrity(sequences);
  for (const std::string& finding : swap_.CheckIntegrity().findings) {
    report.Add("swap space: " + finding);
  }
  return report;
}

}  // namespace octavo::engine
