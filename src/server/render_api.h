#pragma once

// Purpose:    /v1/completions/render and /v1/chat/completions/render: the tokens that a request
//             would give the engine, without computing anything. Routers place requests by them.
// Ownership:  borrows the service.
// Threading:  the I/O thread; the work on a worker.
// Invariants: the tokens are those that the same body would generate from.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddRenderApi(Service& service, Router& router);

}  // namespace octavo::server
