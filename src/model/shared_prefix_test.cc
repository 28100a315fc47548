// Decoding sequences whose block tables begin with the same blocks: each row has the bits that it
// has alone, and K and V that rows share are visited once.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/arithmetic_version.h"
#include "model/test_model_file.h"

namespace octavo::model {
namespace {

using RowBits = std::vector<uint32_t>;

struct Sequence {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> blocks;
  int64_t num_shared = 0;  // leading tokens whose K and V others compute
  int64_t last() const { return std::ssize(tokens) - 1; }
};

std::vector<TokenId> RandomTokens(int64_t count, int32_t vocab_size, std::mt19937& random) {
  std::uniform_int_distribution<TokenId> ids(0, vocab_size - 1);
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) token = ids(random);
  return tokens;
}

// The rows [first, end) of one sequence, as a step of their own.
std::vector<float> StepAlone(TestModel& model, const Sequence& sequence, int64_t first, int64_t end,
                             std::span<const int32_t> output_rows) {
  const SequenceSlice slice{end - first, first, sequence.blocks};
  return model.Step({std::span(sequence.tokens)
                         .subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)),
                     std::span(&slice, 1), output_rows});
}

// The logits of the last token, computed by one sequence that has the whole store.
RowBits Alone(TestModel& model, const std::vector<TokenId>& tokens, int32_t block_size) {
  Sequence sequence{tokens, {}, 0};
  sequence.blocks.resize(tokens.size() / static_cast<size_t>(block_size) + 1);
  std::iota(sequence.blocks.begin(), sequence.blocks.end(), 0u);
  if (sequence.last() > 0) StepAlone(model, sequence, 0, sequence.last(), {});
  const int32_t row = 0;
  return BitsOf(StepAlone(model, sequence, sequence.last(), sequence.last() + 1, {&row, 1}));
}

// One step that decodes the last token of each sequence, in the given order; `prompt`, if it has
// tokens, is computed whole in the same step, before row `prompt_at`.
std::vector<RowBits> DecodeTogether(TestModel& model, const std::vector<Sequence>& sequences,
                                    const Sequence& prompt = {}, size_t prompt_at = 0) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<int32_t> output_rows;
  for (size_t i = 0; i <= sequences.size(); ++i) {
    if (i == prompt_at && !prompt.tokens.empty()) {
      tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
      slices.push_back({std::ssize(prompt.tokens), 0, prompt.blocks});
    }
    if (i == sequences.size()) break;
    output_rows.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(sequences[i].tokens.back());
    slices.push_back({1, sequences[i].last(), sequences[i].blocks});
  }
  const std::vector<float> logits = model.Step({tokens, slices, output_rows});
  const auto vocab_size = static_cast<size_t>(model.model().config().vocab_size);
  std::vector<RowBits> rows;
  for (size_t at = 0; at < logits.size(); at += vocab_size) {
    rows.push_back(BitsOf(std::span(logits).subspan(at, vocab_size)));
  }
  return rows;
}

// Computes what comes before the last token, and after what a sequence shares.
void Prefill(TestModel& model, const Sequence& sequence) {
  if (sequence.num_shared >= sequence.last()) return;
  StepAlone(model, sequence, sequence.num_shared, sequence.last(), {});
}

// Hands out block ids, each once.
class BlockSource {
 public:
  explicit BlockSource(int32_t block_size) : block_size_(block_size) {}

  // A sequence that holds the blocks that the first `num_shared` tokens of `parent` fill, or, if it
  // ends there, all that its own tokens need.
  Sequence Extend(const Sequence& parent, int64_t num_shared, std::span<const TokenId> own) {
    Sequence sequence;
    sequence.tokens.assign(parent.tokens.begin(), parent.tokens.begin() + num_shared);
    sequence.tokens.insert(sequence.tokens.end(), own.begin(), own.end());
    const int64_t num_blocks = (std::ssize(sequence.tokens) + block_size_ - 1) / block_size_;
    const int64_t num_common = own.empty() ? num_blocks : num_shared / block_size_;
    sequence.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + num_common);
    while (std::ssize(sequence.blocks) < num_blocks) sequence.blocks.push_back(next_++);
    sequence.num_shared = own.empty() ? num_shared : num_common * block_size_;
    return sequence;
  }
  int32_t num_blocks() const { return static_cast<int32_t>(next_); }

 private:
  int64_t block_size_;
  uint32_t next_ = 0;
};

