#include "engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduling/admission.h"
#include "engine/scheduling/scheduler.h"

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
  }
  if (Status status = CheckPromptAndParams(context_, request.prompt_token_ids, request.params);
      !status.ok()) {
    return status;
  }
  if (request.pin_ttl_ms && *request.pin_ttl_ms < 1) {
    return Status::InvalidArgument(
        fmt::format("pin_ttl_ms is {}, but must be at least 1", *request.pin_ttl_ms));
  }
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
  const Request& stored = state->request;
  if (stored.beam_search) {
    state->beams.emplace();
    state->reporter.emplace(2 * stored.beam_search->beam_width, context_.vocab_size,
                            *context_.row_ops);
  } else {
    if (stored.params.prompt_logprobs) {
      state->reporter.emplace(*stored.params.prompt_logprobs, context_.vocab_size,
                              *context_.row_ops);
    }
    for (int32_t index = 0; index < stored.params.n; ++index) {
      state->completions.emplace_back(context_, stored.params, seed, index,
                                      stored.prompt_token_ids);
    }
  }
  state->num_unfinished = static_cast<int32_t>(NumSequences(*state));
  state->output.seed = seed;
  state->output.timing.token_s.reserve(static_cast<size_t>(MaxOutputTokens(stored)));
  state->times.submitted = executor_.Now();
  return state;
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
  if (found == requests_.end()) return false;
  EndRequest(*found->second, FinishReason::kAbort);
  ForgetEnded();
  return true;
}

void EngineCore::AbortBefore(uint64_t epoch) {
  std::vector<RequestState*> aborted;
  for (const auto& [id, request] : requests_) {
    if (request->abort_epoch < epoch) aborted.push_back(request.get());
  }
  for (RequestState* request : aborted) EndRequest(*request, FinishReason::kAbort);
  ForgetEnded();
}

void EngineCore::Step() {
  OCTAVO_CHECK(has_work(), "a step has something to do");
  cache_.SetNow(static_cast<int64_t>(executor_.Now() * 1e3));
  MakePlan();
  FillBatch();
  if (!batch_.empty()) {
    const double start = executor_.Now();
    executor_.Forward({batch_tokens_, batch_slices_, batch_output_rows_});
    NoteSpeed(executor_.Now() - start);
    CommitBatch();
    ReadLogits();
  }
  ForgetEnded();
  ++stats_.num_steps;
  if (options_.check_integrity) {
    const kvcache::IntegrityReport report = CheckIntegrity();
    OCTAVO_CHECK(report.ok(), report.ToString());
  }
}

// For the choice between recompute and swap; a step's first figure counts whole.
void EngineCore::NoteSpeed(double seconds) {
  constexpr double kWeight = 0.1;
  const double sample = seconds / static_cast<double>(batch_tokens_.size());
  seconds_per_token_ += (seconds_per_token_ > 0.0 ? kWeight : 1.0) * (sample - seconds_per_token_);
}

// ---- Plan ---------------------------------------------------------------------------------------

void EngineCore::MakePlan() {
  snapshot_.preempted_this_round = false;
  while (true) {
    snapshot_builder_.Build(&snapshot_);
    snapshot_.seconds_per_token = seconds_per_token_;
    Scheduler::Plan(snapshot_, &plan_);
    if (plan_.preempt != kNoSlot) {
      Preempt(plan_);
      snapshot_.preempted_this_round = true;
    } else if (plan_.yield_pins_blocks > 0) {
      cache_.YieldPins(plan_.yield_pins_blocks - cache_.num_available_blocks());
    } else {
      break;
    }
  }
  OCTAVO_CHECK(!plan_.scheduled.empty() || !plan_.admitted.empty(),
               "something can go on while there is work");
}

void EngineCore::Preempt(const StepPlan& plan) {
  const RequestState& request = *state_.at(plan.preempt).request;
  if (!request.beams) return PreemptOne(plan.preempt, plan.preemption_mode);
  const std::vector<SequenceSlot> unit = request.live;
  for (const SequenceSlot slot : unit) {
    if (state_.at(slot).phase == SequencePhase::kRunning) PreemptOne(slot, plan.preemption_mode);
  }
}

