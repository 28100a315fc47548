// Damaged and malicious files: each is refused, and the message names the field, the value and the
// limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "formats/gguf_builder.h"
#include "formats/gguf_file.h"

namespace octavo::formats {
namespace {

using tensor::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Bytes = std::vector<std::byte>;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr std::array<float, 8> kFloats = {1, 2, 3, 4, 5, 6, 7, 8};

Status StatusOf(const Bytes& bytes) {
  // The exact size, so that a sanitizer sees one byte too many.
  const Bytes exact(bytes.begin(), bytes.end());
  return GgufFile::FromBytes(exact, "bad.gguf").status();
}

std::string ErrorOf(const Bytes& bytes) {
  const Status status = StatusOf(bytes);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), AllOf(StartsWith("bad.gguf: "), Not(HasSubstr("\n"))));
  return status.message();
}

std::string ErrorOf(const GgufBuilder& builder) { return ErrorOf(builder.Build()); }

template <typename T>
Bytes Stored(T value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

Bytes Join(std::initializer_list<Bytes> parts) {
  Bytes joined;
  for (const Bytes& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

template <typename T>
Bytes Patched(Bytes bytes, size_t position, T value) {
  std::memcpy(bytes.data() + position, &value, sizeof(value));
  return bytes;
}

GgufBuilder OneTensor(uint32_t type_id, std::vector<uint64_t> dims, size_t num_bytes) {
  return GgufBuilder().RawTensor("blk.0.w", type_id, dims, Bytes(num_bytes));
}

// A file with something of every kind.
Bytes ValidFile() {
  const std::array<std::string, 2> strings = {"ab", "c"};
  const std::array<int32_t, 2> ints = {1, 2};
  return GgufBuilder()
      .String("general.architecture", "llama")
      .Uint32("u32", 1)
      .Uint64("u64", 2)
      .Uint16("u16", 3)
      .Bool("bool", true)
      .Strings("strings", strings)
      .Int32s("ints", ints)
      .Tensor("a", {4, 2}, kFloats)
      .Tensor("b", {8}, kFloats)
      .Build();
}

// --- Header ---

TEST(GgufHostileTest, AFileCutAtAnyByteIsRefused) {
  const Bytes valid = ValidFile();
  ASSERT_TRUE(StatusOf(valid).ok());
  for (size_t size = 0; size < valid.size(); ++size) {
    const Bytes cut(valid.begin(), valid.begin() + static_cast<std::ptrdiff_t>(size));
    ErrorOf(cut);
  }
}

TEST(GgufHostileTest, ACutNamesTheFieldAndTheByte) {
  const Bytes valid = ValidFile();
  const auto cut = [&](std::ptrdiff_t size) {
    return ErrorOf(Bytes(valid.begin(), valid.begin() + size));
  };

  EXPECT_THAT(cut(6), HasSubstr("inside the version: 2 bytes remain at byte 4"));
  EXPECT_THAT(cut(10), HasSubstr("inside the tensor count: 2 bytes remain at byte 8"));
  EXPECT_THAT(cut(20), HasSubstr("inside the key-value count: 4 bytes remain at byte 16"));
}

TEST(GgufHostileTest, AnotherKindOfFileIsNamedByItsFirstBytes) {
  EXPECT_THAT(ErrorOf(Bytes()), HasSubstr("not a GGUF file: it is empty"));
  EXPECT_THAT(ErrorOf(Stored(std::array<char, 5>{'<', 'h', 't', 'm', 'l'})),
              HasSubstr("it starts with \"<htm\""));
  EXPECT_THAT(ErrorOf(Stored(std::array<char, 4>{'\x7f', 'E', 'L', 'F'})),
              HasSubstr(R"("\x7fELF")"));
}

TEST(GgufHostileTest, OtherVersionsAndByteOrdersAreNamed) {
  for (const uint32_t version : {0u, 1u, 4u, 0x01020304u}) {
    const Status status = StatusOf(Patched(ValidFile(), 4, version));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr("GGUF version " + std::to_string(version) +
                                            "; octavo reads versions 2 and 3"));
  }
  EXPECT_THAT(ErrorOf(Patched(ValidFile(), 4, 0x03000000u)), HasSubstr("big-endian"));
}

TEST(GgufHostileTest, CountsBeyondTheBytesThatRemainAreRefusedBeforeAnythingIsReserved) {
  for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 23}) {
    EXPECT_THAT(ErrorOf(GgufBuilder().Uint8("a", 1).ClaimKeyValueCount(count)),
                HasSubstr("key-value count is " + std::to_string(count) + ", but the 14 bytes"));
    EXPECT_THAT(ErrorOf(GgufBuilder().Uint8("a", 1).ClaimTensorCount(count)),
                HasSubstr("tensor count is " + std::to_string(count) + ", but the 14 bytes"));
  }
  for (const uint64_t count : {uint64_t{1} << 32, uint64_t{1} << 60, uint64_t{1} << 63, kMax64}) {
    EXPECT_THAT(
        ErrorOf(GgufBuilder().ClaimKeyValueCount(count)),
        HasSubstr("key-value count is " + std::to_string(count) + "; the limit is 16777216"));
    EXPECT_THAT(ErrorOf(GgufBuilder().ClaimTensorCount(count)),
                HasSubstr("tensor count is " + std::to_string(count) + "; the limit is 16777216"));
  }
}

