#include "cli/engine_flags.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "cli/option_values.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kDefaultModelFile[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

// An option that takes one of a few words.
template <typename Enum>
void AddChoice(CLI::App& app, const std::string& option, Enum& target,
               const std::vector<std::pair<std::string, Enum>>& choices, const std::string& help) {
  std::string words;
  for (const auto& [word, value] : choices) words += (words.empty() ? "" : "|") + word;
  app.add_option_function<std::string>(
         option,
         [option, choices, words, &target](const std::string& word) {
           const auto found =
               std::find_if(choices.begin(), choices.end(),
                            [&word](const auto& choice) { return choice.first == word; });
           if (found == choices.end()) {
             throw CLI::ValidationError(option, "'" + word + "' is not one of " + words);
           }
           target = found->second;
         },
         help)
      ->type_name(words);
}

// Shows "loading the model: 42 %" on one line of the terminal, and wipes it at the end.
class LoadProgress {
 public:
  explicit LoadProgress(bool shown) : shown_(shown) {}
  ~LoadProgress() {
    if (shown_) WriteStderr("\r\x1b[K");
  }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void Show(double share) {
    const int percent = static_cast<int>(share * 100.0);
    if (!shown_ || percent == percent_) return;
    percent_ = percent;
    WriteStderr(fmt::format("\rloading the model: {} %", percent));
  }

 private:
  bool shown_;
  int percent_ = -1;
};

}  // namespace

CLI::Option* AddModelOption(CLI::App& app, std::string& path) {
  return app
      .add_option_function<std::string>(
          "-m,--model",
          [&path](const std::string& given) {
            // Most likely a shell variable that is not set, not a wish for the default model.
            if (given.empty()) throw CLI::ValidationError("--model", "the file's name is empty");
            path = given;
          },
          "GGUF file, or the first of a split one; without it $OCTAVO_MODEL, or else the "
          "default model")
      ->type_name("FILE");
}

