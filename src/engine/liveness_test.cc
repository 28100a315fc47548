// Whatever is submitted, and however small the pool: what is accepted ends, with the answer that it
// has alone, and nothing is left behind. Random programs run on the simulated model; each has a
// number, which a failure prints with the program. OCTAVO_LIVENESS_PROGRAMS sets how many run
// (scripts/test --full: 10,000), OCTAVO_LIVENESS_FIRST the first one's number.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/environment.h"
#include "engine/simulation/random_program.h"

namespace octavo::engine {
namespace {

constexpr int64_t kNumPrograms = 1000;
constexpr int64_t kNumShards = 4;  // tests, so that they can run side by side

int64_t NumberFromEnvironment(const char* name, int64_t otherwise) {
  const auto given = base::ReadEnvironment(name);
  return given ? std::atoll(given->c_str()) : otherwise;
}

// Runs one program. The first thing that is wrong ends it, and is what Run returns.
class ProgramRun {
 public:
  explicit ProgramRun(const Program& program)
      : program_(program), engine_(program.core, program.model) {}

  std::string Run() {
    const int64_t max_steps = MaxSteps();
    size_t num_submitted = 0;
    for (int64_t step = 0; wrong_.empty(); ++step) {
      while (num_submitted < program_.requests.size() &&
             program_.requests[num_submitted].submit_at <= step) {
        Submit(program_.requests[num_submitted++]);
      }
      AbortAt(step);
      if (program_.reset_at == step) engine_.core().cache().Reset();
      if (engine_.core().has_work()) {
        Step();
      } else if (num_submitted == program_.requests.size()) {
        break;
      }
      if (step > max_steps) wrong_ = fmt::format("not done after {} steps", step);
    }
    for (const Running& running : running_) CheckEnd(running);
    CheckTotals();
    return wrong_;
  }

 private:
  struct Running {
    const ProgramRequest* drawn = nullptr;
    RequestId id = 0;
    std::shared_ptr<RecordingSink> sink;
    bool is_aborted = false;
  };

