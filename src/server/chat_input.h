#pragma once

// Purpose:    the fields of a chat request that the chat template reads.
// Ownership:  none.
// Threading:  any thread.
// Invariants: messages are an array of objects with a role each; what the roles mean is the
//             template's business.

#include "octavo/chat.h"
#include "octavo/engine.h"
#include "server/json_fields.h"

namespace octavo::server {

// messages, tools, add_generation_prompt, continue_final_message, chat_template_kwargs.
void ReadChatInput(JsonFields& fields, ChatInput* input);

// The prompt that the model's chat template makes; the template's own refusal is a client's error.
// Tools that the template does not know are described in the system message.
ApiResult<ChatPrompt> ApplyTemplate(const Engine& engine, const ChatInput& input);

}  // namespace octavo::server
