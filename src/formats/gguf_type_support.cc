#include "formats/gguf_type_support.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

namespace octavo::formats {
namespace {

enum class Why { kNotRead, kActivationsOnly, kRemoved };

struct UnsupportedType {
  uint32_t id;
  std::string_view name;
  Why why;
};

constexpr UnsupportedType kUnsupportedTypes[] = {
    {4, "Q4_2", Why::kRemoved},         {5, "Q4_3", Why::kRemoved},
    {9, "Q8_1", Why::kActivationsOnly}, {15, "Q8_K", Why::kActivationsOnly},
    {16, "IQ2_XXS", Why::kNotRead},     {17, "IQ2_XS", Why::kNotRead},
    {18, "IQ3_XXS", Why::kNotRead},     {19, "IQ1_S", Why::kNotRead},
    {21, "IQ3_S", Why::kNotRead},       {22, "IQ2_S", Why::kNotRead},
    {23, "IQ4_XS", Why::kNotRead},      {24, "I8", Why::kNotRead},
    {25, "I16", Why::kNotRead},         {26, "I32", Why::kNotRead},
    {27, "I64", Why::kNotRead},         {28, "F64", Why::kNotRead},
    {29, "IQ1_M", Why::kNotRead},       {31, "Q4_0_4_4", Why::kRemoved},
    {32, "Q4_0_4_8", Why::kRemoved},    {33, "Q4_0_8_8", Why::kRemoved},
    {34, "TQ1_0", Why::kNotRead},       {35, "TQ2_0", Why::kNotRead},
    {36, "IQ4_NL_4_4", Why::kRemoved},  {37, "IQ4_NL_4_8", Why::kRemoved},
    {38, "IQ4_NL_8_8", Why::kRemoved},  {39, "MXFP4", Why::kNotRead},
    {40, "NVFP4", Why::kNotRead},       {41, "Q1_0", Why::kNotRead},
    {42, "Q2_0", Why::kNotRead},
};

std::string_view Reason(Why why) {
  switch (why) {
    case Why::kNotRead:
      return "which octavo does not read";
    case Why::kActivationsOnly:
      return "a type for activations that no weight file may hold";
    case Why::kRemoved:
      return "which was removed from GGUF: convert the model again";
  }
  return "";
}

}  // namespace

std::string DescribeUnsupportedType(uint32_t type_id) {
  constexpr std::string_view kSupported =
      "octavo reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K and IQ4_NL";
  for (const UnsupportedType& type : kUnsupportedTypes) {
    if (type.id == type_id) {
      return fmt::format("type {} (id {}), {}; {}", type.name, type_id, Reason(type.why),
                         kSupported);
    }
  }
  const bool negative = type_id > static_cast<uint32_t>(std::numeric_limits<int32_t>::max());
  if (type_id >= kFirstIkLlamaTypeId && !negative) {
    return fmt::format("type id {}, one of ik_llama.cpp's own (ids from {}); {}", type_id,
                       kFirstIkLlamaTypeId, kSupported);
  }
  return fmt::format("the unknown type id {}; {}", static_cast<int32_t>(type_id), kSupported);
}

}  // namespace octavo::formats
