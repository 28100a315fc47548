#pragma once

// Purpose:    one question to a running server over HTTP, and its answer; the key that comes along.
// Ownership:  none.
// Threading:  the calling thread, which waits for the answer.
// Invariants: what a server answers is bounded in size before it is read.

#include <boost/json/object.hpp>
#include <string>

#include "bench/serving_client.h"
#include "octavo/status.h"

namespace octavo::cli {

// The key in OCTAVO_API_KEY, empty if there is none; an error if no header can carry it.
Result<std::string> ReadApiKey();

// Sends `body` to target.path, with the target's key if it has one; the answer must be an object.
// Errors: kUnavailable when nobody listens, the time is up or the server is at fault,
// kInvalidArgument with the server's own words when it refuses the body or the key, kNotFound when
// it has no such path, kDataLoss for an answer that is no object. The time is that from connecting
// to the end of the answer: finding the address of a name has limits of its own.
Result<boost::json::object> PostJson(const bench::ServingTarget& target,
                                     const boost::json::object& body);

}  // namespace octavo::cli
