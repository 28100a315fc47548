#pragma once

// Purpose:    options whose values are checked where they are read, so that an error names the
//             option, the value and what it should have been.
// Ownership:  the targets belong to the caller and must outlive the parsing.
// Threading:  the main thread.
// Invariants: a target is only written when the value is good.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace octavo::cli {

// Parses all of `text`; nan and inf are numbers here, for the range check that follows to refuse.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// What a number of type T may be, for an error message.
template <typename T>
std::string NumberKind() {
  if constexpr (std::is_floating_point_v<T>) {
    return "a number";
  } else if constexpr (sizeof(T) == 8) {
    return "a whole number of at most " + std::to_string(std::numeric_limits<T>::max()) +
           ", without a unit";
  } else {
    return "a whole number from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max());
  }
}

// As ParseNumber, but a bad value ends the parsing of the command line with an error that names
// `option`.
template <typename T>
T NumberOrError(const std::string& option, std::string_view text) {
  const std::optional<T> value = ParseNumber<T>(text);
  if (!value) {
    throw CLI::ValidationError(option, "'" + std::string(text) + "' is not " + NumberKind<T>());
  }
  return *value;
}

// Target is an arithmetic type or an optional of one.
template <typename Target>
struct NumberOf {
  using type = Target;
};
template <typename T>
struct NumberOf<std::optional<T>> {
  using type = T;
};

template <typename Target>
CLI::Option* AddNumber(CLI::App& app, const std::string& option, Target& target,
                       const std::string& help) {
  using T = typename NumberOf<Target>::type;
  return app
      .add_option_function<std::string>(
          option,
          [option, &target](const std::string& text) { target = NumberOrError<T>(option, text); },
          help)
      ->type_name(std::is_floating_point_v<T> ? "X" : "N");
}

// The numbers in "1,2,3"; a token id is one.
std::vector<int32_t> NumbersOrError(const std::string& option, std::string_view text);

}  // namespace octavo::cli
