#pragma once

// Purpose:    the life of all requests, step by step: plan, give and take blocks, compute, choose
//             tokens, end what has ended. One object for the real engine and for the model-free
//             simulation, which differ in their StepExecutor alone.
// Ownership:  owns requests, sequences and the cache's control plane; borrows the executor.
// Threading:  the engine thread only. Check is const and may be called by any thread.
// Invariants: every request that was added ends exactly once; DeliverEnded then calls OnEnd with
//             all of its completions. What it produces depends on the request and its seed alone.
//             A steady decode step allocates nothing from its plan to its last token id.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/core_options.h"
#include "engine/core_state.h"
#include "engine/request_state.h"
#include "engine/scheduling/step_plan.h"
#include "engine/snapshot_builder.h"
#include "engine/step_executor.h"
#include "engine/swap_space.h"
#include "octavo/engine_stats.h"

namespace octavo::engine {

class EngineCore {
 public:
  EngineCore(const CoreOptions& options, const CompletionContext& context, StepExecutor& executor);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // What can never be served is refused here, with the figures.
  Status Check(const Request& request) const;
  // A request that is ready to be added. REQUIRES: Check is OK. Any thread.
  std::unique_ptr<RequestState> Prepare(Request request, uint64_t seed,
                                        std::shared_ptr<RequestSink> sink) const;
  // REQUIRES: request->id is new.
  void Add(std::unique_ptr<RequestState> request);
  // Ends what still runs of it, with finish_reason abort; false if it has ended already.
  bool Abort(RequestId id);
  // Aborts every request whose abort_epoch is below `epoch`.
  void AbortBefore(uint64_t epoch);

  bool has_work() const { return requests_.size() > ended_.size(); }
  // Lets pins end and statistics age that go by the clock; a step begins with it.
  void NoteTime();
  // One step. REQUIRES: has_work().
  void Step();
  // Hands out the results of what has ended, by a step or an abort, and forgets it. A step of its
  // own, so that the statistics which count an end can be published before anybody hears of it.
  void DeliverEnded();

  // The identity under which requests with this salt share cached content.
  std::string RootOf(std::string_view cache_salt) const;
  kvcache::KvCacheManager& cache() { return cache_; }
  const kvcache::KvCacheManager& cache() const { return cache_; }
  EngineStats stats() const;
  kvcache::IntegrityReport CheckIntegrity() const;
  const StepPlan& last_plan() const { return plan_; }

 private:
  // One sequence's rows in the step's batch.
  struct BatchEntry {
    SequenceId id = kNoSequence;
    int64_t num_rows = 0;
    int64_t num_output_rows = 0;
  };

  int32_t MaxOutputTokens(const Request& request) const;
  void EnsureCompletions(RequestState& request) const;
  std::unique_ptr<SequenceState> NewSequence(RequestState& request, int32_t index,
                                             std::span<const TokenId> tokens);

  // What the engine thread did since its last mark.
  void Mark(ProfileZone zone) {
    if (options_.profiler != nullptr) options_.profiler->Mark(0, zone);
  }

  // Before the step: who takes part, with which blocks and rows (engine_core_batch.cc).
  void MakePlan();
  void NoteSpeed(double seconds);
  void Preempt(const StepPlan& plan);
  void PreemptOne(SequenceId id, PreemptionMode mode);
  void GiveBack(SequenceId id);

  void FillBatch();
  bool Admit(const ScheduledSequence& scheduled);
  bool Restore(SequenceState& sequence);
  void CopyBlocks();
  void AddToBatch(const ScheduledSequence& scheduled);
  void SortSharedFirst();
  void FillRows();
  void CommitBatch();

  // After the step: what the rows of logits lead to (engine_core_outputs.cc).
  void ReadLogits();
  void TakeRow(SequenceId id, int64_t position, std::span<float> logits);
  bool ReportPromptLogprob(RequestState& request, int64_t position, std::span<const float> logits);
  void NotePromptComputed(RequestState& request);
  void BeginCompletions(SequenceId first, std::span<float> logits);
  void TakeNextToken(SequenceId id, std::span<float> logits);
  void NoteToken(RequestState& request, int32_t index);

  // Beam searches (engine_core_beams.cc).
  void TakeBeamRow(SequenceId id, std::span<const float> logits);
  void AdvanceBeams(RequestState& request);
  void FollowBeams(RequestState& request, const std::vector<SequenceId>& beams,
                   std::span<const BeamChoice> choices);
  void EndBeams(RequestState& request, FinishReason reason);
  BeamGroup::Finished FinishedBeam(const SequenceState& beam, const BeamChoice* last) const;
  void EmitBeam(RequestState& request, const BeamGroup::Finished& beam);

  void EndSequence(SequenceId id);
  void EndRequest(RequestState& request, FinishReason reason);
  void EndBeforeItBegan(RequestState& request, FinishReason reason);
  void FinishRequest(RequestState& request);

  const CoreOptions options_;
  const CompletionContext context_;
  StepExecutor& executor_;
  kvcache::KvCacheManager cache_;
  SwapSpace swap_;
  CoreState state_;
  SnapshotBuilder snapshot_builder_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::vector<RequestId> ended_;  // not delivered yet
  uint64_t next_arrival_ = 0;

  // Of the step at hand; they keep their capacity.
  SchedulerSnapshot snapshot_;
  StepPlan plan_;
  std::vector<ScheduledSequence> admitted_;
  std::vector<kvcache::BlockCopy> copies_;
  std::vector<BlockMove> moves_;
  std::vector<BatchEntry> batch_;
  std::vector<TokenId> batch_tokens_;
  std::vector<model::SequenceSlice> batch_slices_;
  std::vector<int32_t> batch_output_rows_;
  std::vector<float> row_copy_;  // [vocab_size]

  EngineStats stats_;
  double seconds_per_token_ = 0.0;  // of the last steps, smoothed
};

}  // namespace octavo::engine
