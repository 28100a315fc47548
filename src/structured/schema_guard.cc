#include "structured/schema_guard.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <string>
#include <utility>

#include "structured/grammar_limits.h"
#include "structured/schema_reader.h"

namespace octavo::structured {

Result<std::string> GuardSchema(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kMaxSchemaDepth;
  boost::json::error_code error;
  const boost::json::value schema = boost::json::parse(text, error, {}, options);
  if (error == boost::json::error::too_deep) {
    return Status::InvalidArgument(
        fmt::format("the JSON schema is nested more than {} deep, the most", kMaxSchemaDepth));
  }
  if (error) {
    return Status::InvalidArgument(fmt::format("the JSON schema is not JSON: {}", error.message()));
  }
  SchemaReader reader(schema);
  Result<boost::json::value> canonical = reader.Read();
  if (!canonical.ok()) return canonical.status();
  return boost::json::serialize(*canonical);
}

}  // namespace octavo::structured
