#pragma once

// Purpose:    all paths of the server.
// Ownership:  borrows the service.
// Threading:  before the server starts.
// Invariants: each is described in openapi.json.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddRoutes(Service& service, Router& router);

}  // namespace octavo::server
