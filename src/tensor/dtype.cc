#include "tensor/dtype.h"

#include "base/check.h"

namespace octavo::tensor {
namespace {

struct Entry {
  DType dtype;
  DTypeTraits traits;
};

constexpr Entry kEntries[] = {
    {DType::kF32, {"F32", 1, 4}},         {DType::kF16, {"F16", 1, 2}},
    {DType::kQ4_0, {"Q4_0", 32, 18}},     {DType::kQ4_1, {"Q4_1", 32, 20}},
    {DType::kQ5_0, {"Q5_0", 32, 22}},     {DType::kQ5_1, {"Q5_1", 32, 24}},
    {DType::kQ8_0, {"Q8_0", 32, 34}},     {DType::kQ2_K, {"Q2_K", 256, 84}},
    {DType::kQ3_K, {"Q3_K", 256, 110}},   {DType::kQ4_K, {"Q4_K", 256, 144}},
    {DType::kQ5_K, {"Q5_K", 256, 176}},   {DType::kQ6_K, {"Q6_K", 256, 210}},
    {DType::kIQ4_NL, {"IQ4_NL", 32, 18}}, {DType::kBF16, {"BF16", 1, 2}},
};

}  // namespace

std::optional<DType> DTypeFromId(uint32_t id) {
  for (const Entry& entry : kEntries) {
    if (static_cast<uint32_t>(entry.dtype) == id) return entry.dtype;
  }
  return std::nullopt;
}

const DTypeTraits& Traits(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry.traits;
  }
  OCTAVO_CHECK(false, "a DType outside the table");
}

size_t StoredBytes(DType dtype, size_t num_elements) {
  const DTypeTraits& traits = Traits(dtype);
  OCTAVO_DCHECK(num_elements % traits.block_elements == 0, "a whole number of blocks");
  return num_elements / traits.block_elements * traits.block_bytes;
}

}  // namespace octavo::tensor