  void Require(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  // Every token is computed in a step of its own, again and again: far more often than any sound
  // schedule needs.
  int64_t MaxSteps() const {
    int64_t num_tokens = 0;
    for (const ProgramRequest& drawn : program_.requests) {
      const Request& request = drawn.request;
      const int64_t num_sequences =
          request.beam_search ? request.beam_search->beam_width : request.params.n;
      num_tokens += num_sequences * program_.core.max_model_len;
    }
    const bool keeps_nothing = program_.core.mode == KvCacheMode::kNone;
    return 1000 + num_tokens * (keeps_nothing ? program_.core.max_model_len : 30);
  }

  void Submit(const ProgramRequest& drawn) {
    const Status status = engine_.Check(drawn.request);
    if (!drawn.request.beam_search) {
      Require(status.ok() == IsPossible(drawn.request), "wrongly judged: " + status.message());
    }
    if (!status.ok()) return;
    std::shared_ptr<RecordingSink> sink = engine_.Submit(drawn.request, drawn.seed);
    running_.push_back({&drawn, engine_.last_id(), std::move(sink)});
  }

  // Alone in the pool each of its sequences can reach its end, and all may run at once.
  bool IsPossible(const Request& request) const {
    const CoreOptions& core = program_.core;
    const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
    const int64_t num_tokens =
        num_prompt + MaxOutputTokens(request.params.max_tokens, core.max_model_len, num_prompt);
    const int64_t num_blocks = base::CeilDivide(num_tokens, int64_t{core.cache.block_size_tokens});
    int64_t num_sequences = core.limits.max_num_seqs;
    if (core.mode == KvCacheMode::kContiguous) {
      num_sequences =
          std::min<int64_t>(num_sequences, core.cache.num_blocks / core.blocks_per_context());
    }
    return request.params.n <= num_sequences && num_blocks <= int64_t{core.cache.num_blocks};
  }

  void AbortAt(int64_t step) {
    for (Running& running : running_) {
      if (running.drawn->abort_at != step || running.sink->has_ended()) continue;
      running.is_aborted = true;
      Require(engine_.Abort(running.id), "a running request can be aborted");
      Require(running.sink->has_ended(), "an aborted request ends at once");
    }
  }

  void Step() {
    const uint64_t num_rows = engine_.executor().num_rows();
    if (!engine_.Step()) {
      Require(false, fmt::format("step {}: {}", engine_.num_steps(), engine_.violation()));
    }
    Require(engine_.executor().num_rows() > num_rows,
            fmt::format("step {} computes nothing", engine_.num_steps()));
  }

  void CheckEnd(const Running& running) {
    if (!wrong_.empty()) return;
    Require(running.sink->has_ended(), fmt::format("request {} has not ended", running.id));
    if (!running.sink->has_ended()) return;
    const Request& request = running.drawn->request;
    const RequestOutput& output = running.sink->output();
    const RequestOutput alone = engine_.ComputeAlone(request, running.drawn->seed);
    std::string difference;
    if (!running.is_aborted) {
      difference = DifferenceOf(output, alone);
    } else if (!request.beam_search) {
      for (size_t i = 0; i < output.outputs.size() && difference.empty(); ++i) {
        difference = DifferenceOfAborted(output.outputs[i], alone.outputs[i]);
      }
    }
    Require(difference.empty(), fmt::format("request {}: {}", running.id, difference));
    const auto num_cached = static_cast<size_t>(output.num_cached_tokens);
    Require(num_cached < request.prompt_token_ids.size(), "the last token is computed");
    const bool may_be_cached = program_.core.cache.enable_prefix_caching &&
                               program_.core.shares_blocks() && !request.params.prompt_logprobs;
    Require(may_be_cached || num_cached == 0, "nothing may come from the cache");
  }

  void CheckTotals() {
    if (!wrong_.empty()) return;
    const EngineStats stats = engine_.core().stats();
    Require(stats.num_running == 0 && stats.num_waiting == 0, "nobody is left");
    Require(stats.cache.num_blocks_in_use == 0, "no block is in use");
    Require(stats.num_free_swap_blocks == stats.num_swap_blocks, "no swap block is in use");
    Require(stats.num_computed_tokens == engine_.executor().num_rows(), "computed tokens add up");
    uint64_t num_generated = 0;
    uint64_t num_ended = 0;
    bool has_beams = false;
    for (const Running& running : running_) {
      has_beams = has_beams || running.drawn->request.beam_search.has_value();
      for (const CompletionOutput& completion : running.sink->output().outputs) {
        num_generated += completion.token_ids.size();
      }
    }
    for (const uint64_t count : stats.num_finished) num_ended += count;
    Require(num_ended == running_.size() || has_beams, "every end is counted once");
    Require(has_beams || stats.num_generation_tokens == num_generated,
            "every token is counted once");
    engine_.core().cache().Reset();
    Require(engine_.cache_stats().num_free_blocks == engine_.cache_stats().num_blocks,
            "a reset frees every block");
    engine_.Audit();
    Require(engine_.violation().empty(), engine_.violation());
  }

  const Program& program_;
  SimulatedEngine engine_;
  std::vector<Running> running_;
  std::string wrong_;
};

class LivenessTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(LivenessTest, EveryProgramEndsWithTheAnswersThatItsRequestsHaveAlone) {
  const int64_t num_programs = NumberFromEnvironment("OCTAVO_LIVENESS_PROGRAMS", kNumPrograms);
  const int64_t first = NumberFromEnvironment("OCTAVO_LIVENESS_FIRST", 0);
  for (int64_t i = GetParam(); i < num_programs; i += kNumShards) {
    const int64_t number = first + i;
    const Program program = ProgramGenerator(static_cast<uint64_t>(number)).Draw();
    const std::string wrong = ProgramRun(program).Run();
    ASSERT_TRUE(wrong.empty()) << "program " << number << ": " << wrong << "\n"
                               << Describe(program);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, LivenessTest, ::testing::Range<int64_t>(0, kNumShards));

}  // namespace
}  // namespace octavo::engine
