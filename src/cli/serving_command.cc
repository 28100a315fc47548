#include "cli/serving_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/option_values.h"
#include "cli/server_call.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kServingExamples[] =
    R"(Sends prompts of token ids to /v1/completions, streamed, and reports what clients feel: TTFT
(time to the first chunk), TPOT (time per output token after it), ITL (gaps between chunks), E2EL
(to the last chunk). Names, definitions and JSON keys are those of vLLM's `bench serve`.

Datasets: random; shared-prefix (all prompts begin alike); multi-turn (a turn repeats the turns
before it); trace (a file of {"timestamp", "input_length", "output_length", "hash_ids"} lines).

Examples:
  octavo bench serve --num-prompts 64 --max-concurrency 16
  octavo bench serve --dataset-name shared-prefix --random-prefix-len 510 --random-input-len 64
  octavo bench serve --request-rate 4 --burstiness 0.5 --goodput ttft:500 --goodput tpot:50
)";

std::optional<bench::Dataset> DatasetOf(const std::string& name) {
  if (name == "random") return bench::Dataset::kRandom;
  if (name == "shared-prefix") return bench::Dataset::kSharedPrefix;
  if (name == "multi-turn") return bench::Dataset::kMultiTurn;
  if (name == "trace") return bench::Dataset::kTrace;
  return std::nullopt;
}

// "50,90,99.9"
Result<std::vector<double>> ReadPercentiles(const std::string& text) {
  std::vector<double> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<double> value = ParseNumber<double>(text.substr(begin, end - begin));
    if (!value || !(*value >= 0.0) || *value > 100.0) {
      return Status::InvalidArgument(fmt::format(
          "--metric-percentiles is '{}', but must be numbers in [0, 100] between commas", text));
    }
    values.push_back(*value);
    begin = end + 1;
  }
  return values;
}

std::string PercentileName(double percent) { return fmt::format("p{:g}", percent); }

}  // namespace

ServingBench::ServingBench(CLI::App& app) {
  app.option_defaults()->group("Server");
  app.add_option("--base-url", base_url_, "Server (default http://127.0.0.1:8000)")
      ->type_name("URL");
  app.add_option("--endpoint", target_.path, "Path (default /v1/completions)")->type_name("PATH");
  app.add_option("--model", target_.model, "Model's name, if the server wants one")
      ->type_name("NAME");
  AddNumber(app, "--max-concurrency", target_.max_concurrency,
            "Requests at once; 0 = as they arrive (default 0)");
  AddNumber(app, "--timeout", target_.timeout_s, "Seconds for one request (default 600)");
  AddLoad(app);
  app.option_defaults()->group("Report");
  app.add_option("--metric-percentiles", percentiles_, "Percentiles (default 50,90,99)")
      ->type_name("P,P,...");
  app.add_option("--goodput", goodput_,
                 "Limit for a request to count as good, ttft|tpot|e2el:MS; repeatable")
      ->type_name("NAME:MS")
      ->allow_extra_args(false);
  app.add_flag("--json", json_, "Print one JSON object with vLLM's keys");
  app.add_flag("--save-detailed", details_, "In the JSON, the figures of every request as well");
  app.footer(kServingExamples);
}

void ServingBench::AddLoad(CLI::App& app) {
  app.option_defaults()->group("Load");
  app.add_option("--dataset-name", dataset_, "random|shared-prefix|multi-turn|trace");
  app.add_option("--dataset-path", dataset_path_, "Trace file")->type_name("FILE");
  AddNumber(app, "--num-prompts", load_.num_prompts, "Requests (default 100)");
  AddNumber(app, "--random-input-len", load_.input_len, "Tokens of a prompt (default 256)");
  AddNumber(app, "--random-output-len", load_.output_len, "Tokens of an answer (default 64)");
  AddNumber(app, "--random-range-ratio", load_.range_ratio,
            "Lengths vary by this share both ways (default 0)");
  AddNumber(app, "--random-prefix-len", load_.prefix_len,
            "shared-prefix: tokens that all prompts begin with (default 512)");
  AddNumber(app, "--num-turns", load_.num_turns, "multi-turn: turns (default 4)");
  AddNumber(app, "--request-rate", load_.request_rate,
            "Arrivals a second; 0 = all at once, for a trace its own times (default 0)");
  AddNumber(app, "--burstiness", load_.burstiness,
            "Shape of the gaps: 1 = Poisson, less = bursts (default 1)");
  AddNumber(app, "--max-model-len", load_.max_model_len,
            "trace: longer requests are cut to this many tokens");
  AddNumber(app, "--vocab-size", load_.vocab_size, "Ids are below this (default 30000)");
  AddNumber(app, "--seed", load_.seed, "Seed (default 0)");
  app.add_flag("--no-ignore-eos", respects_eos_, "Answers may end before their length");
}

