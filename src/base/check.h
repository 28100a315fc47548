#pragma once

// Purpose:    OCTAVO_CHECK states what must hold or the program has a bug; it prints the condition,
//             the place and a message, and aborts. OCTAVO_DCHECK is the same in builds without
//             NDEBUG and costs nothing otherwise.
// Threading:  any thread.

#include <string_view>

namespace octavo::base {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace octavo::base

#define OCTAVO_CHECK(condition, message)                                    \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::octavo::base::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)

#ifdef NDEBUG
#define OCTAVO_DCHECK(condition, message) \
  do {                                    \
  } while (false)
#else
#define OCTAVO_DCHECK(condition, message) OCTAVO_CHECK(condition, message)
#endif
