#pragma once

// Purpose:    one question to a running server over HTTP, and its answer.
// Ownership:  none.
// Threading:  the calling thread, which waits for the answer.
// Invariants: what a server answers is bounded in size before it is read.

#include <boost/json/object.hpp>

#include "bench/serving_client.h"
#include "octavo/status.h"

namespace octavo::cli {

// Sends `body` to target.path, with the target's key if it has one; the answer must be an object.
// Errors: kUnavailable when nobody listens, the time is up or the server is at fault,
// kInvalidArgument with the server's own words when it refuses the body or the key, kNotFound when
// it has no such path, kDataLoss for an answer that is no object.
Result<boost::json::object> PostJson(const bench::ServingTarget& target,
                                     const boost::json::object& body);

}  // namespace octavo::cli