Result<std::vector<bench::Conversation>> ServingBench::Load() const {
  bench::LoadOptions options = load_;
  const std::optional<bench::Dataset> dataset = DatasetOf(dataset_);
  if (!dataset) {
    return Status::InvalidArgument(fmt::format(
        "--dataset-name is '{}', but must be random, shared-prefix, multi-turn or trace",
        dataset_));
  }
  options.dataset = *dataset;
  if (dataset_path_.empty()) return bench::MakeLoad(options, nullptr);
  const Result<std::string> text = ReadFileOrStdin(dataset_path_);
  if (!text.ok()) return text.status();
  const Result<bench::Trace> trace = bench::ParseTrace(dataset_path_, *text);
  if (!trace.ok()) return trace.status();
  return bench::MakeLoad(options, &*trace);
}

Status ServingBench::ReadGoodput() {
  for (const std::string& limit : goodput_) {
    const size_t colon = limit.find(':');
    const std::string name = limit.substr(0, colon);
    const std::optional<double> value =
        colon == std::string::npos ? std::nullopt : ParseNumber<double>(limit.substr(colon + 1));
    std::optional<double>* target = name == "ttft"   ? &limits_.ttft_ms
                                    : name == "tpot" ? &limits_.tpot_ms
                                    : name == "e2el" ? &limits_.e2el_ms
                                                     : nullptr;
    if (target == nullptr || !value) {
      return Status::InvalidArgument(
          fmt::format("--goodput is '{}', but must be ttft:MS, tpot:MS or e2el:MS", limit));
    }
    *target = *value;
  }
  return Status::Ok();
}

Status ServingBench::Run() {
  const Result<bench::ServingTarget> parsed = bench::ParseBaseUrl(base_url_);
  if (!parsed.ok()) return parsed.status();
  target_.host = parsed->host;
  target_.port = parsed->port;
  target_.ignore_eos = !respects_eos_;
  if (target_.max_concurrency < 0) {
    return Status::InvalidArgument(
        fmt::format("--max-concurrency is {}, but must be at least 0", target_.max_concurrency));
  }
  if (!(target_.timeout_s > 0.0 && target_.timeout_s <= 1e6)) {
    return Status::InvalidArgument(fmt::format(
        "--timeout is {}, but must be above 0 and at most 1000000 seconds", target_.timeout_s));
  }
  Result<std::string> key = ReadApiKey();
  if (!key.ok()) return key.status();
  target_.api_key = *std::move(key);
  if (Status status = ReadGoodput(); !status.ok()) return status;
  Result<std::vector<double>> percentiles = ReadPercentiles(percentiles_);
  if (!percentiles.ok()) return percentiles.status();
  percentile_values_ = *std::move(percentiles);
  const Result<std::vector<bench::Conversation>> load = Load();
  if (!load.ok()) return load.status();

  size_t num_requests = 0;
  for (const bench::Conversation& conversation : *load) num_requests += conversation.turns.size();
  const bool shows_progress = StderrIsTerminal();
  const auto progress = [&](size_t num_ended) {
    if (shows_progress) WriteStderr(fmt::format("\r{} of {} requests", num_ended, num_requests));
  };
  const Result<bench::LoadRun> run = bench::RunLoad(*load, target_, progress);
  if (shows_progress) WriteStderr("\r\x1b[K");
  if (!run.ok()) return run.status();
  const bench::ServingMetrics metrics =
      bench::Measure(run->requests, run->duration_s, percentile_values_, limits_);
  const auto failed = std::ranges::find_if(
      run->requests, [](const bench::ServedRequest& served) { return !served.error.empty(); });
  if (Status status = WriteStdout(json_ ? Json(metrics, run->requests) : Table(metrics));
      !status.ok()) {
    return status;
  }
  if (failed == run->requests.end()) return Status::Ok();
  return Status::Internal(fmt::format("{} of {} requests failed; the first: {}", metrics.num_failed,
                                      num_requests, failed->error));
}