TEST(GgufHostileTest, ACountBelowTheTruthMisreadsNothing) {
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint8("a", 1).Uint8("b", 1).ClaimKeyValueCount(3)),
              HasSubstr("key-value count is 3"));
  // One tensor is read from where the second key lies: its name of 1 byte, then a nonsensical
  // dimension count.
  EXPECT_THAT(ErrorOf(GgufBuilder()
                          .Uint8("a", 1)
                          .Uint64("b", kMax64)
                          .Tensor("t", {8}, kFloats)
                          .ClaimKeyValueCount(1)),
              HasSubstr("tensor \"b\" has 10 dimensions; the limits are 1 and 4"));
}

// --- Keys and values ---

TEST(GgufHostileTest, StringLengthsBeyondTheFileOrNearTheWordSizeAreRefused) {
  for (const uint64_t length : {uint64_t{70000}, uint64_t{1} << 40, kMax64 - 7, kMax64}) {
    EXPECT_THAT(ErrorOf(Patched(ValidFile(), 24, length)),
                HasSubstr("the name of key 0 is " + std::to_string(length) +
                          " bytes long at byte 32; the limit is 65535"));
  }
  EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 8, Stored(uint64_t{100}))),
              HasSubstr("the value of key \"k\" is 100 bytes long, but 0 bytes remain at byte 45"));
  EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 8, Stored(uint64_t{1} << 30))),
              HasSubstr("is 1073741824 bytes long, but 0 bytes remain"));
  for (const uint64_t length : {(uint64_t{1} << 30) + 1, kMax64}) {
    EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 8, Stored(length))),
                HasSubstr("the value of key \"k\" is " + std::to_string(length) +
                          " bytes long at byte 45; the limit is 1073741824"));
  }
}

TEST(GgufHostileTest, ArrayLengthsBeyondTheBytesThatRemainAreRefused) {
  const auto array = [](uint32_t element_type, uint64_t size) {
    return GgufBuilder().RawValue("k", 9, Join({Stored(element_type), Stored(size), Bytes(16)}));
  };

  EXPECT_THAT(
      ErrorOf(array(0, 17)),
      HasSubstr(": the value of key \"k\"'s array length is 17, but the 16 bytes that remain "
                "at byte 49 hold at most 16"));
  EXPECT_THAT(ErrorOf(array(4, 5)), HasSubstr("array length is 5"));
  EXPECT_THAT(ErrorOf(array(12, 3)), HasSubstr("array length is 3"));
  EXPECT_THAT(ErrorOf(array(8, 3)), HasSubstr("array length is 3"));
  EXPECT_THAT(ErrorOf(array(0, uint64_t{1} << 30)), HasSubstr("array length is 1073741824"));
  for (const uint32_t type : {0u, 5u, 8u, 10u}) {
    for (const uint64_t size : {uint64_t{1} << 61, uint64_t{1} << 62, kMax64}) {
      EXPECT_THAT(ErrorOf(array(type, size)), HasSubstr("array length is " + std::to_string(size) +
                                                        "; the limit is 1073741824"));
    }
  }
}

