#include "cli/option_values.h"

namespace octavo::cli {

std::vector<int32_t> NumbersOrError(const std::string& option, std::string_view text) {
  std::vector<int32_t> numbers;
  while (true) {
    const size_t comma = text.find(',');
    numbers.push_back(NumberOrError<int32_t>(option, text.substr(0, comma)));
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace octavo::cli
