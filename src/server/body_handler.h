#pragma once

// Purpose:    serves a call that needs no generation: parses the body and makes the answer on a
//             worker.
// Ownership:  borrows the service for the call.
// Threading:  the I/O thread; the work on a worker.
// Invariants: counts among the calls that are served at once; 503 while the model is not there.

#include <functional>
#include <string>
#include <string_view>

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

// A body's answer, as JSON text. Called on a worker.
using BodyWork = std::function<ApiResult<std::string>(std::string_view body, const Engine& engine)>;

void AddBodyHandler(Service& service, Router& router, std::string path, BodyWork work);

}  // namespace octavo::server