TEST(GgufHostileTest, AStringOfAnArrayBeyondTheFileNamesItsIndex) {
  const Bytes stored =
      Join({Stored(uint32_t{8}), Stored(uint64_t{2}), Stored(uint64_t{0}), Stored(kMax64)});

  EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 9, stored)),
              HasSubstr("the value of key \"k\": element 1 of 2 at byte 57 needs "
                        "18446744073709551615 bytes, but 0 remain"));
}

TEST(GgufHostileTest, ArraysOfArraysAreRefused) {
  EXPECT_THAT(ErrorOf(GgufBuilder().RawValue(
                  "k", 9, Join({Stored(uint32_t{9}), Stored(uint64_t{1}), Bytes(64)}))),
              HasSubstr("the value of key \"k\" is an array of arrays"));
}

TEST(GgufHostileTest, UnknownValueTypesAreRefused) {
  for (const uint32_t type : {13u, 255u, 0xffffffffu}) {
    EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", type, Bytes(8))),
                HasSubstr("the value of key \"k\" has type id " + std::to_string(type) +
                          "; the largest is 12"));
    EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 9, Join({Stored(type), Stored(uint64_t{0})}))),
                HasSubstr("element type id " + std::to_string(type) + "; the largest is 12"));
  }
}

TEST(GgufHostileTest, BoolsOtherThanZeroAndOneAreRefused) {
  EXPECT_THAT(ErrorOf(GgufBuilder().RawValue("k", 7, Stored(uint8_t{2}))),
              HasSubstr("the value of key \"k\" is a bool stored as 2"));
  EXPECT_THAT(
      ErrorOf(GgufBuilder().RawValue(
          "k", 9, Join({Stored(uint32_t{7}), Stored(uint64_t{2}), Stored(uint16_t{0xff01})}))),
      HasSubstr("element 1 is a bool stored as 255"));
}

TEST(GgufHostileTest, EmptyAndDuplicateKeysAreRefused) {
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint64("", 1)), HasSubstr("the name of key 0 is empty"));
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint8("x.y", 1).Uint8("z", 1).Uint32("x.y", 2)),
              HasSubstr("key \"x.y\" appears twice"));
}

TEST(GgufHostileTest, KeysThatWouldSteerATerminalAreEscapedInMessages) {
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint8("\x1b[2J\n", 1).Uint8("\x1b[2J\n", 1)),
              HasSubstr(R"(key "\x1b[2J\n" appears twice)"));
}

TEST(GgufHostileTest, AlignmentsThatAreNotAPowerOfTwoInRangeAreRefused) {
  for (const uint32_t alignment : {0u, 3u, 24u, 33u, 1u << 21, 1u << 30, 1u << 31, 0xffffffffu}) {
    EXPECT_THAT(ErrorOf(GgufBuilder().Uint32("general.alignment", alignment)),
                HasSubstr("key general.alignment is " + std::to_string(alignment) +
                          "; it must be a power of two from 1 to 1048576"));
  }
}

TEST(GgufHostileTest, AnAlignmentOfAnotherTypeIsRefused) {
  const std::array<uint32_t, 1> array = {32};
  const std::string message = "it must be u32";

  EXPECT_THAT(ErrorOf(GgufBuilder().Int32("general.alignment", 32)), HasSubstr("has type i32; "));
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint64("general.alignment", 32)), HasSubstr("type u64; "));
  EXPECT_THAT(ErrorOf(GgufBuilder().String("general.alignment", "32")), HasSubstr("type string;"));
  EXPECT_THAT(ErrorOf(GgufBuilder().Uint32s("general.alignment", array)),
              HasSubstr("type u32[]; "));
  EXPECT_THAT(ErrorOf(GgufBuilder().Bool("general.alignment", true)), HasSubstr(message));
}

// --- Tensors ---

TEST(GgufHostileTest, DimensionCountsOutsideOneToFourAreRefused) {
  EXPECT_THAT(ErrorOf(OneTensor(0, {}, 4)), HasSubstr("tensor \"blk.0.w\" has 0 dimensions"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {1, 1, 1, 1, 1}, 4)),
              HasSubstr("tensor \"blk.0.w\" has 5 dimensions; the limits are 1 and 4"));
}

