#include "cli/usage_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace octavo::cli {
namespace {

// Letters and digits alone, as one would compare "--maxtokens" with "--max-tokens".
std::string Squeezed(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return letters;
}

// The option that only differs in case and punctuation; empty if there is none.
std::string Similar(const CLI::App& command, std::string_view name) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      if (Squeezed(known) == Squeezed(name)) return "--" + known;
    }
  }
  return {};
}

std::string SubcommandNames(const CLI::App& command) {
  std::string names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + each->get_name();
  }
  return names;
}

}  // namespace

const CLI::App& DeepestCommand(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string ProgramName(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

std::string DescribeParseError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = DeepestCommand(app);
  const std::vector<std::string> words = command.remaining();
  if (words.empty()) return error.what();
  const auto option = std::ranges::find_if(
      words, [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (option != words.end()) {
    const std::string name = option->substr(0, option->find('='));
    const std::string similar = Similar(command, name);
    return fmt::format("'{}' is not an option{}", name,
                       similar.empty() ? "" : fmt::format("; did you mean {}?", similar));
  }
  const std::string names = SubcommandNames(command);
  if (names.empty()) return fmt::format("'{}' was not expected", words.front());
  return fmt::format("'{}' is not a command; there are {}", words.front(), names);
}

std::string WithOptionName(const CLI::App& command, std::string_view message) {
  const size_t end = message.find(" is ");
  const std::string_view field = message.substr(0, end);
  const bool is_field =
      end != std::string_view::npos && !field.empty() && std::ranges::all_of(field, [](char c) {
        return c == '_' || std::islower(static_cast<unsigned char>(c)) != 0;
      });
  if (!is_field) return std::string(message);
  std::string option = "--" + std::string(field);
  std::ranges::replace(option, '_', '-');
  if (command.get_option_no_throw(option) == nullptr) return std::string(message);
  return option + std::string(message.substr(end));
}

}  // namespace octavo::cli
