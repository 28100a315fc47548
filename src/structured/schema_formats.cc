#include "structured/schema_formats.h"

#include <functional>
#include <map>

namespace octavo::structured {
namespace {

std::map<std::string, std::string, std::less<>> MakePatterns() {
  // 29 February is left out, so that the year plays no part.
  const std::string date = std::string(R"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|)") +
                           R"((0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))";
  const std::string time =
      R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
  const std::string duration_time = R"(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))";
  const std::string duration_date = R"((\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D))";
  const std::string byte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?";
  const std::string hostname = label + R"((\.)" + label + ")*";
  const std::string word = "[A-Za-z0-9_+-]";
  const std::string path = R"((/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*)";
  const std::string query = R"([A-Za-z0-9._~!$&'()*+,;=:@/?-]*)";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration",
       "P(" + duration_date + "(" + duration_time + ")?|" + duration_time + R"(|\d+W))"},
      {"email", word + R"(+(\.)" + word + "+)*@" + hostname},
      {"hostname", hostname},
      {"ipv4", "(" + byte + R"(\.){3})" + byte},
      {"ipv6", "(" + group + ":){7}" + group + "|(" + group + ":){1,6}:" + group + "|::(" + group +
                   ":){0,6}" + group + "|(" + group + ":){1,7}:|::"},
      {"uri", "[a-z][a-z0-9+.-]*://" + hostname + R"((:\d{1,5})?)" + path + R"((\?)" + query +
                  ")?(#" + query + ")?"},
      {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
  };
}

const std::map<std::string, std::string, std::less<>>& Patterns() {
  static const std::map<std::string, std::string, std::less<>> patterns = MakePatterns();
  return patterns;
}

}  // namespace

std::optional<std::string> FormatPattern(std::string_view format) {
  const auto found = Patterns().find(format);
  return found == Patterns().end() ? std::nullopt : std::optional(found->second);
}

std::string FormatNames() {
  std::string names;
  for (const auto& [name, pattern] : Patterns()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace octavo::structured
