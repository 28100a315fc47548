#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/prompt_flags.h"
#include "cli/sampling_flags.h"
#include "cli/statistics.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kHelp[] =
    "/reset  forget the conversation    /exit or Ctrl-D  leave\n"
    "/help   show this                  Ctrl-C           stop the answer, not the program\n";

constexpr char kChatExamples[] =
    R"(Type a line, read the answer, type the next. /help shows the commands.

Examples:
  octavo chat
  octavo chat --system "Answer in one sentence." --temperature 0.2 --top-p 0.9
  printf 'What is paper made of?\nAnd who invented it?\n' | octavo chat --max-tokens 60 --seed 1
)";

// A chat goes on until the context is full, unless --max-tokens says otherwise.
SamplingParams ChatDefaults() {
  SamplingParams params;
  params.max_tokens.reset();
  return params;
}

// The turns so far; the engine's prefix cache holds their K and V.
class Conversation {
 public:
  Conversation(Engine& engine, const std::string& system, const SamplingParams& params)
      : engine_(engine), system_(system), params_(params) {
    Reset();
  }

  void Reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
  }

  // Streams the answer to `question`. After an error the question is as if never asked.
  Result<RequestOutput> Ask(const std::string& question, const DeltaCallback& on_delta) {
    messages_.push_back({.role = "user", .content = question});
    Result<RequestOutput> output = Generate(on_delta);
    if (output.ok()) {
      messages_.push_back({.role = "assistant", .content = output->outputs.front().text});
    } else {
      messages_.pop_back();
    }
    return output;
  }

 private:
  Result<RequestOutput> Generate(const DeltaCallback& on_delta) {
    Result<std::vector<TokenId>> prompt = engine_.ApplyChatTemplate(messages_);
    if (!prompt.ok()) return prompt.status();
    const int32_t limit = engine_.model_info().max_model_len;
    if (prompt->size() >= static_cast<size_t>(limit)) {
      return Status::InvalidArgument(
          fmt::format("the conversation has {} tokens, but max_model_len is {} (with at least 1 of "
                      "the answer); /reset begins a new one",
                      prompt->size(), limit));
    }
    return engine_.Generate(*prompt, params_, on_delta);
  }

  Engine& engine_;
  std::string system_;
  SamplingParams params_;
  std::vector<ChatMessage> messages_;
};

class ChatCommand : public Command {
 public:
  explicit ChatCommand(CLI::App& app) {
    app.add_option("--system", system_, "The system message (default: the template's own)")
        ->type_name("TEXT");
    sampling_.AddTo(app);
    engine_flags_.AddTo(app);
    app.footer(kChatExamples);
  }

  Status Run() override {
    if (Status status = sampling_.params().Validate(/*vocab_size=*/0); !status.ok()) return status;
    if (!system_.empty()) {
      if (Status status = CheckPrompt("--system", system_); !status.ok()) return status;
    }
    Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
    if (!engine.ok()) return engine.status();
    engine_flags_.NoteShortContext("octavo chat", **engine);
    Conversation conversation(**engine, system_, sampling_.params());
    InterruptScope interrupt(**engine, InterruptScope::Then::kAgain);
    if (StdinIsTerminal()) {
      WriteStderr(fmt::format("{}\n{}", Printable((*engine)->model_info().name), kHelp));
    }
    return Converse(conversation, interrupt);
  }

 private:
  static Status Converse(Conversation& conversation, InterruptScope& interrupt) {
    const bool interactive = StdinIsTerminal();
    LineReader reader;
    std::string line;
    while (true) {
      if (interactive) WriteStderr("> ");
      const LineReader::Outcome outcome = reader.Read(&line);
      if (outcome == LineReader::Outcome::kInterrupted) {
        interrupt.TakeInterrupted();
        WriteStderr("\n");
        continue;
      }
      if (outcome == LineReader::Outcome::kEnd) {
        if (interactive) WriteStderr("\n");
        return Status::Ok();
      }
      if (line.ends_with('\r')) line.pop_back();  // a file from Windows
      if (line == "/exit") return Status::Ok();
      Status status = line.starts_with('/') ? Obey(conversation, line) : Answer(conversation, line);
      // On a terminal the next line may do better; in a pipe nobody would notice.
      if (interactive && !status.ok() && !status.message().empty()) {
        WriteStderr(fmt::format("octavo chat: {}\n", Printable(status.message())));
      } else if (!status.ok()) {
        return status;
      }
    }
  }

  static Status Obey(Conversation& conversation, const std::string& line) {
    if (line == "/reset") {
      conversation.Reset();
    } else if (line == "/help") {
      WriteStderr(kHelp);
    } else {
      return Status::InvalidArgument(
          fmt::format("'{}' is not a command; there are /reset, /exit and /help", line));
    }
    return Status::Ok();
  }

  static Status Answer(Conversation& conversation, const std::string& question) {
    if (question.empty()) return Status::Ok();
    if (Status status = CheckPrompt("standard input", question); !status.ok()) return status;
    Status written;
    Result<RequestOutput> output =
        conversation.Ask(question, [&written](const RequestDelta& delta) {
          written = WriteStdout(delta.text);
          return written.ok();
        });
    if (!output.ok()) return output.status();
    if (written.ok()) written = WriteStdout("\n");
    if (!written.ok()) return written;
    if (StderrIsTerminal()) WriteStderr(FormatStatistics(*output) + "\n");
    return ErrorOf(*output);
  }

  std::string system_;
  SamplingFlags sampling_{ChatDefaults()};
  EngineFlags engine_flags_;
};

}  // namespace

std::unique_ptr<Command> AddChatCommand(CLI::App& app) {
  return std::make_unique<ChatCommand>(app);
}

}  // namespace octavo::cli