void EngineCore::PreemptOne(SequenceSlot slot, PreemptionMode mode) {
  SequenceState& sequence = state_.at(slot);
  // Whoever comes back computes one token at least: its logits are wanted (again).
  const int64_t num_kept = std::min(sequence.num_computed(), sequence.num_known() - 1);
  moves_.clear();
  const bool swaps = mode == PreemptionMode::kSwap && num_kept > 0 &&
                     swap_.Take(sequence.cache.block_ids(), num_kept,
                                options_.cache.block_size_tokens, &sequence.swapped, &moves_);
  if (swaps) executor_.SwapOut(moves_);
  ++(swaps ? stats_.num_preemptions_swap : stats_.num_preemptions_recompute);
  ++sequence.request->output.num_preemptions;
  sequence.next.reset();
  GiveBack(slot);
}

// Back to the waiting ones, without blocks.
void EngineCore::GiveBack(SequenceSlot slot) {
  cache_.Release(state_.at(slot).cache);
  state_.SetPhase(slot, SequencePhase::kWaiting);
}

// ---- Blocks, and the batch ----------------------------------------------------------------------

// Gives an admitted sequence what the cache and the swap space hold of it; false if the pool could
// not, against the plan's count.
bool EngineCore::Admit(const ScheduledSequence& scheduled) {
  SequenceState& sequence = state_.at(scheduled.slot);
  RequestState& request = *sequence.request;
  if (request.request.explain && request.times.admitted < 0) {
    request.output.explanation = cache_.Explain(request.root, request.request.prompt_token_ids);
  }
  if (options_.mode == KvCacheMode::kContiguous) {
    if (!cache_.ReserveContiguous(sequence.cache, options_.blocks_per_context())) return false;
  } else if (!cache_.Acquire(sequence.cache, sequence.tokens, MaxCachedTokens(sequence),
                             &copies_)) {
    return false;
  }
  if (request.times.admitted < 0) {
    request.times.admitted = executor_.Now();
    request.output.num_cached_tokens = static_cast<int32_t>(sequence.num_computed());
    stats_.num_prompt_tokens += static_cast<uint64_t>(request.num_prompt_tokens());
    stats_.num_cached_tokens += static_cast<uint64_t>(sequence.num_computed());
  }
  state_.SetPhase(scheduled.slot, SequencePhase::kRunning);
  return true;
}

// Brings back what was swapped out and is not cached; false if the pool has no room. The blocks are
// moved at once: when they are committed others may take them, or they may be given back as equal
// to others.
bool EngineCore::Restore(SequenceState& sequence) {
  if (sequence.swapped.num_tokens > sequence.num_computed()) {
    if (!cache_.Reserve(sequence.cache, sequence.swapped.num_tokens, &copies_)) return false;
    moves_.clear();
    SwapSpace::ListReturn(sequence.swapped, sequence.cache.block_ids(), sequence.num_computed(),
                          options_.cache.block_size_tokens, &moves_);
    CopyBlocks();
    executor_.SwapIn(moves_);
    cache_.Commit(sequence.cache, sequence.tokens, sequence.swapped.num_tokens);
  }
  sequence.swapped.Reset();
  return true;
}

void EngineCore::CopyBlocks() {
  if (!copies_.empty()) executor_.CopyBlocks(copies_);
  copies_.clear();
}

// All admitted sequences take what is cached before anyone takes new blocks, which may evict it.
void EngineCore::FillBatch() {
  batch_.clear();
  batch_tokens_.clear();
  batch_slices_.clear();
  batch_output_rows_.clear();
  admitted_.clear();
  for (const ScheduledSequence& scheduled : plan_.admitted) {
    if (Admit(scheduled)) admitted_.push_back(scheduled);
  }
  for (const ScheduledSequence& scheduled : admitted_) {
    if (!Restore(state_.at(scheduled.slot))) GiveBack(scheduled.slot);
  }
  for (const ScheduledSequence& scheduled : plan_.scheduled) AddToBatch(scheduled);
  for (const ScheduledSequence& scheduled : admitted_) {
    if (state_.at(scheduled.slot).phase == SequencePhase::kRunning) AddToBatch(scheduled);
  }
  SortSharedFirst();
  FillRows();
  CopyBlocks();
}

void EngineCore::AddToBatch(const ScheduledSequence& scheduled) {
  SequenceState& sequence = state_.at(scheduled.slot);
  const int64_t begin = sequence.num_computed();
  const int64_t end = std::min(begin + scheduled.num_tokens, sequence.num_known());
  if (!cache_.Reserve(sequence.cache, end, &copies_)) {
    GiveBack(scheduled.slot);  // nothing is lost but time
    return;
  }
  BatchEntry entry;
  entry.slot = scheduled.slot;
  entry.num_rows = end - begin;
  const bool reports = sequence.request->wants_prompt_logprobs();
  entry.num_output_rows = reports ? entry.num_rows : end == sequence.num_known() ? 1 : 0;
  batch_.push_back(entry);
}

