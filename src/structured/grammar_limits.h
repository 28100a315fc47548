#pragma once

// Purpose:    how large and how deep a grammar may be before it is handed to the library, which
//             itself recurses and expands without bound
//             (docs/contracts/structured-outputs.md, G3).
// Threading:  constants.
// Invariants: what stays within them compiles on a stack of kCompileStackBytes.

#include <cstddef>
#include <cstdint>

namespace octavo::structured {

inline constexpr size_t kMaxSourceBytes = 128 << 10;    // of a schema, regex, grammar, all choices
inline constexpr size_t kMaxPatternBytes = 4 << 10;     // of a pattern within a schema
inline constexpr int32_t kMaxDepth = 32;                // of groups in a grammar or regex
inline constexpr int32_t kMaxSchemaDepth = 64;          // of JSON values in a schema
inline constexpr int32_t kMaxRules = 500;               // of a grammar
inline constexpr int32_t kMaxChoices = 1000;            // texts, or values of an enum
inline constexpr int32_t kMaxSchemas = 2000;            // schemas within a schema
inline constexpr int32_t kMaxProperties = 256;          // of one object
inline constexpr int64_t kMaxCountedProperties = 1024;  // properties times their count
inline constexpr double kMaxNumberBound = 1e15;         // of minimum, maximum ... in a schema
inline constexpr int64_t kMaxRepeat = 10000;            // of {n,m}, items, lengths
inline constexpr int64_t kMaxWideRepeat = 128;          // of {n,m} of a class that is not narrow
inline constexpr uint32_t kMaxNarrowClass = 256;        // characters
inline constexpr int64_t kMaxCountedEach = 129;         // a count adds at most this to the total
inline constexpr int64_t kMaxTotalCounts = 1024;        // of repeats of classes, and of lengths
inline constexpr int64_t kMaxExpansion = 20000;         // elements, every repeat written out

inline constexpr size_t kCompileStackBytes = size_t{64} << 20;

}  // namespace octavo::structured
