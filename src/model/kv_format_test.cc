// Case T3: what INT8 stores of a prompt depends on its tokens alone, never on how it was cut, nor
// on what its blocks held before.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/test_model_file.h"

namespace octavo::model {
namespace {

const LoadedFile& File() {
  static const LoadedFile file(std::string(OCTAVO_SOURCE_DIR) +
                               "/tests/golden/tiny/llama-gqa-64.gguf");
  return file;
}

std::vector<TokenId> Tokens(size_t count, int32_t step) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(i * static_cast<size_t>(step) + 3) % File().config.vocab_size;
  }
  return tokens;
}

// Computes `tokens` into blocks 2 and 0, in steps of the given sizes, the last one repeated.
void Prefill(TestModel& model, const std::vector<TokenId>& tokens, std::vector<int64_t> steps) {
  const std::vector<uint32_t> blocks = {2, 0};
  for (int64_t first = 0; first < std::ssize(tokens);) {
    const int64_t count = std::min(steps.front(), std::ssize(tokens) - first);
    if (steps.size() > 1) steps.erase(steps.begin());
    const SequenceSlice slice{count, first, blocks};
    model.Step({std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                std::span(&slice, 1),
                {}});
    first += count;
  }
}

// All bytes of all layers: codes, scales, and what nobody wrote.
std::vector<std::byte> Bytes(TestModel& model) {
  const std::byte* const arena = model.store().View(0, {}).base;
  return {arena, arena + model.store().layout().arena_bytes};
}

TestModelOptions Int8Blocks(int32_t block_size) {
  TestModelOptions options;
  options.kv_dtype = kernels::KvDtype::kInt8;
  options.block_size = block_size;
  options.num_blocks = 3;
  options.max_rows = 32;
  return options;
}

TEST(KvFormatTest, SixteenTokensAreStoredAlikeAtOnceOneByOneAndInTwoParts) {
  for (const int32_t block_size : {8, 16, 32}) {
    const std::vector<TokenId> tokens = Tokens(16, 7);
    TestModel at_once(File(), Int8Blocks(block_size));
    Prefill(at_once, tokens, {16});
    const std::vector<std::byte> expected = Bytes(at_once);
    ASSERT_TRUE(std::any_of(expected.begin(), expected.end(),
                            [](std::byte byte) { return byte != std::byte{0xff}; }));
    for (const std::vector<int64_t>& steps : {std::vector<int64_t>{1}, {5, 11}, {3, 1, 12}}) {
      TestModel in_parts(File(), Int8Blocks(block_size));
      Prefill(in_parts, tokens, steps);
      EXPECT_EQ(Bytes(in_parts), expected) << block_size << ", first step " << steps.front();
    }
  }
}

TEST(KvFormatTest, BlocksThatHeldAnotherPromptStoreThisOneAsFreshBlocksDo) {
  TestModel fresh(File(), Int8Blocks(8));
  Prefill(fresh, Tokens(16, 7), {16});
  TestModel reused(File(), Int8Blocks(8));
  Prefill(reused, Tokens(16, 11), {16});
  ASSERT_NE(Bytes(reused), Bytes(fresh));

  Prefill(reused, Tokens(16, 7), {5, 11});

  EXPECT_EQ(Bytes(reused), Bytes(fresh));
}

}  // namespace
}  // namespace octavo::model
