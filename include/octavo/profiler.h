#pragma once

// Purpose:    where the time of an engine's steps goes: each compute thread marks the end of each
//             zone of its work; the marks become exact totals, and events of the last steps.
// Ownership:  the caller's; EngineOptions::profiler lends it to engines, one after another, and it
//             outlives them. Memory is taken in Attach alone: max_steps, and max_events for each
//             Attach that brings more threads, bound it.
// Threading:  during a step each thread writes its own record and nothing else. The queries may be
//             called once the engine is gone, or by its engine thread between two steps.
// Invariants: a thread's zones follow one another without gaps from where it begins to work to its
//             last mark, so that their sum never exceeds the step's time. A mark is one look at the
//             clock and a few stores: no allocation, no lock.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace octavo {

// In the order of a step. Products count what they add to the residual.
enum class ProfileZone : uint8_t {
  kPlan,           // who computes what
  kBatch,          // blocks taken and copied, rows laid out, attention shared out
  kEmbed,          // embeddings and rotary angles
  kNormQuantise,   // a layer's two norms, and the quantisation of what its products read
  kQueryKeyValue,  // the product that makes Q, K and V
  kRotateStore,    // rotation, and K and V into the cache
  kAttention,
  kAttentionOutput,  // the product behind the attention
  kGateUp,           // the feed-forward's first two products
  kActivation,       // SiLU times up, and its quantisation
  kDown,             // the feed-forward's last product
  kBarrierWait,      // for the other threads: barriers, and the begin and end of threaded work
  kOutputNorm,
  kCommit,   // what was computed is published to the cache
  kLogits,   // the product with the vocabulary
  kSample,   // penalties, masks, choice of a token
  kPublish,  // stop conditions, text, the caller's stream
};
inline constexpr size_t kNumProfileZones = 17;

// "plan", "QKV product", ...
std::string_view ProfileZoneName(ProfileZone zone);

// A step that computes more than one row of a sequence is a prefill step, whatever else it does.
enum class ProfileStepKind : uint8_t { kPrefill, kDecode };
inline constexpr size_t kNumProfileStepKinds = 2;

struct ProfileEvent {
  int64_t begin_ns = 0;  // on the steady clock
  int64_t end_ns = 0;
  uint32_t step = 0;   // ProfileStep::index
  int16_t layer = -1;  // -1: outside the layers
  ProfileZone zone = ProfileZone::kPlan;
};

struct ProfileStep {
  uint32_t index = 0;  // counts all steps
  ProfileStepKind kind = ProfileStepKind::kDecode;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t num_rows = 0;  // tokens computed
};

struct ProfileZoneTotal {
  int64_t calls = 0;
  int64_t total_ns = 0;
};

struct ProfileStepTotal {
  int64_t num_steps = 0;
  int64_t num_rows = 0;  // tokens computed
  int64_t total_ns = 0;
};

class Profiler {
 public:
  struct Options {
    int64_t max_events = 1 << 18;  // kept, of all threads of an Attach; 24 bytes each
    int64_t max_steps = 1 << 14;   // kept; 40 bytes each
  };

  // REQUIRES: max_events >= 1, max_steps >= 1.
  explicit Profiler(const Options& options);
  Profiler() : Profiler(Options()) {}
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  static int64_t NowNs() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // What an engine calls. Thread 0 is the engine's thread.

  // Makes room for `num_threads` threads; what was recorded stays. Between steps only. The calls
  // below REQUIRE that a thread which they name, and thread 0, is attached.
  void Attach(int num_threads);
  void BeginStep(int64_t now_ns = NowNs());
  void EndStep(ProfileStepKind kind, int64_t num_rows, int64_t now_ns = NowNs());
  // The thread begins to work: its time since its last mark belongs to no zone.
  void Resume(int thread, int64_t now_ns = NowNs()) { record(thread).last_ns = now_ns; }
  // The layer of the marks that follow; -1: none.
  void SetLayer(int thread, int32_t layer) { record(thread).layer = static_cast<int16_t>(layer); }
  // What the thread did since its last mark was `zone`.
  void Mark(int thread, ProfileZone zone, int64_t now_ns = NowNs()) {
    Record& own = record(thread);
    own.events[own.next] = {own.last_ns, now_ns, num_steps_, own.layer, zone};
    if (++own.next == own.events.size()) own.next = 0;
    ++own.num_events;
    ProfileZoneTotal& total = own.of_step[static_cast<size_t>(zone)];
    ++total.calls;
    total.total_ns += now_ns - own.last_ns;
    own.last_ns = now_ns;
  }

  // What was recorded, of ended steps.

  int num_threads() const { return static_cast<int>(records_.size()); }
  ProfileStepTotal steps(ProfileStepKind kind) const {
    return step_totals_[static_cast<size_t>(kind)];
  }
  ProfileZoneTotal zone(int thread, ProfileStepKind kind, ProfileZone zone) const {
    return records_[static_cast<size_t>(thread)]
        .totals[static_cast<size_t>(kind)][static_cast<size_t>(zone)];
  }
  // The last ones, the oldest first.
  std::vector<ProfileEvent> Events(int thread) const;
  std::vector<ProfileStep> Steps() const;
  // How many more there were.
  int64_t NumDroppedEvents(int thread) const;
  int64_t NumDroppedSteps() const;

 private:
  using ZoneTotals = std::array<ProfileZoneTotal, kNumProfileZones>;

  // One thread's; on cache lines of its own.
  struct alignas(64) Record {
    int64_t last_ns = 0;  // its last mark
    int64_t num_events = 0;
    size_t next = 0;  // place of the next event
    int16_t layer = -1;
    std::vector<ProfileEvent> events;  // a ring
    ZoneTotals of_step{};              // of the step at hand
    std::array<ZoneTotals, kNumProfileStepKinds> totals{};
  };

  Record& record(int thread) { return records_[static_cast<size_t>(thread)]; }

  const Options options_;
  std::vector<Record> records_;
  uint32_t num_steps_ = 0;  // ended ones; the engine thread writes it between two threaded parts
  int64_t step_begin_ns_ = 0;
  std::vector<ProfileStep> steps_;  // a ring
  std::array<ProfileStepTotal, kNumProfileStepKinds> step_totals_{};
};

}  // namespace octavo
