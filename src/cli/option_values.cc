#include "cli/option_values.h"

namespace octavo::cli {

std::vector<TokenId> TokenIdsOrError(const std::string& option, std::string_view text) {
  std::vector<TokenId> ids;
  while (true) {
    const size_t comma = text.find(',');
    ids.push_back(NumberOrError<TokenId>(option, text.substr(0, comma)));
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace octavo::cli
