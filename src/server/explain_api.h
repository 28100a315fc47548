#pragma once

// Purpose:    /v1/completions/explain and /v1/chat/completions/explain: what the KV cache holds of
//             a request's prompt at this moment, block by block, without computing anything.
// Ownership:  borrows the service.
// Threading:  the I/O thread; parsing on a worker, the engine is asked on one of client_questions.
// Invariants: the prompt, and the salt that it is looked for under, are those that the same body
//             would generate from; nothing in the cache changes. A bounded number waits.

#include "server/router.h"
#include "server/service.h"

namespace octavo::server {

void AddExplainApi(Service& service, Router& router);

}  // namespace octavo::server