TEST(GgufHostileTest, DimensionsOfZeroOrLessAreRefused) {
  EXPECT_THAT(ErrorOf(OneTensor(0, {0}, 4)),
              HasSubstr("tensor \"blk.0.w\" has dimension 0 = 0; the smallest is 1"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {4, 0}, 4)), HasSubstr("has dimension 1 = 0"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {kMax64}, 4)), HasSubstr("has dimension 0 = -1"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {uint64_t{1} << 63}, 4)),
              HasSubstr("dimension 0 = -9223372036854775808"));
}

TEST(GgufHostileTest, DimensionProductsThatWrapAreRefused) {
  const std::string message = "the product of its dimensions exceeds 9223372036854775807";

  EXPECT_THAT(ErrorOf(OneTensor(0, {uint64_t{1} << 32, uint64_t{1} << 32}, 64)),
              AllOf(HasSubstr("\"blk.0.w\" has dimension 1 = 4294967296"), HasSubstr(message)));
  EXPECT_THAT(ErrorOf(OneTensor(0, {uint64_t{1} << 31, uint64_t{1} << 31, 4}, 64)),
              HasSubstr(message));
  EXPECT_THAT(ErrorOf(OneTensor(0, {uint64_t{1} << 62, 3}, 64)), HasSubstr(message));
}

TEST(GgufHostileTest, ByteCountsThatWrapAreRefused) {
  EXPECT_THAT(ErrorOf(OneTensor(0, {uint64_t{1} << 62}, 64)),
              HasSubstr("has 4611686018427387904 elements of type F32, more bytes than the limit"));
}

TEST(GgufHostileTest, RowsThatAreNotWholeBlocksAreRefused) {
  EXPECT_THAT(ErrorOf(OneTensor(3, {31, 32}, 4096)),
              HasSubstr("has rows of 31 elements; type Q4_1 needs a multiple of 32"));
  EXPECT_THAT(ErrorOf(OneTensor(14, {128, 2}, 4096)),
              HasSubstr("has rows of 128 elements; type Q6_K needs a multiple of 256"));
}

TEST(GgufHostileTest, TypesThatAreNotReadAreNamed) {
  const auto error = [](uint32_t type_id) {
    const Status status = StatusOf(OneTensor(type_id, {256}, 1024).Build());
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << type_id;
    EXPECT_THAT(status.message(), HasSubstr("tensor \"blk.0.w\" has ")) << type_id;
    return status.message();
  };

  EXPECT_THAT(error(23), HasSubstr("type IQ4_XS (id 23), which octavo does not read"));
  EXPECT_THAT(error(39), HasSubstr("type MXFP4 (id 39), which octavo does not read"));
  EXPECT_THAT(error(9), HasSubstr("type Q8_1 (id 9), a type for activations"));
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    EXPECT_THAT(error(id), HasSubstr("which was removed from GGUF"));
  }
  for (const uint32_t id : {97u, 137u, 202u, 400u}) {
    EXPECT_THAT(error(id),
                HasSubstr("type id " + std::to_string(id) + ", one of ik_llama.cpp's own"));
  }
  EXPECT_THAT(error(43), HasSubstr("the unknown type id 43"));
  EXPECT_THAT(error(0xffffffff), HasSubstr("the unknown type id -1"));
}

TEST(GgufHostileTest, TensorNamesEmptyTooLongOrTwiceAreRefused) {
  EXPECT_THAT(ErrorOf(GgufBuilder().Tensor("", {8}, kFloats)),
              HasSubstr("the name of tensor 0 is empty"));
  EXPECT_THAT(ErrorOf(GgufBuilder().Tensor(std::string(64, 'n'), {8}, kFloats)),
              HasSubstr("the name of tensor 0 is 64 bytes long at byte 32; the limit is 63"));
  EXPECT_TRUE(StatusOf(GgufBuilder().Tensor(std::string(63, 'n'), {8}, kFloats).Build()).ok());
  EXPECT_THAT(ErrorOf(GgufBuilder()
                          .Tensor("a", {8}, kFloats)
                          .Tensor("b", {8}, kFloats)
                          .Tensor("a", {8}, kFloats)),
              HasSubstr("tensor \"a\" appears twice"));
}