std::string ServingBench::Table(const bench::ServingMetrics& metrics) const {
  std::string table;
  const auto row = [&table](std::string_view name, double value) {
    table += fmt::format("{:<34}{:>12.2f}\n", name, value);
  };
  row("requests served", static_cast<double>(metrics.num_completed));
  row("requests failed", static_cast<double>(metrics.num_failed));
  row("duration, s", metrics.duration_s);
  row("prompt tokens", static_cast<double>(metrics.num_prompt_tokens));
  row("  of them cached", static_cast<double>(metrics.num_cached_tokens));
  row("output tokens", static_cast<double>(metrics.num_output_tokens));
  row("requests / s", metrics.requests_per_s);
  row("output tokens / s", metrics.output_tokens_per_s);
  row("all tokens / s", metrics.total_tokens_per_s);
  row("peak output tokens / s", metrics.peak_output_tokens_per_s);
  row("peak requests at once", static_cast<double>(metrics.peak_concurrency));
  if (metrics.goodput_per_s) row("goodput, requests / s", *metrics.goodput_per_s);
  if (metrics.num_completed == 0) return table;
  table += fmt::format("\n{:<6}{:>12}{:>12}{:>12}", "ms", "mean", "median", "deviation");
  for (const double percent : percentile_values_) {
    table += fmt::format("{:>12}", PercentileName(percent));
  }
  table += "\n";
  const auto spread = [&table](std::string_view name, const bench::Spread& values) {
    table += fmt::format("{:<6}{:>12.2f}{:>12.2f}{:>12.2f}", name, values.mean, values.median,
                         values.deviation);
    for (const double value : values.percentiles) table += fmt::format("{:>12.2f}", value);
    table += "\n";
  };
  spread("TTFT", metrics.ttft);
  spread("TPOT", metrics.tpot);
  spread("ITL", metrics.itl);
  spread("E2EL", metrics.e2el);
  return table;
}

std::string ServingBench::Json(const bench::ServingMetrics& metrics,
                               const std::vector<bench::ServedRequest>& requests) const {
  boost::json::object json{{"backend", "openai"},
                           {"model_id", target_.model},
                           {"num_prompts", metrics.num_completed + metrics.num_failed},
                           {"request_rate", load_.request_rate},
                           {"burstiness", load_.burstiness},
                           {"max_concurrency", target_.max_concurrency},
                           {"duration", metrics.duration_s},
                           {"completed", metrics.num_completed},
                           {"failed", metrics.num_failed},
                           {"total_input_tokens", metrics.num_prompt_tokens},
                           {"total_cached_tokens", metrics.num_cached_tokens},
                           {"total_output_tokens", metrics.num_output_tokens},
                           {"request_throughput", metrics.requests_per_s},
                           {"output_throughput", metrics.output_tokens_per_s},
                           {"total_token_throughput", metrics.total_tokens_per_s},
                           {"max_output_tokens_per_s", metrics.peak_output_tokens_per_s},
                           {"max_concurrent_requests", metrics.peak_concurrency}};
  json["request_goodput"] =
      metrics.goodput_per_s ? boost::json::value(*metrics.goodput_per_s) : boost::json::value();
  const auto spread = [&](const std::string& name, const bench::Spread& values) {
    json["mean_" + name + "_ms"] = values.mean;
    json["median_" + name + "_ms"] = values.median;
    json["std_" + name + "_ms"] = values.deviation;
    for (size_t i = 0; i < percentile_values_.size(); ++i) {
      json[PercentileName(percentile_values_[i]) + "_" + name + "_ms"] = values.percentiles[i];
    }
  };
  spread("ttft", metrics.ttft);
  spread("tpot", metrics.tpot);
  spread("itl", metrics.itl);
  spread("e2el", metrics.e2el);
  if (details_) {
    boost::json::array input_lens, output_lens, ttfts, itls, errors;
    for (const bench::ServedRequest& served : requests) {
      input_lens.emplace_back(served.num_prompt_tokens);
      output_lens.emplace_back(served.num_output_tokens);
      ttfts.emplace_back(served.ttft_s);
      itls.emplace_back(boost::json::array(served.itl_s.begin(), served.itl_s.end()));
      errors.emplace_back(served.error);
    }
    json["input_lens"] = std::move(input_lens);
    json["output_lens"] = std::move(output_lens);
    json["ttfts"] = std::move(ttfts);
    json["itls"] = std::move(itls);
    json["errors"] = std::move(errors);
  }
  return boost::json::serialize(json) + "\n";
}

}  // namespace octavo::cli
