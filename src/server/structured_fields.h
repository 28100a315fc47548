#pragma once

// Purpose:    the fields that constrain the output: OpenAI's response_format and vLLM's
//             structured_outputs.
// Ownership:  none.
// Threading:  any thread.
// Invariants: at most one kind of constraint is accepted.

#include "octavo/sampling_params.h"
#include "server/json_fields.h"

namespace octavo::server {

void ReadStructuredFields(JsonFields& fields, SamplingParams* params);

}  // namespace octavo::server
