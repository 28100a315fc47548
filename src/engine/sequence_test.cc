// A sequence of tokens, its blocks, and the steps that compute it.

#include "engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/test_model_file.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Step = std::pair<int64_t, int64_t>;  // first, count

std::vector<TokenId> Tokens(int32_t count, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = (first + i * 7) % 40;
  return tokens;
}

class SequenceTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlocks = 6;  // of 16 tokens

  SequenceContext Context(KvCacheMode mode, int32_t max_rows = 16, int32_t max_model_len = 64) {
    SequenceContext context;
    context.model = &model_.model();
    context.store = &model_.store();
    context.pool = &pool_;
    context.mode = mode;
    context.max_rows = max_rows;
    context.max_model_len = max_model_len;
    return context;
  }

  // Computes what is left; the steps that were seen.
  std::vector<Step> MustCompute(Sequence& sequence, Sequence::OutputRows rows) {
    std::vector<Step> steps;
    const Status status = sequence.Compute(rows, [&](int64_t first, int64_t count) {
      steps.emplace_back(first, count);
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return steps;
  }

  std::vector<uint32_t> LastLogits() {
    std::vector<float> logits(40);
    model_.model().Logits(0, 1, logits.data());
    return model::BitsOf(logits);
  }

  // The logits after `tokens`, in a sequence of their own.
  std::vector<uint32_t> LogitsAfter(const std::vector<TokenId>& tokens) {
    Sequence sequence(Context(KvCacheMode::kPaged, 64));
    sequence.Reset(tokens, 0);
    MustCompute(sequence, Sequence::OutputRows::kLast);
    return LastLogits();
  }

  void ExpectSound(std::vector<const kvcache::BlockTable*> tables) {
    EXPECT_EQ(pool_.CheckIntegrity(tables).ToString(), "ok");
  }

  const model::LoadedFile file_{model::TestModelFile(tensor::DType::kQ8_0)};
  model::TestModel model_{file_, {.max_rows = 64, .num_blocks = kBlocks}};
  kvcache::BlockPool pool_{kBlocks};
};

TEST_F(SequenceTest, AFreshSequenceHasNothingCachedAndNoBlocks) {
  Sequence sequence(Context(KvCacheMode::kPaged));

  EXPECT_EQ(sequence.Reset(Tokens(20), 19), 0);
  EXPECT_EQ(sequence.num_computed_tokens(), 0);
  EXPECT_EQ(sequence.table().num_blocks(), 0u);
}

TEST_F(SequenceTest, ResetKeepsTheCommonPrefixAndGivesTheOtherBlocksBack) {
  std::vector<TokenId> first = Tokens(40);
  for (int64_t shared : {0, 1, 15, 16, 17, 39, 40}) {
    Sequence sequence(Context(KvCacheMode::kPaged));
    sequence.Reset(first, 0);
    MustCompute(sequence, Sequence::OutputRows::kLast);
    std::vector<TokenId> second(first.begin(), first.begin() + shared);
    second.push_back((first[static_cast<size_t>(shared) % first.size()] + 1) % 40);

    EXPECT_EQ(sequence.Reset(second, 64), shared);
    EXPECT_EQ(sequence.num_computed_tokens(), shared);
    EXPECT_EQ(sequence.table().num_blocks(), static_cast<size_t>((shared + 15) / 16));
    EXPECT_EQ(sequence.tokens(), second);
    ExpectSound({&sequence.table()});
    MustCompute(sequence, Sequence::OutputRows::kLast);
    const std::vector<uint32_t> warm = LastLogits();
    EXPECT_EQ(warm, LogitsAfter(second)) << shared << " shared tokens";
  }
}

TEST_F(SequenceTest, ResetKeepsAtMostWhatTheCallerAllows) {
  Sequence sequence(Context(KvCacheMode::kPaged));
  sequence.Reset(Tokens(40), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);

  EXPECT_EQ(sequence.Reset(Tokens(40), 39), 39);
  EXPECT_EQ(sequence.Reset(Tokens(40), 5), 5);
  EXPECT_EQ(sequence.Reset(Tokens(40), 0), 0);
  EXPECT_EQ(pool_.num_free(), kBlocks);
}

TEST_F(SequenceTest, ResetDoesNotCountTokensThatWereNeverComputed) {
  Sequence sequence(Context(KvCacheMode::kPaged));
  sequence.Reset(Tokens(10), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  const std::vector<TokenId> longer = Tokens(12);
  sequence.Append(longer[10]);
  sequence.Append(longer[11]);

  EXPECT_EQ(sequence.Reset(longer, 64), 10);
}

TEST_F(SequenceTest, ResetToFewerTokensKeepsThoseOnly) {
  Sequence sequence(Context(KvCacheMode::kPaged));
  sequence.Reset(Tokens(40), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);

  EXPECT_EQ(sequence.Reset(Tokens(3), 64), 3);
  EXPECT_EQ(sequence.table().num_blocks(), 1u);
}

TEST_F(SequenceTest, LastRowsAreReportedOnceAtTheEndOfAllChunks) {
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  sequence.Reset(Tokens(40), 0);

  EXPECT_EQ(MustCompute(sequence, Sequence::OutputRows::kLast),
            (std::vector<Step>{{16, 0}, {32, 0}, {39, 1}}));
}

TEST_F(SequenceTest, AllRowsAreReportedChunkByChunk) {
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  sequence.Reset(Tokens(40), 0);

  EXPECT_EQ(MustCompute(sequence, Sequence::OutputRows::kAll),
            (std::vector<Step>{{0, 16}, {16, 16}, {32, 8}}));
}

TEST_F(SequenceTest, NothingIsComputedTwice) {
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  sequence.Reset(Tokens(10), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  EXPECT_TRUE(MustCompute(sequence, Sequence::OutputRows::kLast).empty());
  sequence.Append(3);

  EXPECT_EQ(MustCompute(sequence, Sequence::OutputRows::kLast), (std::vector<Step>{{10, 1}}));
}

TEST_F(SequenceTest, AStepCallbackThatReturnsFalseLeavesTheRestForLater) {
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  sequence.Reset(Tokens(40), 0);
  const Status stopped =
      sequence.Compute(Sequence::OutputRows::kLast, [](int64_t, int64_t) { return false; });

  EXPECT_TRUE(stopped.ok());
  EXPECT_EQ(sequence.num_computed_tokens(), 16);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  const std::vector<uint32_t> resumed = LastLogits();
  EXPECT_EQ(resumed, LogitsAfter(Tokens(40)));
}

TEST_F(SequenceTest, AFullPoolIsAStatusThatKeepsWhatIsComputed) {
  Sequence holder(Context(KvCacheMode::kPaged));
  holder.Reset(Tokens(64), 0);
  MustCompute(holder, Sequence::OutputRows::kLast);
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  sequence.Reset(Tokens(40, 5), 0);

  const Status status = sequence.Compute(Sequence::OutputRows::kLast, nullptr);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("40 tokens need 3 blocks of 16"), HasSubstr("of 6 blocks only 0 are free"),
            HasSubstr("the 2 that this sequence"), HasSubstr("kv_cache_memory_bytes")));
  EXPECT_EQ(sequence.num_computed_tokens(), 32);
  ExpectSound({&holder.table(), &sequence.table()});
}

TEST_F(SequenceTest, AfterAFullPoolTheRestIsComputedOnceThereIsRoom) {
  Sequence sequence(Context(KvCacheMode::kPaged, 16));
  {
    Sequence holder(Context(KvCacheMode::kPaged));
    holder.Reset(Tokens(64), 0);
    MustCompute(holder, Sequence::OutputRows::kLast);
    sequence.Reset(Tokens(40, 5), 0);
    EXPECT_FALSE(sequence.Compute(Sequence::OutputRows::kLast, nullptr).ok());
  }
  EXPECT_EQ(MustCompute(sequence, Sequence::OutputRows::kLast), (std::vector<Step>{{39, 1}}));
  const std::vector<uint32_t> late = LastLogits();
  EXPECT_EQ(late, LogitsAfter(Tokens(40, 5)));
}

TEST_F(SequenceTest, ContiguousModeReservesTheWholeContextAtOnceAndKeepsIt) {
  Sequence sequence(Context(KvCacheMode::kContiguous));
  sequence.Reset(Tokens(3), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  EXPECT_EQ(sequence.table().num_blocks(), 4u);  // 64 tokens
  const auto ids = sequence.table().block_ids();
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(ids[i], ids[0] + i);

  EXPECT_EQ(sequence.Reset(Tokens(20, 9), 19), 0);
  EXPECT_EQ(sequence.table().num_blocks(), 4u);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  const std::vector<uint32_t> contiguous = LastLogits();
  ExpectSound({&sequence.table()});
  sequence.Reset({}, 0);
  EXPECT_EQ(sequence.num_computed_tokens(), 0);

  model::TestModel other(file_, {.max_rows = 64, .num_blocks = kBlocks});
  kvcache::BlockPool other_pool(kBlocks);
  SequenceContext context = Context(KvCacheMode::kPaged, 64);
  context.model = &other.model();
  context.store = &other.store();
  context.pool = &other_pool;
  Sequence paged(context);
  paged.Reset(Tokens(20, 9), 0);
  MustCompute(paged, Sequence::OutputRows::kLast);
  std::vector<float> logits(40);
  other.model().Logits(0, 1, logits.data());
  EXPECT_EQ(contiguous, model::BitsOf(logits));
}

TEST_F(SequenceTest, ContiguousModeFailsWhereFreeBlocksDoNotLieTogether) {
  std::vector<kvcache::BlockRef> held;
  for (uint32_t i = 0; i < kBlocks; ++i) held.push_back(*pool_.Allocate());
  for (uint32_t block : {0u, 1u, 3u, 4u, 5u}) held[block].Reset();  // 2 splits the rest
  Sequence sequence(Context(KvCacheMode::kContiguous));
  sequence.Reset(Tokens(3), 0);

  const Status status = sequence.Compute(Sequence::OutputRows::kLast, nullptr);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(sequence.table().num_blocks(), 0u);
  held.clear();
  EXPECT_TRUE(sequence.Compute(Sequence::OutputRows::kLast, nullptr).ok());
}

TEST_F(SequenceTest, WithoutACacheNothingIsKeptBetweenCalls) {
  Sequence sequence(Context(KvCacheMode::kNone));
  sequence.Reset(Tokens(20), 0);
  MustCompute(sequence, Sequence::OutputRows::kLast);
  EXPECT_EQ(sequence.num_computed_tokens(), 0);
  EXPECT_EQ(pool_.num_free(), kBlocks);

  sequence.Append(11);
  EXPECT_EQ(MustCompute(sequence, Sequence::OutputRows::kLast),
            (std::vector<Step>{{16, 0}, {20, 1}}));
  const std::vector<uint32_t> recomputed = LastLogits();
  std::vector<TokenId> tokens = Tokens(20);
  tokens.push_back(11);
  EXPECT_EQ(recomputed, LogitsAfter(tokens));
}

TEST_F(SequenceTest, ADestroyedSequenceGivesAllItsBlocksBack) {
  for (KvCacheMode mode : {KvCacheMode::kPaged, KvCacheMode::kContiguous, KvCacheMode::kNone}) {
    {
      Sequence sequence(Context(mode));
      sequence.Reset(Tokens(50), 0);
      MustCompute(sequence, Sequence::OutputRows::kLast);
    }
    EXPECT_EQ(pool_.num_free(), kBlocks);
    ExpectSound({});
  }
}

}  // namespace
}  // namespace octavo::engine
