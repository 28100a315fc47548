#pragma once

// Purpose:    the small types that every public header shares.
// Ownership:  values.
// Threading:  plain data.
// Invariants: a TokenId is an index into the model's vocabulary, 0 <= id < vocab_size; -1 stands
//             for "none" where a header says so.

#include <cstdint>

namespace octavo {

using TokenId = int32_t;

inline constexpr TokenId kNoToken = -1;

}  // namespace octavo