TEST(GgufHostileTest, OffsetsThatAreNotAlignedAreRefused) {
  const std::array<uint64_t, 1> dims = {1};
  EXPECT_THAT(ErrorOf(GgufBuilder().RawTensor("t", 0, dims, Bytes(64), 4)),
              HasSubstr("tensor \"t\" has offset 4, which is not a multiple of the alignment 32"));
}

TEST(GgufHostileTest, DataOutsideTheFileIsRefused) {
  const std::array<uint64_t, 1> dims = {8};
  const auto error = [&](uint64_t offset) {
    return ErrorOf(GgufBuilder().RawTensor("t", 0, dims, Bytes(64), offset));
  };

  EXPECT_THAT(error(64), HasSubstr("tensor \"t\" has 32 bytes at offset 64, but the data section "
                                   "at byte 64 has 64 bytes"));
  EXPECT_THAT(error(uint64_t{1} << 63), HasSubstr("at offset 9223372036854775808"));
  EXPECT_THAT(error(kMax64 - 31), HasSubstr("at offset 18446744073709551584"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {8}, 31)), HasSubstr("has 32 bytes at offset 0"));
  EXPECT_THAT(ErrorOf(OneTensor(0, {1}, 0)), HasSubstr("has 0 bytes"));
}

TEST(GgufHostileTest, OverlappingDataIsRefusedWhicheverTensorComesFirst) {
  const std::array<uint64_t, 1> nine = {9};
  const std::array<uint64_t, 1> one = {1};

  EXPECT_THAT(
      ErrorOf(GgufBuilder().RawTensor("a", 0, nine, Bytes(64), 0).RawTensor("b", 0, one, {}, 32)),
      HasSubstr("tensor \"b\" at offset 32 overlaps tensor \"a\" (36 bytes at offset 0)"));
  EXPECT_THAT(
      ErrorOf(GgufBuilder().RawTensor("a", 0, one, Bytes(64), 32).RawTensor("b", 0, nine, {}, 0)),
      HasSubstr("tensor \"a\" at offset 32 overlaps tensor \"b\" (36 bytes at offset 0)"));
  EXPECT_THAT(
      ErrorOf(GgufBuilder().RawTensor("a", 0, one, Bytes(64), 0).RawTensor("b", 0, one, {}, 0)),
      HasSubstr("overlaps"));
}

// A search for duplicates that compares every pair would take 2 * 10^10 comparisons here, longer
// than any test may run.
TEST(GgufHostileTest, TwoHundredThousandKeysAndTensorNamesParse) {
  constexpr int kCount = 200'000;
  GgufBuilder builder;
  const std::array<uint64_t, 1> dims = {1};
  for (int i = 0; i < kCount; ++i) builder.Uint8("k" + std::to_string(i), 1);
  for (int i = 0; i < kCount; ++i) {
    builder.RawTensor("t" + std::to_string(i), 0, dims, Bytes(4));
  }
  const Bytes bytes = builder.Build();

  const Result<GgufFile> file = GgufFile::FromBytes(bytes);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->key_values().size(), size_t{kCount});
  EXPECT_NE(file->Find("k199999"), nullptr);
  EXPECT_NE(file->FindTensor("t0"), nullptr);
}

// Every single-byte change of a small file either opens or is refused; sanitizers watch for
// anything else.
TEST(GgufHostileTest, NoSingleByteChangeReadsOutsideTheFile) {
  const Bytes valid = ValidFile();
  for (size_t i = 0; i < valid.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x09, 0x7f, 0x80, 0xff}) {
      Bytes changed = valid;
      changed[i] = static_cast<std::byte>(value);
      const Result<GgufFile> file = GgufFile::FromBytes(changed);
      if (!file.ok()) continue;
      for (const GgufTensor& tensor : file->tensors()) {
        EXPECT_GE(tensor.stored.data(), changed.data());
        EXPECT_LE(tensor.stored.data() + tensor.stored.size(), changed.data() + changed.size());
      }
    }
  }
}

}  // namespace
}  // namespace octavo::formats