Result<std::string> FindModel(const std::string& given) {
  const std::string named =
      given.empty() ? base::ReadEnvironment("OCTAVO_MODEL").value_or("") : given;
  if (!named.empty()) {
    struct stat info = {};
    if (stat(named.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return Status::DataLoss(named + ": a folder, not a GGUF file");
    }
    return named;
  }
  if (const auto folder = base::CacheDirectory()) {
    const std::string path = *folder + "/" + kDefaultModelFile;
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return Status::NotFound(
      "no model: give one with -m FILE or OCTAVO_MODEL, or fetch the default one with "
      "scripts/fetch-model");
}

void EngineFlags::AddTo(CLI::App& app) {
  app.option_defaults()->group("Model");
  AddModelOption(app, options_.model.path);
  app.add_option("--chat-template", chat_template_file_,
                 "Jinja template of conversations, instead of the model's own")
      ->type_name("FILE.jinja");
  AddWhatOptions(app);
  AddHowOptions(app);
  AddSharingOptions(app);
}

void EngineFlags::AddWhatOptions(CLI::App& app) {
  app.option_defaults()->group("Precision (what is computed)");
  AddChoice(app, "--compute", options_.model.compute,
            {{"int8", ComputeType::kInt8},
             {"int16", ComputeType::kInt16},
             {"float32", ComputeType::kFloat32}},
            "Activations in products with quantised weights: of 8 bits, of 16 (no measurable loss, "
            "slower prefill), or as they are (default int8)");
  AddChoice(app, "--kv-cache-dtype", options_.cache.dtype,
            {{"auto", KvCacheDtype::kAuto},
             {"float32", KvCacheDtype::kFloat32},
             {"float16", KvCacheDtype::kFloat16},
             {"bfloat16", KvCacheDtype::kBFloat16},
             {"int8", KvCacheDtype::kInt8},
             {"int8_per_token_head", KvCacheDtype::kInt8}},
            "Storage of K and V (default auto = float16); int8: one scale per token and KV head, "
            "and attention in integers; int8_per_token_head is vLLM's name for it");
  app.option_defaults()->group("Memory (how long and how large)");
  AddNumber(app, "--max-model-len", options_.model.max_model_len,
            "Tokens of prompt and output (default: the model's context, or what memory holds)");
  AddNumber(
      app, "--kv-cache-memory-bytes", options_.cache.kv_cache_memory_bytes,
      "Size of the block pool (default: 16 sequences of --max-model-len tokens, at most 2 GiB)");
  app.add_flag("--populate-kv-cache", options_.cache.populate,
               "Take the memory of pool and swap space at the start, so that no request waits for "
               "pages (default: as blocks are first used)");
  AddNumber(app, "--gpu-memory-utilization", options_.cache.gpu_memory_utilization,
            "Share of the smaller of RAM and cgroup limit to use at most (default 0.92)");
  AddNumber(
      app, "--swap-space-bytes", options_.cache.swap_space_bytes,
      "Room for the K and V of preempted sequences, in whole blocks, used with --kv-cache paged "
      "only; 0 = they are recomputed (default 0)");
}

void EngineFlags::AddHowOptions(CLI::App& app) {
  app.option_defaults()->group("Execution (changes time and memory, never the answer)");
  AddNumber(app, "--threads", options_.device.threads,
            "Compute threads (default: the processors this process may use)");
  AddChoice(app, "--simd", options_.device.simd,
            {{"auto", SimdLevel::kAuto},
             {"reference", SimdLevel::kReference},
             {"avx2", SimdLevel::kAvx2},
             {"avx512", SimdLevel::kAvx512}},
            "Instruction set of the kernels (default auto)");
  AddNumber(app, "--block-size", options_.cache.block_size,
            "Tokens per cache block: 8, 16, 32, 64, 128 or 256 (default 16)");
  AddNumber(
      app, "--max-num-batched-tokens", options_.scheduler.max_num_batched_tokens,
      "Tokens computed in one step, prompts and decodes together (default: about half a second of "
      "work, at most 512)");
  AddChoice(app, "--kv-cache", options_.cache.mode,
            {{"paged", KvCacheMode::kPaged},
             {"contiguous", KvCacheMode::kContiguous},
             {"none", KvCacheMode::kNone}},
            "Organisation of the cache (default paged)");
}

void EngineFlags::AddSharingOptions(CLI::App& app) {
  app.option_defaults()->group("Sharing (what requests reuse, and who is next)");
  app.add_flag_callback(
      "--enable-prefix-caching", [this] { options_.cache.enable_prefix_caching = true; },
      "Requests share what the cache holds of their prompts (default)");
  app.add_flag_callback(
      "--no-enable-prefix-caching", [this] { options_.cache.enable_prefix_caching = false; },
      "Every request computes its whole prompt");
  AddChoice(app, "--eviction-policy", options_.cache.eviction_policy,
            {{"lru", EvictionPolicy::kLru}, {"cost_aware", EvictionPolicy::kCostAware}},
            "Which cached content gives way first (default cost_aware)");
  AddNumber(app, "--max-pinned-share", options_.cache.max_pinned_share,
            "Share of the cache that pinned prompts may hold (default 0.5)");
  AddNumber(app, "--max-num-seqs", options_.scheduler.max_num_seqs,
            "Sequences that run at once (default 256)");
  AddChoice(app, "--scheduling-policy", options_.scheduler.policy,
            {{"fcfs", SchedulingPolicy::kFcfs}, {"priority", SchedulingPolicy::kPriority}},
            "Who is next: first come, or lowest priority number (default fcfs)");
}

Result<EngineOptions> EngineFlags::Options() const {
  Result<std::string> path = FindModel(options_.model.path);
  if (!path.ok()) return path.status();
  EngineOptions options = options_;
  options.model.path = *path;
  if (!chat_template_file_.empty()) {
    Result<std::string> text = ReadFileOrStdin(chat_template_file_);
    if (!text.ok()) return text.status();
    if (text->empty()) return Status::InvalidArgument(chat_template_file_ + ": the file is empty");
    options.model.chat_template = *std::move(text);
  }
  return options;
}

Result<std::unique_ptr<Engine>> EngineFlags::Load() {
  Result<EngineOptions> options = Options();
  if (!options.ok()) return options.status();
  LoadProgress progress(StderrIsTerminal());
  options->on_load_progress = [&progress](double share) { progress.Show(share); };
  return Engine::Create(*options);
}

void EngineFlags::NoteShortContext(std::string_view program, const Engine& engine) const {
  const ModelInfo& info = engine.model_info();
  if (options_.model.max_model_len || info.max_model_len >= info.context_length) return;
  WriteStderr(fmt::format(
      "{}: the context is {} tokens, not the model's {}: the block pool holds no more\n", program,
      info.max_model_len, info.context_length));
}

}  // namespace octavo::cli
