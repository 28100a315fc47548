#pragma once

// Purpose:    the path and the query of a request's target.
// Ownership:  none.
// Threading:  any thread.
// Invariants: percent escapes are decoded once; a path that does not begin with '/' or has a bad
//             escape is refused.

#include <string_view>

#include "server/http_message.h"

namespace octavo::server {

// Fills path and query; false if `target` is not an absolute path.
bool ParseTarget(std::string_view target, HttpRequest* request);

}  // namespace octavo::server
