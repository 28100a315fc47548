#pragma once

// Purpose:    /v1/chat/completions.
// Ownership:  borrows the service.
// Threading:  the I/O thread.
// Invariants: as generation_handler.h.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddChatApi(Service& service, Router& router);

}  // namespace octavo::server
