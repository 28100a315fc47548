#pragma once

// Purpose:    the fields by which a request says how tokens are chosen: OpenAI's and vLLM's names.
// Ownership:  none.
// Threading:  any thread.
// Invariants: what is accepted passes SamplingParams::Validate; a field at fault is named as the
//             client named it.

#include <cstdint>

#include "octavo/request.h"
#include "server/json_fields.h"

namespace octavo::server {

// Fills everything but logprobs, which the two APIs spell differently, and the number of tokens.
void ReadSamplingFields(JsonFields& fields, SamplingParams* params);

// The bytes that the engine keeps of the parameters for each completion.
uint64_t BytesOf(const SamplingParams& params);

// `name` is "max_tokens" or "max_completion_tokens"; what is beyond any context counts as the
// context's rest.
void ReadMaxTokens(JsonFields& fields, std::string_view name, int64_t low, SamplingParams* params);

// use_beam_search, with n as the beam's width.
void ReadBeamSearch(JsonFields& fields, Request* request);

// priority, cache_salt, pin_ttl_ms and explain.
void ReadSharingFields(JsonFields& fields, Request* request);

}  // namespace octavo::server
