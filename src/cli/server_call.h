#pragma once

// Purpose:    one question to a running server over HTTP, and its answer; the key that comes along.
// Ownership:  none.
// Threading:  the calling thread, which waits for the answer; names are looked up on a thread that
//             may outlive the call, and shares nothing with it.
// Invariants: what a server answers is bounded in size before it is read. What it says stands
//             quoted in messages: cut between characters, nothing that steers a terminal.

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
// it has no such path, kDataLoss for an answer that is no object. The time is that from looking up
// the name to the end of the answer.
Result<boost::json::object> PostJson(const bench::ServingTarget& target,
                                     const boost::json::object& body);

}  // namespace octavo::cli
