#pragma once

// Purpose:    /v1/completions.
// Ownership:  borrows the service.
// Threading:  the I/O thread.
// Invariants: as generation_handler.h.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddCompletionApi(Service& service, Router& router);

}  // namespace octavo::server
