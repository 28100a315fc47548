#pragma once

// Purpose:    /tokenize and /detokenize.
// Ownership:  borrows the service.
// Threading:  the I/O thread; the work on a worker.
// Invariants: none.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddTokenApi(Service& service, Router& router);

}  // namespace octavo::server
