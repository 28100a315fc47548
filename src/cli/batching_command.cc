#include "cli/batching_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr int32_t kDefaultModelLen = 2048;  // tokens
constexpr int32_t kNeededModelLen = 1024;   // of the longest request

constexpr char kBatchingExamples[] =
    R"(Takes some minutes. Every request is submitted at the start; prompts and output lengths are
mixed. The context is 2048 tokens unless --max-model-len, at least 1024, says otherwise.

Examples:
  octavo bench batching
  octavo bench batching --threads 2 --json
)";

boost::json::object ToJson(const bench::BatchingResult& result) {
  return {{"duration_s", result.duration_s},
          {"output_tokens_per_s", result.output_tokens_per_s},
          {"total_tokens_per_s", result.total_tokens_per_s},
          {"decode_tokens_per_s", result.decode_tokens_per_s},
          {"ttft_p50_s", result.ttft_s.p50},
          {"ttft_p90_s", result.ttft_s.p90},
          {"ttft_p99_s", result.ttft_s.p99},
          {"num_cached_tokens", result.num_cached_tokens},
          {"num_preemptions", result.num_preemptions},
          {"max_running", result.max_running},
          {"block_use", result.block_use},
          {"sharing", result.sharing}};
}

}  // namespace

BatchingBench::BatchingBench(CLI::App& app) {
  app.add_flag("--json", json_, "Print a JSON list");
  profile_.AddTo(app);
  engine_flags_.AddTo(app);
  for (const char* option : {"--kv-cache", "--max-num-seqs"}) {  // the comparisons set them
    app.remove_option(app.get_option(option));
  }
  app.footer(kBatchingExamples);
}

Status BatchingBench::Run() {
  if (Status status = profile_.Start(engine_flags_); !status.ok()) return status;
  Result<EngineOptions> options = engine_flags_.Options();
  if (!options.ok()) return options.status();
  const int32_t max_model_len = options->model.max_model_len.value_or(kDefaultModelLen);
  if (max_model_len < kNeededModelLen) {
    return Status::InvalidArgument(
        fmt::format("--max-model-len is {}, but the longest request has {} tokens", max_model_len,
                    kNeededModelLen));
  }
  options->model.max_model_len = max_model_len;
  if (Status status = Probe(*options); !status.ok()) return status;
  return profile_.Finish(RunParts(*options), "octavo bench batching");
}

Status BatchingBench::RunParts(const EngineOptions& options) {
  for (const auto part : {&BatchingBench::CompareBatching, &BatchingBench::ComparePaging,
                          &BatchingBench::ComparePrefixes, &BatchingBench::MeasureMemory}) {
    if (Status status = (this->*part)(options); !status.ok()) return status;
  }
  if (!json_) return Status::Ok();
  boost::json::array rows;
  for (const Row& row : rows_) {
    boost::json::object object = ToJson(row.result);
    object["comparison"] = row.comparison;
    object["side"] = row.side;
    rows.push_back(std::move(object));
  }
  return WriteStdout(boost::json::serialize(rows) + "\n");
}

// Whether these options make an engine at all, before anything is printed.
Status BatchingBench::Probe(const EngineOptions& options) {
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  kv_bytes_per_token_ = (*engine)->memory_plan().kv_bytes_per_token;
  profile_.NoteEngine((*engine)->model_info());
  return Status::Ok();
}

Result<bench::BatchingResult> BatchingBench::RunOne(const EngineOptions& options,
                                                    const bench::Workload& workload) {
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  return bench::RunWorkload(**engine, workload);
}

void BatchingBench::Note(const std::string& text) const {
  if (!json_) WriteStdout(text).ok();
}

void BatchingBench::Show(const Row& row) const {
  const bench::BatchingResult& result = row.result;
  Note(fmt::format("  {:<14} {:8.1f} {:8.1f} {:8.2f} {:8.2f} {:8.2f} {:8} {:8}\n", row.side,
                   result.output_tokens_per_s, result.total_tokens_per_s, result.ttft_s.p50,
                   result.ttft_s.p90, result.ttft_s.p99, result.max_running,
                   result.num_preemptions));
}

Status BatchingBench::Compare(const std::string& comparison, const bench::Workload& workload,
                              const std::string& name, const EngineOptions& options,
                              const std::string& baseline_name, const EngineOptions& baseline) {
  Note(fmt::format("\n{}\n  {:<14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", comparison, "",
                   "out t/s", "all t/s", "TTFT p50", "p90", "p99 s", "at once", "preempt"));
  double speed[2] = {};
  for (const bool is_baseline : {true, false}) {
    const Result<bench::BatchingResult> result = RunOne(is_baseline ? baseline : options, workload);
    if (!result.ok()) return result.status();
    rows_.push_back({comparison, is_baseline ? baseline_name : name, *result});
    Show(rows_.back());
    speed[is_baseline ? 0 : 1] = result->output_tokens_per_s;
  }
  Note(fmt::format("  {} / {}: {:.2f}\n", name, baseline_name, speed[1] / speed[0]));
  return Status::Ok();
}

