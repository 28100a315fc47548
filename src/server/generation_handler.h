#pragma once

// Purpose:    serves one generating call from its body to its answer; the same for completions and
//             chat.
// Ownership:  borrows the service for the call.
// Threading:  the I/O thread; parsing on a worker.
// Invariants: a call that was let in is counted until its answer is out or its client has left.

#include <functional>
#include <memory>
#include <string_view>

#include "server/answer.h"
#include "server/exchange.h"
#include "server/service.h"

namespace octavo::server {

// What parses a body, on a worker. `id` and the time are of this request.
using AnswerParser = std::function<ApiResult<std::unique_ptr<Answer>>(
    std::string_view body, const Engine& engine, AnswerHead head)>;

// `id_prefix` begins the answer's id: "cmpl-".
Awaitable<void> HandleGeneration(Service& service, Exchange& exchange, std::string id_prefix,
                                 const AnswerParser& parse);

}  // namespace octavo::server