// Decoding sequences that share leading blocks become neighbours, so that the model may visit those
// blocks once for all of them.
void EngineCore::SortSharedFirst() {
  const auto decodes_end = std::stable_partition(
      batch_.begin(), batch_.end(), [](const BatchEntry& entry) { return entry.num_rows == 1; });
  std::sort(batch_.begin(), decodes_end, [this](const BatchEntry& a, const BatchEntry& b) {
    return std::ranges::lexicographical_compare(state_.at(a.slot).cache.block_ids(),
                                                state_.at(b.slot).cache.block_ids());
  });
}

void EngineCore::FillRows() {
  for (const BatchEntry& entry : batch_) {
    const SequenceState& sequence = state_.at(entry.slot);
    const int64_t begin = sequence.num_computed();
    const auto first_row = static_cast<int32_t>(batch_tokens_.size());
    batch_tokens_.insert(batch_tokens_.end(), sequence.tokens.begin() + begin,
                         sequence.tokens.begin() + begin + entry.num_rows);
    batch_slices_.push_back({entry.num_rows, begin, sequence.cache.block_ids()});
    const auto end_row = first_row + static_cast<int32_t>(entry.num_rows);
    for (auto row = end_row - static_cast<int32_t>(entry.num_output_rows); row < end_row; ++row) {
      batch_output_rows_.push_back(row);
    }
  }
  stats_.num_computed_tokens += batch_tokens_.size();
}

void EngineCore::CommitBatch() {
  for (const BatchEntry& entry : batch_) {
    SequenceState& sequence = state_.at(entry.slot);
    cache_.Commit(sequence.cache, sequence.tokens, sequence.num_computed() + entry.num_rows);
  }
}

// ---- What the step produced ---------------------------------------------------------------------

void EngineCore::ReadLogits() {
  const auto num_outputs = static_cast<int64_t>(batch_output_rows_.size());
  const int64_t rows_at_once = executor_.max_logits_rows();
  const auto vocab_size = static_cast<size_t>(executor_.vocab_size());
  std::span<float> logits;
  int64_t output = 0;
  for (const BatchEntry& entry : batch_) {
    for (int64_t i = 0; i < entry.num_output_rows; ++i, ++output) {
      if (output % rows_at_once == 0) {
        logits = executor_.Logits(output, std::min(rows_at_once, num_outputs - output));
      }
      const auto offset = static_cast<size_t>(output % rows_at_once) * vocab_size;
      // The sequence may have ended at an earlier row of this step.
      if (state_.Find(entry.slot) == nullptr) continue;
      const int64_t position = state_.at(entry.slot).num_computed() - entry.num_output_rows + i;
      TakeRow(entry.slot, position, logits.subspan(offset, vocab_size));
    }
  }
}

// `logits` predict the token after `position`.
void EngineCore::TakeRow(SequenceSlot slot, int64_t position, std::span<float> logits) {
  SequenceState& sequence = state_.at(slot);
  RequestState& request = *sequence.request;
  if (request.wants_prompt_logprobs() && position + 1 < request.num_prompt_tokens()) {
    if (!ReportPromptLogprob(request, position, logits)) EndRequest(request, FinishReason::kError);
    return;
  }
  if (position + 1 < sequence.num_known()) return;
  if (request.beams) {
    TakeBeamRow(slot, logits);
  } else if (!request.prompt_is_computed) {
    BeginCompletions(slot, logits);
  } else {
    TakeNextToken(slot, logits);
  }
}

bool EngineCore::ReportPromptLogprob(RequestState& request, int64_t position,
                                     std::span<const float> logits) {
  // After a preemption the prompt is computed again.
  if (position < static_cast<int64_t>(request.output.prompt_logprobs.size())) return true;
  std::optional<TokenLogprobs> report = request.reporter->Report(
      logits, request.request.prompt_token_ids[static_cast<size_t>(position) + 1]);
  if (!report) return false;
  request.output.prompt_logprobs.push_back(*std::move(report));
  return true;
}

