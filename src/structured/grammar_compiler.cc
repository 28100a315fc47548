#include "structured/grammar_compiler.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "structured/grammar_cache.h"
#include "structured/grammar_guard.h"
#include "structured/grammar_library.h"
#include "structured/grammar_limits.h"
#include "structured/library_log.h"

namespace octavo::structured {
namespace {

using Compiled = Result<std::shared_ptr<const CompiledGrammar>>;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxMessageBytes = 300;
// Between the parts of a JSON text: a line break and indentation to a usual depth. Small models
// would else go on with white space until they run out of tokens.
constexpr int kMaxWhitespaceCharacters = 16;

// Tokens that are no text have no bytes: the library never allows them.
xgrammar::TokenizerInfo MakeVocabulary(const text::Tokenizer& tokenizer,
                                       std::span<const TokenId> end_token_ids) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSpecial(id) || tokenizer.IsEndOfGeneration(id)) continue;
    bytes[static_cast<size_t>(id)] = tokenizer.TokenBytes(id);
  }
  return xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, tokenizer.vocab_size(),
                                 std::vector<int32_t>(end_token_ids.begin(), end_token_ids.end()));
}

Status LibraryError(std::string_view message) {
  return Status::InvalidArgument(fmt::format("the structured output cannot be compiled: {}",
                                             message.substr(0, kMaxMessageBytes)));
}

xgrammar::CompiledGrammar CompileSchema(xgrammar::GrammarCompiler& compiler,
                                        const std::string& schema) {
  return compiler.CompileJSONSchema(schema, /*any_whitespace=*/true, /*indent=*/std::nullopt,
                                    /*separators=*/std::nullopt, /*strict_mode=*/true,
                                    kMaxWhitespaceCharacters);
}

Compiled CompileNow(const xgrammar::TokenizerInfo& vocabulary, const GrammarSource& source) {
  ClearLibraryWarnings();
  try {
    xgrammar::GrammarCompiler compiler(vocabulary, /*max_threads=*/1, /*cache_enabled=*/false);
    xgrammar::CompiledGrammar compiled = source.kind == GrammarSource::Kind::kEbnf
                                             ? compiler.CompileGrammar(source.text)
                                             : CompileSchema(compiler, source.text);
    if (!FirstLibraryWarning().empty()) return LibraryError(FirstLibraryWarning());
    return std::shared_ptr<const CompiledGrammar>(
        std::make_shared<CompiledGrammar>(std::move(compiled)));
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("there is no memory to compile the structured output");
  } catch (const std::exception& error) {
    return LibraryError(error.what());
  }
}

std::string KeyOf(const GrammarSource& source) {
  return (source.kind == GrammarSource::Kind::kEbnf ? "e" : "j") + source.text;
}

}  // namespace

struct GrammarCompiler::State {
  State(xgrammar::TokenizerInfo the_vocabulary, const CompilerOptions& the_options)
      : vocabulary(std::move(the_vocabulary)),
        options(the_options),
        cache(the_options.max_cache_bytes) {}

  const xgrammar::TokenizerInfo vocabulary;
  const CompilerOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  int num_running = 0;
  GrammarCache cache;
};

namespace {

// One compile; its thread and whoever waits for it hold it together.
struct Job {
  std::shared_ptr<void> state_owner;
  std::function<void(Job&)> run;
  GrammarSource source;
  Clock::time_point finished_at;   // set before `result`
  std::optional<Compiled> result;  // under the state's mutex
};

void* RunJob(void* argument) {
  const std::unique_ptr<std::shared_ptr<Job>> job(static_cast<std::shared_ptr<Job>*>(argument));
  (*job)->run(**job);
  return nullptr;
}

// A detached thread with the stack that the library may need.
bool StartThread(const std::shared_ptr<Job>& job) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  auto argument = std::make_unique<std::shared_ptr<Job>>(job);
  const bool started = pthread_attr_setstacksize(&attributes, kCompileStackBytes) == 0 &&
                       pthread_create(&thread, &attributes, RunJob, argument.get()) == 0;
  pthread_attr_destroy(&attributes);
  if (started) argument.release();
  return started;
}

}  // namespace

GrammarCompiler::GrammarCompiler(const text::Tokenizer& tokenizer,
                                 std::span<const TokenId> end_token_ids,
                                 const CompilerOptions& options)
    : state_(std::make_shared<State>(MakeVocabulary(tokenizer, end_token_ids), options)) {}

GrammarCompiler::~GrammarCompiler() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->num_running == 0; });
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::Compile(
    const StructuredOutputs& outputs) {
  Result<GrammarSource> source = GuardGrammar(outputs);
  if (!source.ok()) return source.status();
  const std::string key = KeyOf(*source);
  State& state = *state_;
  const auto deadline = Clock::now() + state.options.time_limit;

  std::unique_lock lock(state.mutex);
  std::shared_ptr<const CompiledGrammar> known;
  const bool may_go_on = state.changed.wait_until(lock, deadline, [&] {
    known = state.cache.Find(key);
    return known != nullptr || state.num_running < kMaxCompiles;
  });
  if (known != nullptr) return known;
  if (!may_go_on) {
    return Status::Unavailable(fmt::format(
        "{} structured outputs are being compiled already; try again later", kMaxCompiles));
  }
  auto job = std::make_shared<Job>();
  job->source = *std::move(source);
  job->state_owner = state_;
  job->run = [&state, key](Job& self) {
    Compiled result = CompileNow(state.vocabulary, self.source);
    self.finished_at = Clock::now();
    const std::lock_guard guard(state.mutex);
    if (result.ok()) {
      state.cache.Put(key, *result,
                      (*result)->memory_bytes() + static_cast<int64_t>(2 * key.size()));
    }
    self.result = std::move(result);
    --state.num_running;
    state.changed.notify_all();
  };
  ++state.num_running;
  const auto compile_deadline = Clock::now() + state.options.time_limit;
  if (!StartThread(job)) {
    --state.num_running;
    return Status::ResourceExhausted(fmt::format(
        "cannot start a thread with a stack of {} bytes to compile", kCompileStackBytes));
  }
  const auto is_finished = [&] { return job->result.has_value(); };
  // Whether it was in time is the compiler's to say: this thread may wake up much later. Where it
  // wakes up before a result that was in time is there, that counts as too late.
  if (!state.changed.wait_until(lock, compile_deadline, is_finished) ||
      job->finished_at > compile_deadline) {
    return Status::InvalidArgument(
        fmt::format("the structured output is too costly: it was not compiled within {} ms",
                    state.options.time_limit.count()));
  }
  return *std::move(job->result);
}

bool GrammarCompiler::Holds(const StructuredOutputs& outputs) const {
  const Result<GrammarSource> source = GuardGrammar(outputs);
  if (!source.ok()) return false;
  const std::lock_guard guard(state_->mutex);
  return state_->cache.Contains(KeyOf(*source));
}

int64_t GrammarCompiler::cached_bytes() const {
  const std::lock_guard guard(state_->mutex);
  return state_->cache.bytes();
}

}  // namespace octavo::structured
