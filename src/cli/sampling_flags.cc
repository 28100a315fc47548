#include "cli/sampling_flags.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "cli/option_values.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

std::pair<TokenId, float> LogitBiasOrError(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw CLI::ValidationError("--logit-bias", "'" + text + "' is not ID=VALUE");
  }
  const std::string_view view = text;
  return {NumberOrError<TokenId>("--logit-bias", view.substr(0, equals)),
          NumberOrError<float>("--logit-bias", view.substr(equals + 1))};
}

// All of a file.
std::string FileOrError(const std::string& option, const std::string& path) {
  Result<std::string> text = ReadFileOrStdin(path);
  if (!text.ok()) throw CLI::FileError(option + ": " + text.status().message());
  return *std::move(text);
}

}  // namespace

void SamplingFlags::AddTo(CLI::App& app) {
  AddChoosing(app);
  AddEnding(app);
}

void SamplingFlags::AddCompletionsTo(CLI::App& app) {
  AddNumber(app, "-n", params_.n, "Completions of the prompt, 1 to 128 (default 1)");
}

StructuredOutputs& SamplingFlags::structure() {
  if (!params_.structured_outputs) params_.structured_outputs.emplace();
  return *params_.structured_outputs;
}

void SamplingFlags::AddStructureTo(CLI::App& app) {
  app.option_defaults()->group("Structured output (what the answer must look like; one of these)");
  app.add_flag_callback(
      "--json-object", [this] { structure().json_object = true; }, "A JSON object");
  app.add_option_function<std::string>(
         "--json-schema",
         [this](const std::string& text) {
           const size_t first = text.find_first_not_of(" \t\r\n");
           const bool is_text = first != std::string::npos && text[first] == '{';
           structure().json = is_text ? text : FileOrError("--json-schema", text);
         },
         "JSON that matches this schema: a file, or the schema itself, which begins with {")
      ->type_name("FILE|TEXT");
  app.add_option_function<std::string>(
         "--regex", [this](const std::string& text) { structure().regex = text; },
         "Text that this regular expression matches as a whole")
      ->type_name("REGEX");
  app.add_option_function<std::vector<std::string>>(
         "--choice", [this](const std::vector<std::string>& texts) { structure().choice = texts; },
         "One of these texts; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--grammar",
         [this](const std::string& path) { structure().grammar = FileOrError("--grammar", path); },
         "A sentence of the rule 'root' of this file's EBNF")
      ->type_name("FILE");
}

void SamplingFlags::AddChoosing(CLI::App& app) {
  app.option_defaults()->group("Sampling (how each token is chosen)");
  AddNumber(app, "--temperature", params_.temperature,
            fmt::format("0 = always the most likely token (default {})", params_.temperature));
  AddNumber(app, "--top-p", params_.top_p,
            "Sample from the fewest tokens that make up this probability (default 1)");
  AddNumber(app, "--top-k", params_.top_k,
            "Sample from the N most likely tokens; 0 or -1 = all (default 0)");
  AddNumber(app, "--min-p", params_.min_p,
            "Leave out tokens below this share of the best one's probability (default 0)");
  AddNumber(app, "--seed", params_.seed, "Same seed, same answer (default: drawn)");
  AddNumber(app, "--repetition-penalty", params_.repetition_penalty,
            "Over 1 discourages tokens of prompt and output (default 1)");
  AddNumber(app, "--presence-penalty", params_.presence_penalty,
            "Subtracted from the logits of tokens in the output (default 0)");
  AddNumber(app, "--frequency-penalty", params_.frequency_penalty,
            "Subtracted once per occurrence in the output (default 0)");
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [this](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             params_.logit_bias.push_back(LogitBiasOrError(text));
           }
         },
         "Adds VALUE to the logit of token ID; repeatable")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false);
}

void SamplingFlags::AddEnding(CLI::App& app) {
  app.option_defaults()->group("Stopping (when the answer ends)");
  AddNumber(app, "--max-tokens", params_.max_tokens,
            params_.max_tokens ? fmt::format("Most tokens (default {})", *params_.max_tokens)
                               : "Most tokens (default: until the context is full)");
  AddNumber(app, "--min-tokens", params_.min_tokens, "No end before this many tokens (default 0)");
  app.add_option("--stop", params_.stop, "End at this text; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option_function<std::vector<std::string>>(
         "--stop-token-ids",
         [this](const std::vector<std::string>& lists) {
           for (const std::string& list : lists) {
             const std::vector<TokenId> ids = NumbersOrError("--stop-token-ids", list);
             params_.stop_token_ids.insert(params_.stop_token_ids.end(), ids.begin(), ids.end());
           }
         },
         "End at any of these tokens: ID,ID,...")
      ->type_name("IDS")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", params_.ignore_eos, "Go on after the end-of-text token");
  app.add_flag("--include-stop-str-in-output", params_.include_stop_str_in_output,
               "Keep the stop text in the answer");
  app.add_flag("--skip-special-tokens", params_.skip_special_tokens,
               "Leave special tokens out of the text (default)");
  app.add_flag_callback(
      "--no-skip-special-tokens", [this] { params_.skip_special_tokens = false; },
      "Keep special tokens in the text");
}

}  // namespace octavo::cli
