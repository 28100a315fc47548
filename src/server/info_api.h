#pragma once

// Purpose:    the paths that tell about the server: /health, /ready, /version, /v1/models,
//             /metrics, /server_info, /v1/loads, and /reset_prefix_cache.
// Ownership:  borrows the service.
// Threading:  the I/O thread.
// Invariants: nothing here but /reset_prefix_cache waits for the engine.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddInfoApi(Service& service, Router& router);

}  // namespace octavo::server
