#pragma once

// Purpose:    messages as OpenAI's API allows them, made into what templates expect, as vLLM does.
// Ownership:  values.
// Threading:  any thread.
// Invariants: all strings stay untrusted. What is not changed is passed on as it is.

#include "jinja/value.h"
#include "octavo/status.h"

namespace octavo::text {

// Every message gets a content: null and none become "". Parts become one text, joined by line
// feeds, unless the template walks through them. The arguments of a tool call become an object.
// kInvalidArgument names the message.
Result<jinja::Value> NormalizeMessages(jinja::Execution& execution, const jinja::Value& messages,
                                       bool keep_parts);

// kInvalidArgument: not an array of objects.
Status CheckMessages(const jinja::Value& messages);

}  // namespace octavo::text