std::string TinyPath(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/tiny/" + name + ".gguf";
}

// Groups of 1, 2, 3 and 8 heads.
const LoadedFile& TinyFile(size_t index) {
  static const LoadedFile files[] = {
      LoadedFile(TinyPath("llama-mha-64")), LoadedFile(TinyPath("qwen2-mqa-80")),
      LoadedFile(TinyPath("llama-gqa-64")), LoadedFile(TinyPath("format-q4_k"))};
  return files[index];
}

std::vector<const kernels::KernelTable*> AllTables() {
  std::vector<const kernels::KernelTable*> tables;
  for (const kernels::Isa isa : {kernels::Isa::kReference, kernels::Isa::kAvx2,
                                 kernels::Isa::kAvx512, kernels::Isa::kNeon}) {
    if (const kernels::KernelTable* table = kernels::FindKernels(isa)) tables.push_back(table);
  }
  return tables;
}

// A sequence of a tree: it goes on from some tokens of an earlier one.
struct Branch {
  uint32_t parent;
  uint32_t num_shared;
  int64_t num_own;
};

void showValue(const Branch& branch, std::ostream& out) {
  out << "{" << branch.parent << ", " << branch.num_shared << ", " << branch.num_own << "}";
}

// A branch without tokens of its own ends within its parent: it must not see the parent's later
// positions. Each such length occurs once, so that no two rows write the same slot.
std::vector<Sequence> Grow(const std::vector<Branch>& branches, int32_t vocab_size,
                           std::mt19937& random, BlockSource& source) {
  std::vector<Sequence> tree = {
      source.Extend({}, 0, RandomTokens(1 + random() % 330, vocab_size, random))};
  std::set<int64_t> prefix_lengths;
  for (const Branch& branch : branches) {
    const Sequence& parent = tree[branch.parent % tree.size()];
    const int64_t num_shared = branch.num_shared % std::ssize(parent.tokens);
    const bool is_prefix =
        branch.num_own == 0 && num_shared > 0 && prefix_lengths.insert(num_shared).second;
    const int64_t num_own = is_prefix ? 0 : std::max<int64_t>(branch.num_own, 1);
    tree.push_back(source.Extend(parent, num_shared, RandomTokens(num_own, vocab_size, random)));
  }
  return tree;
}

RC_GTEST_PROP(SharedPrefixTest, RandomTreesOfSequencesGiveTheBitsOfEachAlone, ()) {
  const LoadedFile& file = TinyFile(*rc::gen::inRange<size_t>(0, 4));
  const auto branches = *rc::gen::container<std::vector<Branch>>(rc::gen::construct<Branch>(
      rc::gen::inRange<uint32_t>(0, 100), rc::gen::inRange<uint32_t>(0, 1000),
      rc::gen::inRange<int64_t>(0, 40)));
  TestModelOptions options;
  options.block_size = 8 << *rc::gen::inRange(0, 6);
  options.kv_dtype = *rc::gen::element(kernels::KvDtype::kFloat32, kernels::KvDtype::kFloat16,
                                       kernels::KvDtype::kBFloat16, kernels::KvDtype::kInt8);
  options.kernels = *rc::gen::elementOf(AllTables());
  options.num_threads = *rc::gen::inRange(1, 4);
  options.max_rows = 512;
  const bool in_order = *rc::gen::arbitrary<bool>();
  const auto prompt_length = *rc::gen::inRange<int64_t>(0, 40);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());

  BlockSource source(options.block_size);
  const int32_t vocab_size = file.config.vocab_size;
  std::vector<Sequence> tree = Grow(branches, vocab_size, random, source);
  const Sequence prompt = source.Extend({}, 0, RandomTokens(prompt_length, vocab_size, random));
  options.num_blocks = std::max(source.num_blocks(), 512 / options.block_size);
  TestModel model(file, options);
  for (const Sequence& sequence : tree) Prefill(model, sequence);
  if (in_order) {
    std::sort(tree.begin(), tree.end(),
              [](const Sequence& a, const Sequence& b) { return a.blocks < b.blocks; });
  } else {
    std::shuffle(tree.begin(), tree.end(), random);
  }
  const std::vector<RowBits> together =
      DecodeTogether(model, tree, prompt, random() % (tree.size() + 1));

  options.num_threads = 1;
  TestModel other(file, options);
  for (size_t i = 0; i < tree.size(); ++i) {
    RC_ASSERT(together[i] == Alone(other, tree[i].tokens, options.block_size));
  }
}

