#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/streams.h"
#include "formats/gguf_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace octavo::cli {
namespace {

constexpr char kRenderExamples[] =
    R"(The messages are rendered as they stand, as Hugging Face's apply_chat_template does. With
--normalize they are first made into what the server makes of them: arguments of tool calls as
objects, content in parts as one text, content null as "" (it also describes tools in the system
message where the template knows none; that is not done here). With --chat-template and without -m
no model is read, and there are no token ids; with both, the tokens are the model's.

Examples:
  echo '[{"role": "user", "content": "Hi"}]' | octavo render --messages -
  octavo render --chat-template q.jinja --messages chat.json --kwargs '{"enable_thinking": false}'
  octavo render -m model.gguf --messages chat.json --json | jq .token_ids
)";

// An error about a file, with the option that named the file.
Status NamedAfter(std::string_view option, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", option, status.message()));
}

class RenderCommand : public Command {
 public:
  explicit RenderCommand(CLI::App& app) {
    model_option_ = AddModelOption(app, model_);
    app.add_option("--chat-template", template_file_, "Jinja template, instead of the model's own")
        ->type_name("FILE.jinja");
    app.add_option("--messages", messages_file_,
                   "JSON array of messages, as in OpenAI's API; - = standard input")
        ->type_name("FILE.json")
        ->required();
    app.add_option("--tools", tools_file_, "JSON array of tools")->type_name("FILE.json");
    app.add_flag("--no-generation-prompt", no_generation_prompt_,
                 "End with the last message, not with the beginning of an answer");
    app.add_flag("--continue-final-message", input_.continue_final_message,
                 "End inside the last message, for the model to go on with it");
    app.add_option("--kwargs", input_.kwargs_json, "More variables for the template")
        ->type_name("JSON");
    app.add_option("--bos-token", bos_token_, "What bos_token is in the template")
        ->type_name("TEXT");
    app.add_option("--eos-token", eos_token_, "What eos_token is in the template")
        ->type_name("TEXT");
    app.add_flag("--normalize", normalize_, "Prepare the messages as the server does");
    app.add_flag("--json", json_,
                 "Print one JSON object: prompt, and token_ids if there is a model");
    app.footer(kRenderExamples);
  }

  Status Run() override {
    if (Status status = LoadModel(); !status.ok()) return status;
    if (Status status = LoadTemplate(); !status.ok()) return status;
    Result<std::string> messages = ReadFileOrStdin(messages_file_);
    if (!messages.ok()) return NamedAfter("--messages", messages.status());
    input_.messages_json = *std::move(messages);
    if (!tools_file_.empty()) {
      Result<std::string> tools = ReadFileOrStdin(tools_file_);
      if (!tools.ok()) return NamedAfter("--tools", tools.status());
      input_.tools_json = *std::move(tools);
    }
    input_.add_generation_prompt = !no_generation_prompt_ && !input_.continue_final_message;
    Result<text::RenderedChat> chat = template_->Render(input_, Options());
    if (!chat.ok()) return chat.status();
    return Print(*chat);
  }

 private:
  // A model is read unless only a template is given.
  Status LoadModel() {
    if (!template_file_.empty() && model_option_->count() == 0) return Status::Ok();
    Result<std::string> path = FindModel(model_);
    if (!path.ok()) return path.status();
    Result<formats::GgufFile> file = formats::GgufFile::Open(*path);
    if (!file.ok()) return file.status();
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::LoadTokenizer(*file);
    if (!tokenizer.ok()) return tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    if (!template_file_.empty()) return Status::Ok();
    Result<text::ChatTemplate> own = text::ChatTemplate::FromGguf(*file);
    if (!own.ok()) return own.status();
    template_ = *std::move(own);
    return Status::Ok();
  }

  Status LoadTemplate() {
    if (template_) return Status::Ok();
    Result<std::string> jinja = ReadFileOrStdin(template_file_);
    if (!jinja.ok()) return NamedAfter("--chat-template", jinja.status());
    Result<text::ChatTemplate> parsed = text::ChatTemplate::FromText(*jinja);
    if (!parsed.ok()) {
      return Status(parsed.status().code(), template_file_ + ": " + parsed.status().message());
    }
    template_ = *std::move(parsed);
    return Status::Ok();
  }

  text::ChatTemplateOptions Options() const {
    text::ChatTemplateOptions options;
    if (tokenizer_) options = text::OptionsFor(*tokenizer_);
    if (bos_token_) options.bos_token = bos_token_;
    if (eos_token_) options.eos_token = eos_token_;
    options.normalize = normalize_;
    return options;
  }

  Status Print(const text::RenderedChat& chat) const {
    if (!json_) return WriteStdout(chat.text);
    boost::json::object object = {{"prompt", chat.text}};
    if (tokenizer_) {
      const Result<std::vector<TokenId>> ids = tokenizer_->EncodeTrusted(chat.text, chat.trusted);
      if (!ids.ok()) return ids.status();
      boost::json::array token_ids(ids->begin(), ids->end());
      object["token_ids"] = std::move(token_ids);
    }
    return WriteStdout(boost::json::serialize(object) + "\n");
  }

  std::string model_;
  CLI::Option* model_option_ = nullptr;
  std::string template_file_, messages_file_, tools_file_;
  std::optional<std::string> bos_token_, eos_token_;
  ChatInput input_;
  bool no_generation_prompt_ = false, normalize_ = false, json_ = false;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> template_;
};

}  // namespace

std::unique_ptr<Command> AddRenderCommand(CLI::App& app) {
  return std::make_unique<RenderCommand>(app);
}

}  // namespace octavo::cli
