#pragma once

// Purpose:    the bytes of an answer's status line and headers.
// Ownership:  none.
// Threading:  any thread.
// Invariants: no header's value can begin a new line.

#include <string>

#include "server/http_message.h"

namespace octavo::server {

enum class BodyFraming { kLength, kChunked, kUntilClose };

struct HeadOptions {
  const HttpRequest& request;
  BodyFraming framing = BodyFraming::kLength;
  bool keep_alive = true;
  Headers cors;
};

std::string ResponseHead(const HttpResponse& response, const HeadOptions& options);

}  // namespace octavo::server
