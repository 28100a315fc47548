#pragma once

// Purpose:    sends a load to a server over HTTP, streamed, and notes when the pieces come.
// Ownership:  borrows the load for one run.
// Threading:  RunLoad uses the calling thread alone, for all connections.
// Invariants: a request's time begins before it is connected. What a server answers is bounded in
//             size before it is read.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/serving_load.h"
#include "bench/serving_metrics.h"
#include "octavo/status.h"

namespace octavo::bench {

struct ServingTarget {
  std::string host = "127.0.0.1";
  std::string port = "8000";
  std::string path = "/v1/completions";
  std::string model;            // empty: not sent
  std::string api_key;          // empty: none
  bool ignore_eos = true;       // so that outputs have the lengths that were asked for
  int32_t max_concurrency = 0;  // requests at once; 0 = any number
  double timeout_s = 600.0;     // of one request
};

// http://HOST or http://HOST:PORT, with /v1 at its end or without; an IPv6 address stands in
// brackets, with its zone if it needs one. Fills host (without brackets) and port;
// kInvalidArgument for anything else.
Result<ServingTarget> ParseBaseUrl(const std::string& url);

// What stands in the Host header: a zone does not, for it means nothing to another machine.
std::string HostHeader(const ServingTarget& target);

struct LoadRun {
  std::vector<ServedRequest> requests;  // in the order of their ends
  double duration_s = 0.0;              // from the first arrival to the last end
};

// `on_progress` is called after each request with the number that have ended; may be empty.
// kUnavailable: the server cannot be reached at all.
Result<LoadRun> RunLoad(const std::vector<Conversation>& load, const ServingTarget& target,
                        const std::function<void(size_t num_ended)>& on_progress);

}  // namespace octavo::bench
