#pragma once

// Purpose:    what to tell people about tensor types that octavo does not read.
// Threading:  pure.

#include <cstdint>
#include <string>

namespace octavo::formats {

// Ids from here on belong to ik_llama.cpp.
inline constexpr uint32_t kFirstIkLlamaTypeId = 97;

// For an id that DTypeFromId does not know, the end of a sentence "tensor X has ...": the type and
// why it is not read.
std::string DescribeUnsupportedType(uint32_t type_id);

}  // namespace octavo::formats