// The kernels of this machine, counting who visits which tile.
struct Visit {
  int num_calls = 0;
  int64_t num_rows = 0;
  bool operator==(const Visit&) const = default;
};
using Place = std::tuple<const std::byte*, int64_t, int64_t, uint32_t>;  // layer, head, tile, block

std::map<Place, Visit>& Visits() {
  static std::map<Place, Visit> visits;
  return visits;
}

void CountingAttendTiles(const kernels::PagedKvView& view, const kernels::QueryRows& rows,
                         int64_t kv_head, kernels::TileSpan tiles, float* scratch,
                         float* partials) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const int64_t last = rows.first_position + (rows.num_rows - 1) * rows.position_step;
  for (int64_t tile = tiles.begin; tile < tiles.end && tile * 32 <= last; ++tile) {
    Visit& visit =
        Visits()[{view.base, kv_head, tile, view.block_table[tile * 32 / view.block_size_tokens]}];
    ++visit.num_calls;
    visit.num_rows += rows.num_rows;
  }
  kernels::BestKernels()->attention.attend_tiles(view, rows, kv_head, tiles, scratch, partials);
}

const kernels::KernelTable& CountingKernels() {
  static const kernels::KernelTable table = [] {
    kernels::KernelTable counting = *kernels::BestKernels();
    counting.attention.attend_tiles = CountingAttendTiles;
    return counting;
  }();
  return table;
}

// How often the visits of one decode step have each (calls, rows), by tile.
std::map<int64_t, std::map<std::pair<int, int64_t>, int>> CountDecode(
    const std::vector<Sequence>& sequences, TestModelOptions options) {
  options.kernels = &CountingKernels();
  options.max_rows = 512;
  TestModel model(TinyFile(2), options);  // one layer, two kv heads
  for (const Sequence& sequence : sequences) Prefill(model, sequence);
  Visits().clear();
  DecodeTogether(model, sequences);
  std::map<int64_t, std::map<std::pair<int, int64_t>, int>> counts;
  for (const auto& [place, visit] : Visits()) {
    ++counts[std::get<2>(place)][{visit.num_calls, visit.num_rows}];
  }
  return counts;
}

using Counts = std::map<std::pair<int, int64_t>, int>;

TEST(SharedPrefixTest, SixSequencesVisitTheTilesThatTheyShareOnce) {
  std::mt19937 random(1);
  BlockSource source(16);
  const Sequence root = source.Extend({}, 0, RandomTokens(100, 200, random));
  std::vector<Sequence> shared = {source.Extend(root, 99, RandomTokens(50, 200, random))};
  for (int i = 0; i < 5; ++i) {
    shared.push_back(source.Extend(shared[0], 100, RandomTokens(40 + i, 200, random)));
  }
  shared[0].num_shared = 0;
  const auto counts = CountDecode(shared, {});
  ASSERT_EQ(counts.size(), 5u);
  // 6 blocks of 16 tokens are shared: three whole tiles.
  for (int64_t tile : {0, 1, 2}) {
    EXPECT_EQ(counts.at(tile), (Counts{{{1, 6}, 2}})) << "tile " << tile;
  }
  for (int64_t tile : {3, 4}) {
    EXPECT_EQ(counts.at(tile), (Counts{{{1, 1}, 6 * 2}})) << "tile " << tile;
  }
}