// The prompt is computed: every completion draws its first token from the same logits, and the
// later ones share the first one's blocks from here on.
void EngineCore::BeginCompletions(SequenceSlot first, std::span<float> logits) {
  RequestState& request = *state_.at(first).request;
  request.prompt_is_computed = true;
  NotePromptComputed(request);
  const auto num = static_cast<int32_t>(request.completions.size());
  if (num == 1) return TakeNextToken(first, logits);

  std::ranges::copy(logits, row_copy_.begin());
  std::vector<SequenceSlot> slots{first};
  for (int32_t index = 1; index < num; ++index) {
    std::unique_ptr<SequenceState> sequence =
        NewSequence(request, index, request.request.prompt_token_ids);
    if (options_.shares_blocks()) {
      sequence->cache = cache_.Fork(state_.at(first).cache);
      sequence->phase = SequencePhase::kRunning;
    }
    slots.push_back(state_.Insert(std::move(sequence)));
  }
  for (const SequenceSlot slot : slots) {
    std::ranges::copy(row_copy_, logits.begin());
    TakeNextToken(slot, logits);
  }
}

void EngineCore::NotePromptComputed(RequestState& request) {
  const double now = executor_.Now();
  request.output.timing.prefill_s = now - request.times.admitted;
  if (request.request.pin_ttl_ms) {
    kvcache::PinId pin;
    cache_.Pin(request.root, request.request.prompt_token_ids, *request.request.pin_ttl_ms, &pin);
  }
}

void EngineCore::TakeNextToken(SequenceSlot slot, std::span<float> logits) {
  SequenceState& sequence = state_.at(slot);
  RequestState& request = *sequence.request;
  Completion& completion = request.completions[static_cast<size_t>(sequence.index)];
  const Completion::Step step = completion.Advance(logits, sequence.num_known(), *request.sink);
  if (step.token) {
    sequence.tokens.push_back(*step.token);
    NoteToken(request, sequence.index);
  }
  if (step.finish_reason != FinishReason::kNone) return EndSequence(slot);
  // The baseline without a cache forgets K and V once they have given a token.
  if (options_.mode == KvCacheMode::kNone) cache_.Release(sequence.cache);
}

void EngineCore::NoteToken(RequestState& request, int32_t index) {
  ++stats_.num_generation_tokens;
  const double now = executor_.Now();
  if (request.times.first_token < 0) request.times.first_token = now;
  if (index == 0) request.output.timing.token_s.push_back(now - request.times.submitted);
}

// ---- Ends ---------------------------------------------------------------------------------------

// One completion has ended.
void EngineCore::EndSequence(SequenceSlot slot) {
  RequestState& request = *state_.at(slot).request;
  state_.Erase(slot);  // with its blocks
  if (--request.num_unfinished == 0) FinishRequest(request);
}

// Ends whatever of a request has not ended.
void EngineCore::EndRequest(RequestState& request, FinishReason reason) {
  if (request.num_unfinished == 0) return;
  if (request.beams) return EndBeams(request, reason);
  std::vector<bool> lives(request.completions.size(), !request.prompt_is_computed);
  for (const SequenceSlot slot : request.live) {
    lives[static_cast<size_t>(state_.at(slot).index)] = true;
  }
  while (!request.live.empty()) state_.Erase(request.live.back());
  for (size_t index = 0; index < lives.size(); ++index) {
    if (lives[index]) request.completions[index].End(reason, *request.sink);
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
  request.sink->OnEnd(std::move(output));
  ended_.push_back(request.id);
}

void EngineCore::ForgetEnded() {
  state_.RecycleSlots();
  for (const RequestId id : ended_) requests_.erase(id);
  ended_.clear();
}

// ---- Questions ----------------------------------------------------------------------------------

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.num_running = static_cast<uint32_t>(state_.running().size());
  stats.num_waiting = static_cast<uint32_t>(state_.waiting().size());
  for (const SequenceSlot slot : state_.running()) {
    stats.num_held_tokens += state_.at(slot).num_computed();
    stats.num_held_blocks += static_cast<int64_t>(state_.at(slot).cache.num_blocks());
  }
  stats.num_swap_blocks = swap_.num_blocks();
  stats.num_free_swap_blocks = swap_.num_free();
  for (const SequenceSlot slot : state_.waiting()) {
    if (state_.at(slot).swapped.num_tokens > 0) ++stats.num_swapped;
  }
  stats.cache = cache_.stats();
  return stats;
}

kvcache::IntegrityReport EngineCore::CheckIntegrity() const {
  std::vector<const kvcache::CachedSequence*> sequences;
  for (const auto* queue : {&state_.running(), &state_.waiting()}) {
    for (const SequenceSlot slot : *queue) sequences.push_back(&state_.at(slot).cache);
  }
  kvcache::IntegrityReport report = cache_.CheckIntegrity(sequences);
  for (const std::string& finding : swap_.CheckIntegrity().findings) {
    report.Add("swap space: " + finding);
  }
  return report;
}

}  // namespace octavo::engine
