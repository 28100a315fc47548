#pragma once

// Purpose:    conversations, and the prompts that a model's chat template makes of them
//             (docs/contracts/text.md is normative).
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: none; Engine::ApplyChatTemplate checks what it is given.

#include <string>
#include <vector>

#include "octavo/types.h"

namespace octavo {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::string content;
};

// Texts are JSON; an empty one is absent.
struct ChatInput {
  std::string messages_json;  // an array of objects, as in OpenAI's API; must be there
  std::string tools_json;     // an array
  std::string kwargs_json;    // an object: variables for the template, enable_thinking for example
  bool add_generation_prompt = true;
  // The prompt ends with the last message's content, for the model to go on with. Excludes
  // add_generation_prompt.
  bool continue_final_message = false;
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> token_ids;  // ready for Generate
};

}  // namespace octavo