TEST(SharedPrefixTest, NestedSharingVisitsEachLevelOnce) {
  std::mt19937 random(2);
  BlockSource source(32);
  std::vector<Sequence> tree = {source.Extend({}, 0, RandomTokens(400, 200, random))};
  tree.push_back(source.Extend(tree[0], 320, RandomTokens(70, 200, random)));
  tree.push_back(source.Extend(tree[0], 64, RandomTokens(300, 200, random)));
  tree.push_back(source.Extend(tree[2], 320, RandomTokens(30, 200, random)));
  TestModelOptions options;
  options.block_size = 32;
  const auto counts = CountDecode(tree, options);
  ASSERT_EQ(counts.size(), 13u);
  for (int64_t tile = 0; tile < 13; ++tile) {
    const Counts expected = tile < 2    ? Counts{{{1, 4}, 2}}
                            : tile < 10 ? Counts{{{1, 2}, 2 * 2}}
                            : tile < 11 ? Counts{{{1, 1}, 4 * 2}}
                            : tile < 12 ? Counts{{{1, 1}, 3 * 2}}
                                        : Counts{{{1, 1}, 2 * 2}};
    EXPECT_EQ(counts.at(tile), expected) << "tile " << tile;
  }
}

TEST(SharedPrefixTest, TheSameTokensInOtherBlocksAreVisitedBySequence) {
  std::mt19937 random(3);
  BlockSource source(16);
  const std::vector<TokenId> tokens = RandomTokens(100, 200, random);
  std::vector<Sequence> hidden;
  for (int i = 0; i < 6; ++i) hidden.push_back(source.Extend({}, 0, tokens));
  for (const auto& [tile, counts] : CountDecode(hidden, {})) {
    EXPECT_EQ(counts, (Counts{{{1, 1}, 6 * 2}})) << "tile " << tile;
  }
}

// 600 rows, most of two chunks: more than a step keeps until they are folded.
TEST(SharedPrefixTest, SixHundredSequencesAndAPromptInOneStepGiveTheBitsOfEachAlone) {
  const LoadedFile& file = TinyFile(2);
  std::mt19937 random(4);
  TestModelOptions options;
  options.block_size = 8;
  options.num_threads = 2;
  options.max_rows = 700;
  BlockSource source(options.block_size);
  const int32_t vocab_size = file.config.vocab_size;
  std::vector<Sequence> sequences = {source.Extend({}, 0, RandomTokens(300, vocab_size, random))};
  while (sequences.size() < 600) {
    // Some share less, some have one chunk only.
    const size_t kind = sequences.size() % 7;
    const int64_t num_shared = kind == 0 ? 200 : kind == 1 ? 264 : 296;
    const auto num_own = static_cast<int64_t>(1 + random() % 3);
    sequences.push_back(
        source.Extend(sequences[0], num_shared, RandomTokens(num_own, vocab_size, random)));
  }
  const Sequence prompt = source.Extend({}, 0, RandomTokens(50, vocab_size, random));
  options.num_blocks = source.num_blocks();
  TestModel model(file, options);
  for (const Sequence& sequence : sequences) Prefill(model, sequence);
  const std::vector<RowBits> together = DecodeTogether(model, sequences, prompt, 300);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = sequences[i];
    const int32_t row = 0;
    ASSERT_EQ(together[i],
              BitsOf(StepAlone(model, sequence, sequence.last(), sequence.last() + 1, {&row, 1})))
        << "sequence " << i;
  }
}

}  // namespace
}  // namespace octavo::model
