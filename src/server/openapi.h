#pragma once

// Purpose:    /openapi.json: the description of the API that the server serves.
// Ownership:  none.
// Threading:  the I/O thread.
// Invariants: every route of the server is described (a test compares them).

#include <string_view>

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

std::string_view OpenApiDocument();

void AddOpenApi(Service& service, Router& router);

}  // namespace octavo::server
