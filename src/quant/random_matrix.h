#pragma once

// Purpose:    weight matrices of every format from a seed, for tests and micro-benchmarks.
// Ownership:  RandomMatrix owns the stored and the packed bytes; its view borrows from it.
// Threading:  any, after construction.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "quant/packed_matrix.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace octavo::quant {

inline constexpr tensor::DType kAllFormats[] = {
    tensor::DType::kF32,  tensor::DType::kF16,    tensor::DType::kBF16, tensor::DType::kQ4_0,
    tensor::DType::kQ4_1, tensor::DType::kQ5_0,   tensor::DType::kQ5_1, tensor::DType::kQ8_0,
    tensor::DType::kQ2_K, tensor::DType::kQ3_K,   tensor::DType::kQ4_K, tensor::DType::kQ5_K,
    tensor::DType::kQ6_K, tensor::DType::kIQ4_NL,
};

enum class WeightKind {
  kUsual,     // random codes, scales of either sign around 1/64
  kAnyBits,   // every bit random: infinities, NaNs and subnormal scales included
  kExtremes,  // the largest and smallest codes, the largest finite scales
};

struct MatrixShape {
  int64_t num_outputs;
  int64_t num_inputs;
};

class RandomMatrix {
 public:
  RandomMatrix(tensor::DType dtype, MatrixShape shape, WeightKind kind, uint32_t seed)
      : kind_(kind), random_(seed) {
    const size_t elements = static_cast<size_t>(shape.num_outputs * shape.num_inputs);
    stored_.resize(tensor::StoredBytes(dtype, elements));
    Fill(dtype);
    view_.dtype = dtype;
    view_.num_outputs = shape.num_outputs;
    view_.num_inputs = shape.num_inputs;
    view_.panel_bytes = PackedPanelBytes(dtype, shape.num_inputs);
    const size_t packed_bytes = static_cast<size_t>(view_.num_panels()) * view_.panel_bytes;
    packed_.resize(packed_bytes + 63);
    const size_t misaligned = reinterpret_cast<uintptr_t>(packed_.data()) % 64;
    std::byte* data = packed_.data() + (64 - misaligned) % 64;
    PackPanels(dtype, shape.num_outputs, shape.num_inputs, stored_.data(), data, 0,
               view_.num_panels());
    view_.data = data;
  }
  RandomMatrix(const RandomMatrix&) = delete;
  RandomMatrix& operator=(const RandomMatrix&) = delete;

  const PackedMatrixView& view() const { return view_; }
  const std::byte* stored_row(int64_t output) const {
    return stored_.data() +
           static_cast<size_t>(output) *
               tensor::StoredBytes(view_.dtype, static_cast<size_t>(view_.num_inputs));
  }

 private:
  // Offsets of the FP16 scale and minimum in a stored block; -1 where there is none.
  struct ScaleOffsets {
    int d;
    int minimum;
  };

  static ScaleOffsets OffsetsOf(tensor::DType dtype) {
    using tensor::DType;
    switch (dtype) {
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        return {0, 2};
      case DType::kQ2_K:
        return {80, 82};
      case DType::kQ3_K:
        return {108, -1};
      case DType::kQ6_K:
        return {208, -1};
      default:
        return {0, -1};
    }
  }

  static bool IsFloat(tensor::DType dtype) {
    using tensor::DType;
    return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  }

  float UsualScale() {
    const float magnitude = std::uniform_real_distribution<float>(0.004f, 0.03f)(random_);
    return random_() % 2 == 0 ? magnitude : -magnitude;
  }

  void PutHalf(size_t offset, uint16_t bits) { std::memcpy(stored_.data() + offset, &bits, 2); }

  void PutScale(size_t offset) {
    if (kind_ == WeightKind::kUsual) PutHalf(offset, tensor::FloatToHalf(UsualScale()));
    if (kind_ == WeightKind::kExtremes) PutHalf(offset, random_() % 2 == 0 ? 0x7bff : 0xfbff);
  }

  void Fill(tensor::DType dtype) {
    for (std::byte& byte : stored_) byte = static_cast<std::byte>(random_() & 255);
    if (kind_ == WeightKind::kAnyBits) return;
    if (IsFloat(dtype)) return FillFloats(dtype);
    if (kind_ == WeightKind::kExtremes) {
      constexpr std::byte kBytes[] = {std::byte{0}, std::byte{0x7f}, std::byte{0x80},
                                      std::byte{0xff}};
      for (std::byte& byte : stored_) byte = kBytes[random_() % 4];
    }
    const ScaleOffsets offsets = OffsetsOf(dtype);
    const size_t block_bytes = tensor::Traits(dtype).block_bytes;
    for (size_t block = 0; block < stored_.size(); block += block_bytes) {
      PutScale(block + static_cast<size_t>(offsets.d));
      if (offsets.minimum >= 0) PutScale(block + static_cast<size_t>(offsets.minimum));
    }
  }

  void FillFloats(tensor::DType dtype) {
    const size_t bytes = dtype == tensor::DType::kF32 ? 4 : 2;
    for (size_t offset = 0; offset < stored_.size(); offset += bytes) {
      const float value = UsualScale();
      if (dtype == tensor::DType::kF32) std::memcpy(stored_.data() + offset, &value, 4);
      if (dtype == tensor::DType::kF16) PutHalf(offset, tensor::FloatToHalf(value));
      if (dtype == tensor::DType::kBF16) PutHalf(offset, tensor::FloatToBFloat16(value));
    }
  }

  WeightKind kind_;
  std::mt19937 random_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> packed_;
  PackedMatrixView view_;
};

}  // namespace octavo::quant
