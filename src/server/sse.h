#pragma once

// Purpose:    server-sent events: the framing of streamed answers.
// Ownership:  none.
// Threading:  any thread.
// Invariants: an event's data is one line.

#include <string>
#include <string_view>

#include "server/http_message.h"

namespace octavo::server {

inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

inline HttpResponse StreamHead() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return head;
}

inline void AppendEvent(std::string_view json, std::string* events) {
  *events += "data: ";
  *events += json;
  *events += "\n\n";
}

}  // namespace octavo::server
