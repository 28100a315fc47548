#pragma once

// Purpose:    the JSON that `octavo run --json` prints. Its shape is a promise: fields are added,
//             never changed (docs/guides/command-line.md).
// Ownership:  none; the values returned own their contents.
// Threading:  any thread that may use the engine.
// Invariants: the text is valid JSON for any output: strings are made valid UTF-8, and a number
//             that is not finite becomes null.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "octavo/engine.h"

namespace octavo::cli {

// A number, or null if it is not finite.
boost::json::value FiniteNumber(double value);

// A token's bytes as the completions API writes them: the text where it is valid UTF-8, else
// "bytes:\xe4\xbd".
std::string TokenString(std::string_view bytes);

// One member per MemoryTag, and their total.
boost::json::object BytesByTag(const MemoryUsage& usage);

// `with_scores`: each completion's cumulative_logprob too, which only a request with
// log-probabilities or a beam search has.
boost::json::object RunOutputJson(const Engine& engine, const RequestOutput& output,
                                  bool with_scores);

}  // namespace octavo::cli
