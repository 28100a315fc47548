// Model::Forward, row by row: what a row computes depends on its own sequence alone, not on what
// else is in the batch, on where its blocks lie or on how its prompt was cut.

#include "model/model.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/test_model_file.h"

namespace octavo::model {
namespace {

std::string TinyPath(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/tiny/" + name + ".gguf";
}

std::vector<TokenId> RandomTokens(size_t count, int32_t vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<TokenId> ids(0, vocab_size - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = ids(random);
  return tokens;
}

std::vector<int32_t> Iota(int32_t count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

using kernels::Products;
using RowBits = std::vector<uint32_t>;

std::vector<RowBits> SplitRows(const std::vector<float>& logits, int32_t vocab_size) {
  std::vector<RowBits> rows;
  for (size_t at = 0; at < logits.size(); at += static_cast<size_t>(vocab_size)) {
    rows.push_back(BitsOf(std::span(logits).subspan(at, static_cast<size_t>(vocab_size))));
  }
  return rows;
}

// One step of several sequences.
class Batch {
 public:
  // Rows [first, first + count) of `tokens`, whose K and V lie in `blocks`.
  void Add(const std::vector<TokenId>& tokens, int64_t first, int64_t count,
           const std::vector<uint32_t>& blocks) {
    tokens_.insert(tokens_.end(), tokens.begin() + first, tokens.begin() + first + count);
    slices_.push_back({count, first, blocks});
  }
  int32_t num_rows() const { return static_cast<int32_t>(tokens_.size()); }

  std::vector<RowBits> Run(TestModel& model, const std::vector<int32_t>& output_rows) const {
    return SplitRows(model.Step({tokens_, slices_, output_rows}),
                     model.model().config().vocab_size);
  }

 private:
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
};

// Every row of `tokens` in one step, alone, on one thread.
std::vector<RowBits> OneShot(const LoadedFile& file, const std::vector<TokenId>& tokens,
                             Products products = Products::kInt8) {
  TestModelOptions options;
  options.products = products;
  options.max_rows = static_cast<int32_t>(tokens.size());
  TestModel model(file, options);
  std::vector<uint32_t> blocks(tokens.size() / 16 + 1);
  std::iota(blocks.begin(), blocks.end(), 0u);
  Batch batch;
  batch.Add(tokens, 0, static_cast<int64_t>(tokens.size()), blocks);
  return batch.Run(model, Iota(batch.num_rows()));
}

class ModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  const LoadedFile file_{TinyPath(GetParam())};
  const int32_t vocab_size_ = file_.config.vocab_size;
};

TEST_P(ModelTest, SequencesInOneBatchGiveTheBitsThatTheyGiveAlone) {
  const std::vector<TokenId> first = RandomTokens(21, vocab_size_, 1);
  const std::vector<TokenId> second = RandomTokens(1, vocab_size_, 2);
  const std::vector<TokenId> third = RandomTokens(33, vocab_size_, 3);
  const std::vector<uint32_t> blocks[] = {{9, 2}, {4}, {0, 7, 1}};

  for (const Products products : {Products::kInt8, Products::kInt16, Products::kFloat32}) {
    TestModelOptions options;
    options.products = products;
    options.num_threads = 2;
    TestModel model(file_, options);
    Batch batch;
    batch.Add(first, 0, 21, blocks[0]);
    batch.Add(second, 0, 1, blocks[1]);
    batch.Add(third, 0, 33, blocks[2]);
    const std::vector<RowBits> together = batch.Run(model, Iota(batch.num_rows()));

    std::vector<RowBits> alone = OneShot(file_, first, products);
    for (const auto* tokens : {&second, &third}) {
      const std::vector<RowBits> rows = OneShot(file_, *tokens, products);
      alone.insert(alone.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(together, alone) << static_cast<int>(products);
  }
}

TEST_P(ModelTest, PrefillOfOneSequenceMixesWithDecodeOfAnother) {
  const std::vector<TokenId> running = RandomTokens(40, vocab_size_, 4);
  const std::vector<TokenId> arriving = RandomTokens(24, vocab_size_, 5);
  const std::vector<uint32_t> running_blocks = {3, 8, 5};
  const std::vector<uint32_t> arriving_blocks = {6, 1};
  const std::vector<RowBits> running_alone = OneShot(file_, running);
  const std::vector<RowBits> arriving_alone = OneShot(file_, arriving);

  TestModel model(file_, {});
  Batch prompt;
  prompt.Add(running, 0, 36, running_blocks);
  prompt.Run(model, {});
  // Four steps: a token of the one, six of the other, in either order.
  for (int64_t step = 0; step < 4; ++step) {
    Batch batch;
    const bool decode_first = step % 2 == 0;
    if (decode_first) batch.Add(running, 36 + step, 1, running_blocks);
    batch.Add(arriving, 6 * step, 6, arriving_blocks);
    if (!decode_first) batch.Add(running, 36 + step, 1, running_blocks);
    const int32_t decode_row = decode_first ? 0 : 6;
    const int32_t prefill_row = decode_first ? 6 : 5;  // the last of the six
    const std::vector<RowBits> rows =
        batch.Run(model, {std::min(decode_row, prefill_row), std::max(decode_row, prefill_row)});

    EXPECT_EQ(rows[decode_first ? 0 : 1], running_alone[static_cast<size_t>(36 + step)]);
    EXPECT_EQ(rows[decode_first ? 1 : 0], arriving_alone[static_cast<size_t>(6 * step + 5)]);
  }
}

TEST_P(ModelTest, AnySubsetOfOutputRowsGivesTheSameRows) {
  const std::vector<TokenId> tokens = RandomTokens(30, vocab_size_, 6);
  const std::vector<uint32_t> blocks = {1, 0};
  const std::vector<RowBits> all = OneShot(file_, tokens);

  for (const std::vector<int32_t>& wanted :
       {std::vector<int32_t>{29}, {0}, {15}, {0, 29}, {14, 15, 16, 17}, {3, 11, 28}}) {
    TestModelOptions options;
    options.num_threads = 3;
    TestModel model(file_, options);
    Batch batch;
    batch.Add(tokens, 0, 30, blocks);
    const std::vector<RowBits> rows = batch.Run(model, wanted);

    ASSERT_EQ(rows.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(rows[i], all[static_cast<size_t>(wanted[i])]) << "row " << wanted[i];
    }
  }
}

TEST_P(ModelTest, AStepWithoutOutputRowsStoresKeysAndValuesAllTheSame) {
  const std::vector<TokenId> tokens = RandomTokens(20, vocab_size_, 7);
  const std::vector<uint32_t> blocks = {2, 3};
  TestModel model(file_, {});
  Batch prompt;
  prompt.Add(tokens, 0, 19, blocks);
  EXPECT_TRUE(prompt.Run(model, {}).empty());
  Batch last;
  last.Add(tokens, 19, 1, blocks);

  EXPECT_EQ(last.Run(model, {0}).front(), OneShot(file_, tokens).back());
}

TEST_P(ModelTest, LogitsOfOneOutputRowAreThoseOfAllOfThem) {
  const std::vector<TokenId> tokens = RandomTokens(20, vocab_size_, 8);
  const std::vector<uint32_t> blocks = {2, 3};
  TestModelOptions options;
  options.num_threads = 2;
  TestModel model(file_, options);
  Batch batch;
  batch.Add(tokens, 0, 20, blocks);
  const std::vector<RowBits> all = batch.Run(model, Iota(20));

  std::vector<float> logits(static_cast<size_t>(3 * vocab_size_));
  model.model().Logits(5, 3, logits.data());
  EXPECT_EQ(SplitRows(logits, vocab_size_), std::vector<RowBits>(all.begin() + 5, all.begin() + 8));
}

// A sequence of the random test, and how far it is.
struct Stream {
  std::vector<TokenId> tokens;
  std::vector<RowBits> alone;
  std::vector<uint32_t> blocks;
  int64_t computed = 0;
  int64_t left() const { return static_cast<int64_t>(tokens.size()) - computed; }
};

class RandomSchedule {
 public:
  RandomSchedule(const LoadedFile& file, uint32_t seed) : file_(file), random_(seed) {}

  void Run() {
    TestModelOptions options;
    options.num_threads = Draw(1, 4);
    options.block_size = 8 << Draw(0, 5);
    options.max_rows = Draw(1, 64);
    options.num_blocks = 0;
    std::vector<Stream> streams(static_cast<size_t>(Draw(1, 4)));
    for (size_t i = 0; i < streams.size(); ++i) {
      const int length = i == 0 && Draw(0, 4) == 0 ? Draw(250, 300) : Draw(1, 70);
      streams[i].tokens = RandomTokens(static_cast<size_t>(length), file_.config.vocab_size,
                                       static_cast<uint32_t>(random_()));
      streams[i].alone = OneShot(file_, streams[i].tokens);
      streams[i].blocks.resize(static_cast<size_t>((length - 1) / options.block_size + 1));
      options.num_blocks += static_cast<int32_t>(streams[i].blocks.size());
    }
    ScatterBlocks(options.num_blocks, streams);
    TestModel model(file_, options);
    while (!::testing::Test::HasFailure() && Step(model, options.max_rows, streams)) {
    }
  }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void ScatterBlocks(int32_t num_blocks, std::vector<Stream>& streams) {
    std::vector<uint32_t> ids(static_cast<size_t>(num_blocks));
    std::iota(ids.begin(), ids.end(), 0u);
    std::shuffle(ids.begin(), ids.end(), random_);
    for (Stream& stream : streams) {
      for (uint32_t& block : stream.blocks) {
        block = ids.back();
        ids.pop_back();
      }
    }
  }

  // Some rows of some sequences, some of them looked at. False once everything is computed.
  bool Step(TestModel& model, int32_t max_rows, std::vector<Stream>& streams) {
    Batch batch;
    std::vector<int32_t> output_rows;
    std::vector<RowBits> expected;
    for (Stream& stream : streams) {
      const int64_t room = std::min<int64_t>(stream.left(), max_rows - batch.num_rows());
      if (room == 0 || Draw(0, 3) == 0) continue;
      const int64_t count = Draw(0, 2) == 0 ? 1 : Draw(1, static_cast<int>(room));
      const int32_t first_row = batch.num_rows();
      batch.Add(stream.tokens, stream.computed, count, stream.blocks);
      for (int64_t row = 0; row < count; ++row) {
        if (Draw(0, 2) != 0) continue;
        output_rows.push_back(first_row + static_cast<int32_t>(row));
        expected.push_back(stream.alone[static_cast<size_t>(stream.computed + row)]);
      }
      stream.computed += count;
    }
    if (batch.num_rows() > 0) {
      EXPECT_EQ(batch.Run(model, output_rows), expected);
    }
    return std::any_of(streams.begin(), streams.end(),
                       [](const Stream& stream) { return stream.left() > 0; });
  }

  const LoadedFile& file_;
  std::mt19937 random_;
};

// A store full of NaN shows every slot that is read before it was written.
TEST_P(ModelTest, RandomBatchesBlocksAndThreadsGiveTheBitsOfOneShot) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t trial = 0; trial < 12 && !HasFailure(); ++trial) {
    const uint32_t seed = first_seed + trial;
    SCOPED_TRACE(::testing::Message() << "RandomSchedule's seed is " << seed);
    RandomSchedule(file_, seed).Run();
  }
}

// MHA with SentencePiece, biases and the other layout of RoPE, a vocabulary that is no multiple of
// 16, K-quants beside Q8_0, and plain float32.
INSTANTIATE_TEST_SUITE_P(TinyModels, ModelTest,
                         ::testing::Values("llama-mha-64", "qwen2-mqa-80", "llama-gqa-64",
                                           "format-q4_k", "format-f32"),
                         [](const ::testing::TestParamInfo<std::string>& file) {
                           std::string name = file.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace octavo::model
