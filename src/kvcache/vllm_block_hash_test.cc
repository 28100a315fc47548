// The expected hashes were computed with two independent CBOR encoders (one of them cbor2) and
// Python's hashlib.

#include "octavo/kvcache/vllm_block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace octavo::kvcache {
namespace {

std::string Hex(const VllmBlockHash& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : hash.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(VllmBlockHashTest, TwoBlocksUnderTheDefaultSeedHaveTheKnownHashes) {
  const auto hashes = VllmHashBlocks(Tokens(40), {});  // 8 tokens past the second block

  EXPECT_EQ(Hex(VllmNoneHash()),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(Hex(hashes[0]), "dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749");
  EXPECT_EQ(Hex(hashes[1]), "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c");
  EXPECT_EQ(hashes[0].ToUint64(), 2233398808101521225u);
  EXPECT_EQ(hashes[1].ToUint64(), 17911472383915781900u);
}

TEST(VllmBlockHashTest, AnotherSeedGivesOtherHashes) {
  const auto hashes = VllmHashBlocks(Tokens(16), {.seed = "0"});

  EXPECT_EQ(Hex(VllmNoneHash("0")),
            "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  ASSERT_EQ(hashes.size(), 1u);
  EXPECT_EQ(Hex(hashes[0]), "d830de3d42c00f25a2949b5d12d98642664a44872c1614c5b0147556276afc9c");
  EXPECT_EQ(hashes[0].ToUint64(), 12687895063098490012u);
}

TEST(VllmBlockHashTest, ASaltIsPartOfTheFirstBlockAndReachesTheOthersThroughIt) {
  const std::vector<int32_t> tokens = Tokens(32);
  const auto salted = VllmHashBlocks(tokens, {.salt = "salt"});

  EXPECT_EQ(Hex(salted[0]), "7c4f338bf4132118ae598f1bcb5c93be071e54994a593edd91b7feb744ba6ef8");
  EXPECT_EQ(salted[1], VllmHashBlock(salted[0], std::span(tokens).subspan(16)));
}

TEST(VllmBlockHashTest, LargeTokenIdsAndLongBlocksAreEncodedInTheShortestForm) {
  std::vector<int32_t> tokens = {0, 23, 24, 255, 256, 65535, 65536, 128255, 2147483647};
  for (int32_t token = 1000; token < 1023; ++token) tokens.push_back(token);  // 32 of them

  const auto hashes = VllmHashBlocks(tokens, {.block_size_tokens = 32});

  EXPECT_EQ(Hex(hashes[0]), "5dfb7b702bfac1a9879d8977452e9290a287df51238733a48927fec64b82ea37");
}

TEST(VllmBlockHashTest, AnAdapterIsPartOfEveryBlockAndComesBeforeTheSalt) {
  const std::vector<int32_t> tokens = Tokens(32);
  const auto hashes = VllmHashBlocks(tokens, {.adapter = "lora", .salt = "salt"});

  const std::string_view both[] = {"lora", "salt"};
  const std::string_view adapter[] = {"lora"};
  EXPECT_EQ(hashes[0], VllmHashBlock(VllmNoneHash(), std::span(tokens).first(16), both));
  EXPECT_EQ(hashes[1], VllmHashBlock(hashes[0], std::span(tokens).subspan(16), adapter));
}

}  // namespace
}  // namespace octavo::kvcache