Status BatchingBench::CompareBatching(const EngineOptions& options) {
  EngineOptions baseline = options;
  baseline.scheduler.static_batching = true;
  EngineOptions continuous = options;
  baseline.scheduler.max_num_seqs = continuous.scheduler.max_num_seqs = 16;
  for (const int32_t num_requests : {16, 64}) {
    bench::Workload workload;
    workload.num_requests = num_requests;
    if (Status status =
            Compare(fmt::format("continuous against static batching, {} requests, 16 at once",
                                num_requests),
                    workload, "continuous", continuous, "static", baseline);
        !status.ok()) {
      return status;
    }
  }
  return Status::Ok();
}

// The memory of eight contexts: eight reservations, or as many sequences as blocks allow.
Status BatchingBench::ComparePaging(const EngineOptions& options) {
  EngineOptions paged = options;
  constexpr int32_t kContexts = 8;
  paged.cache.kv_cache_memory_bytes =
      int64_t{kContexts} * *options.model.max_model_len * kv_bytes_per_token_;
  EngineOptions contiguous = paged;
  contiguous.cache.mode = KvCacheMode::kContiguous;
  bench::Workload workload;
  workload.num_requests = 64;
  return Compare(fmt::format("paged against contiguous, 64 requests in the memory of {} contexts "
                             "of {} tokens",
                             kContexts, *options.model.max_model_len),
                 workload, "paged", paged, "contiguous", contiguous);
}

Status BatchingBench::ComparePrefixes(const EngineOptions& options) {
  EngineOptions off = options;
  off.cache.enable_prefix_caching = false;
  bench::Workload workload;
  workload.num_requests = 32;
  workload.shared_prefix = 512;
  workload.longest_input = 64;
  return Compare("prefix cache, 32 requests with 512 shared and 32 to 64 own prompt tokens",
                 workload, "on", options, "off", off);
}

// How much of the allocated blocks holds tokens, and how many blocks sharing saves. The paper's
// figures are those of PagedAttention's authors (SOSP 2023, section 6.3, Alpaca and ShareGPT).
Status BatchingBench::MeasureMemory(const EngineOptions& options) {
  struct Case {
    std::string name;
    bench::Workload workload;
    std::string paper;
    bool contiguous = false;
  };
  bench::Workload mixed;
  mixed.num_requests = 64;
  mixed.shortest_input = 48;
  mixed.longest_input = 960;
  mixed.shortest_output = 16;
  mixed.longest_output = 64;
  bench::Workload forks;
  forks.num_requests = 8;
  forks.shortest_input = 64;
  forks.longest_input = 256;
  forks.shortest_output = 32;
  forks.longest_output = 128;
  std::vector<Case> cases = {{"64 requests of 64 to 1,024 tokens", mixed, ""},
                             {"the same, contiguous reservations", mixed, "", true}};
  for (const int32_t n : {2, 4, 6}) {
    cases.push_back({fmt::format("{} completions", n), forks, "6.1 to 9.8, 16.2 to 30.5"});
    cases.back().workload.num_completions = n;
  }
  for (const int32_t width : {2, 4, 6}) {
    cases.push_back(
        {fmt::format("beam search, width {}", width), forks, "37.6 to 55.2, 44.3 to 66.3"});
    cases.back().workload.beam_width = width;
  }
  bench::Workload system_prompt = forks;
  system_prompt.num_requests = 32;
  system_prompt.shared_prefix = 512;
  system_prompt.longest_input = 64;
  cases.push_back({"512-token system prompt, 32 requests", system_prompt, ""});

  Note(fmt::format("\nmemory, means while the requests run\n  {:<38} {:>12} {:>12}   {}\n", "",
                   "slots used %", "saved by", "the paper: saved %"));
  Note(fmt::format("  {:<38} {:>12} {:>12}\n", "", "", "sharing %"));
  for (const Case& item : cases) {
    EngineOptions side = options;
    if (item.contiguous) {
      side.cache.mode = KvCacheMode::kContiguous;
      side.cache.kv_cache_memory_bytes =
          int64_t{item.workload.num_requests} * *options.model.max_model_len * kv_bytes_per_token_;
    }
    const Result<bench::BatchingResult> result = RunOne(side, item.workload);
    if (!result.ok()) return result.status();
    rows_.push_back({"memory", item.name, *result});
    Note(fmt::format("  {:<38} {:12.1f} {:12.1f}   {}\n", item.name, 100.0 * result->block_use,
                     100.0 * result->sharing, item.paper));
  }
  return Status::Ok();
}

}  // namespace octavo::cli
