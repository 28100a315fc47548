#pragma once

// Purpose:    ids by which requests are found in logs and answers.
// Ownership:  none.
// Threading:  any thread.
// Invariants: an id is 1 to 128 letters, digits, '-', '_' or '.'.

#include <string>
#include <string_view>

namespace octavo::server {

bool IsRequestId(std::string_view text);
// 32 hexadecimal digits, different each time.
std::string DrawRequestId();

}  // namespace octavo::server
