#pragma once

// Purpose:    the paths that tell about the server: /health, /ready, /version, /v1/models,
//             /metrics, /server_info, /v1/loads, /reset_prefix_cache and /check_integrity.
// Ownership:  borrows the service.
// Threading:  the I/O thread.
// Invariants: nothing here but the last two waits for the engine.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddInfoApi(Service& service, Router& router);

}  // namespace octavo::server
