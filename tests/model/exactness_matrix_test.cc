// The exactness law with many requests at once, on the real model: 40 mixed requests give the same
// ids and log-probabilities whatever shares the machine with them (docs/contracts/exactness.md).
// Each factor alone, then an array of configurations in which every pair of levels of every two
// factors meets. OCTAVO_FULL_MATRIX=1 runs the whole product, OCTAVO_FULL_MATRIX=K/N the Kth of N
// shares of it, in an order that mixes the levels, and K/N@T that share of the rows with T threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/environment.h"
#include "octavo/engine.h"
#include "support/test_model.h"

namespace octavo::testing {
namespace {

constexpr size_t kNumRequests = kIsSanitized ? 10 : 40;
constexpr int32_t kMaxModelLen = kIsSanitized ? 64 : 1600;

// --- What is asked ---------------------------------------------------------------------------

// Prompts of 1 to 1,500 tokens. Three of four begin like others: with one of two long texts, to a
// length that is theirs; the rest share nothing. Every fifth wants three completions.
std::vector<Request> MakeRequests(int32_t vocab_size) {
  const size_t lengths[] = {1,   2,   3,   7,   8,   9,   15,  16,  17,   31,  32,
                            33,  48,  63,  64,  65,  127, 128, 129, 150,  200, 255,
                            256, 257, 300, 400, 500, 600, 700, 800, 1000, 1500};
  std::mt19937 random(20);
  std::uniform_int_distribution<TokenId> ids(1000, vocab_size - 1000);
  std::array<std::vector<TokenId>, 2> texts;
  for (std::vector<TokenId>& text : texts) {
    for (int i = 0; i < 1600; ++i) text.push_back(ids(random));
  }
  std::vector<Request> requests(kNumRequests);
  for (size_t i = 0; i < kNumRequests; ++i) {
    Request& request = requests[i];
    const size_t drawn = i < std::size(lengths) ? i * 11 : i;  // those that come twice are short
    const size_t length =
        std::min<size_t>(lengths[drawn % std::size(lengths)], kIsSanitized ? 33 : 1500);
    const size_t shared = i % 4 == 3 ? 0 : length - length / (2 + i % 5);
    const std::vector<TokenId>& text = texts[i % 2];
    request.prompt_token_ids.assign(text.begin(), text.begin() + static_cast<long>(shared));
    while (request.prompt_token_ids.size() < length) {
      request.prompt_token_ids.push_back(ids(random));
    }
    request.params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.params.seed = 100 + i;
    request.params.top_p = i % 3 == 0 ? 0.9f : 1.0f;
    request.params.repetition_penalty = i % 7 == 0 ? 1.2f : 1.0f;
    request.params.n = i % 5 == 4 ? 3 : 1;
    request.params.max_tokens = static_cast<int32_t>(3 + i * 7 % (kIsSanitized ? 4 : 11));
    request.params.ignore_eos = true;
    request.params.logprobs = 2;
    request.params.detokenize = false;
    if (i % 13 == 6) request.params.prompt_logprobs = 1;
  }
  return requests;
}

// Blocks that a request holds at its end: its completions share the full blocks of the prompt.
int64_t DemandBlocks(const Request& request, int64_t block_size) {
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t num_shared = num_prompt / block_size;
  const int64_t num_all = (num_prompt + *request.params.max_tokens + block_size - 1) / block_size;
  return num_shared + request.params.n * (num_all - num_shared);
}

// Those of the pool: the share of what all hold when they share nothing, and room for the largest.
int64_t PoolBlocks(const std::vector<Request>& requests, int64_t block_size, int64_t percent) {
  int64_t demand = 0;
  int64_t largest = 0;
  for (const Request& request : requests) {
    demand += DemandBlocks(request, block_size);
    largest = std::max(largest, DemandBlocks(request, block_size));
  }
  const int64_t num_blocks = demand * percent / 100;
  if (!kIsSanitized) {
    EXPECT_GT(num_blocks, largest) << "the pool's name is not its size";
  }
  return std::max(num_blocks, largest + 2);
}

using Bits = std::vector<uint32_t>;

void Append(const std::vector<TokenLogprobs>& logprobs, Bits* bits) {
  for (const TokenLogprobs& entry : logprobs) {
    bits->push_back(static_cast<uint32_t>(entry.chosen.token_id));
    bits->push_back(std::bit_cast<uint32_t>(entry.chosen.logprob));
    for (const TokenLogprob& top : entry.top) {
      bits->push_back(static_cast<uint32_t>(top.token_id));
      bits->push_back(std::bit_cast<uint32_t>(top.logprob));
    }
  }
}

Bits BitsOf(const RequestOutput& output) {
  Bits bits;
  Append(output.prompt_logprobs, &bits);
  for (const CompletionOutput& completion : output.outputs) {
    bits.push_back(static_cast<uint32_t>(completion.finish_reason));
    Append(completion.logprobs, &bits);
  }
  return bits;
}

// --- How it is asked -------------------------------------------------------------------------

struct Factor {
  const char* name;
  std::vector<const char*> levels;  // the first one is the baseline's
};

enum FactorIndex { kTogether, kCache, kPool, kBudget, kBlocks, kThreads, kStorm, kWarm };

const std::vector<Factor>& Factors() {
  static const std::vector<Factor> factors = {
      {"requests", {"alone", "together"}},
      {"prefix cache", {"off", "on"}},
      {"pool", {"100 %", "50 %", "50 % swap", "20 %", "20 % swap"}},
      {"budget", {"256", "32", "2048"}},
      {"block size", {"16", "8", "32"}},
      {"threads", {"2", "1", "3"}},
      {"abort storm", {"none", "before and between"}},
      {"round", {"cold", "warm"}},
  };
  return factors;
}

constexpr int kThreadLevels[] = {2, 1, 3};

using Configuration = std::vector<int>;  // a level for each factor

std::string NameOf(const Configuration& configuration) {
  std::string name;
  for (size_t f = 0; f < configuration.size(); ++f) {
    const Factor& factor = Factors()[f];
    name += std::string(f == 0 ? "" : ", ") + factor.name + " " +
            factor.levels[static_cast<size_t>(configuration[f])];
  }
  return name;
}

// What is computed: the law holds for each by itself.
struct Precision {
  ComputeType compute = ComputeType::kInt8;
  KvCacheDtype kv_dtype = KvCacheDtype::kFloat16;
  int64_t kv_bytes_per_token = 23040;  // of the default model
};

EngineOptions OptionsOf(const Configuration& configuration, const Precision& precision,
                        const std::vector<Request>& requests) {
  const int budgets[] = {256, 32, 2048};
  const int block_sizes[] = {16, 8, 32};
  const int shares[] = {100, 50, 50, 20, 20};
  const int pool = configuration[kPool];
  const int block_size = block_sizes[configuration[kBlocks]];
  const int64_t block_bytes = block_size * precision.kv_bytes_per_token;
  EngineOptions options;
  options.model.path = *DefaultModelPath();
  options.model.max_model_len = kMaxModelLen;
  options.model.compute = precision.compute;
  options.cache.dtype = precision.kv_dtype;
  options.cache.enable_prefix_caching = configuration[kCache] == 1;
  options.cache.kv_cache_memory_bytes =
      PoolBlocks(requests, block_size, shares[pool]) * block_bytes;
  options.cache.swap_space_bytes =
      pool == 2 || pool == 4 ? PoolBlocks(requests, block_size, 100) * block_bytes : 0;
  options.cache.block_size = block_size;
  options.scheduler.max_num_batched_tokens = budgets[configuration[kBudget]];
  options.scheduler.check_integrity = true;
  options.device.threads = kThreadLevels[configuration[kThreads]];
  return options;
}

// Requests like the measured ones that are aborted in all phases: queued, in the prompt, decoding.
class AbortStorm {
 public:
  AbortStorm(Engine& engine, const std::vector<Request>& requests) {
    for (size_t i = 0; i < requests.size(); i += 3) {  // of every kind
      Request request = requests[i];
      request.params.max_tokens = 200;
      streams_.push_back(*engine.Submit(std::move(request)));
    }
  }
  // Aborts every third one now; the rest when the storm is over.
  void AbortSome() {
    for (size_t i = next_++; i < streams_.size(); i += 3) streams_[i].reset();
  }

 private:
  std::vector<std::unique_ptr<RequestStream>> streams_;
  size_t next_ = 0;
};

struct Round {
  std::vector<Bits> bits;  // by request
  int64_t num_cached = 0;
};

Round RunRound(Engine& engine, const std::vector<Request>& requests,
               const Configuration& configuration) {
  Round round;
  const auto take = [&round](const RequestOutput& output) {
    round.bits.push_back(BitsOf(output));
    round.num_cached += output.num_cached_tokens;
  };
  std::optional<AbortStorm> storm;
  if (configuration[kStorm] == 1) storm.emplace(engine, requests);
  if (configuration[kTogether] == 0) {
    for (const Request& request : requests) {
      take(*engine.Generate(request));
      if (storm) storm->AbortSome();
    }
    return round;
  }
  std::vector<std::unique_ptr<RequestStream>> streams;
  for (const Request& request : requests) streams.push_back(*engine.Submit(request));
  if (storm) storm->AbortSome();
  for (const auto& stream : streams) {
    take(stream->Finish());
    if (storm) storm->AbortSome();
  }
  return round;
}

class ExactnessMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!DefaultModelPath()) GTEST_SKIP() << "the default model is absent: run scripts/fetch-model";
    requests_ = MakeRequests(49152);
  }

  // The cold round, and after it the warm one if the configuration has it.
  std::vector<Round> Run(const Configuration& configuration) {
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(OptionsOf(configuration, precision_, requests_));
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    if (!engine.ok()) return {};
    std::vector<Round> rounds;
    for (int round = 0; round <= configuration[kWarm]; ++round) {
      rounds.push_back(RunRound(**engine, requests_, configuration));
    }
    const Status sound = (*engine)->CheckIntegrity();
    EXPECT_TRUE(sound.ok()) << sound.message();
    const EngineStats stats = (*engine)->stats();
    EXPECT_EQ(stats.cache.num_blocks_in_use, 0u) << NameOf(configuration);
    const uint64_t num_aborts = stats.num_finished[static_cast<size_t>(FinishReason::kAbort)];
    EXPECT_EQ(num_aborts > 0, configuration[kStorm] == 1) << NameOf(configuration);
    num_recomputes_ += stats.num_preemptions_recompute;
    num_swaps_ += stats.num_preemptions_swap;
    std::printf("%s: %llu preemptions by recompute, %llu by swap; %llu aborts; cached tokens",
                NameOf(configuration).c_str(),
                static_cast<unsigned long long>(stats.num_preemptions_recompute),
                static_cast<unsigned long long>(stats.num_preemptions_swap),
                static_cast<unsigned long long>(num_aborts));
    for (const Round& round : rounds) {
      std::printf(" %lld", static_cast<long long>(round.num_cached));
    }
    std::printf("\n");
    std::fflush(stdout);
    return rounds;
  }

  void ExpectSameBits(const Configuration& configuration) {
    if (baseline_.empty()) baseline_ = Run(Configuration(Factors().size(), 0)).front().bits;
    for (const Round& round : Run(configuration)) ExpectSameBits(configuration, round);
  }

  void ExpectSameBits(const Configuration& configuration, const Round& round) {
    ASSERT_EQ(round.bits.size(), baseline_.size());
    for (size_t i = 0; i < baseline_.size(); ++i) {
      EXPECT_EQ(round.bits[i], baseline_[i]) << "request " << i << ": " << NameOf(configuration);
    }
    EXPECT_EQ(round.num_cached > 0, configuration[kCache] == 1) << NameOf(configuration);
  }

  // Configurations that never preempted would prove nothing about it.
  void ExpectPressure() const {
    EXPECT_GT(num_recomputes_, 0u);
    EXPECT_GT(num_swaps_, 0u);
  }

  std::vector<Request> requests_;
  Precision precision_;
  std::vector<Bits> baseline_;
  uint64_t num_recomputes_ = 0;  // of all configurations that ran
  uint64_t num_swaps_ = 0;
};

// --- The configurations ----------------------------------------------------------------------

// A pool can only be short when several share it. Levels that are not chosen yet (-1) may be any.
bool IsPossible(const Configuration& row) { return row[kTogether] != 0 || row[kPool] <= 0; }

// Rows in which every possible pair of levels of every two factors occurs: each row is built factor
// by factor, with the level that meets the most pairs that are still to come.
std::vector<Configuration> PairwiseArray() {
  const std::vector<Factor>& factors = Factors();
  std::set<std::array<int, 4>> missing;  // factor, level, later factor, level
  for (int f = 0; f < static_cast<int>(factors.size()); ++f) {
    for (int g = f + 1; g < static_cast<int>(factors.size()); ++g) {
      for (int a = 0; a < static_cast<int>(factors[static_cast<size_t>(f)].levels.size()); ++a) {
        for (int b = 0; b < static_cast<int>(factors[static_cast<size_t>(g)].levels.size()); ++b) {
          if (f != kTogether || a != 0 || g != kPool || b == 0) missing.insert({f, a, g, b});
        }
      }
    }
  }
  std::vector<Configuration> rows;
  while (!missing.empty()) {
    Configuration row(factors.size(), -1);
    const std::array<int, 4> seed = *missing.begin();
    row[static_cast<size_t>(seed[0])] = seed[1];
    row[static_cast<size_t>(seed[2])] = seed[3];
    const auto gain = [&missing](const Configuration& candidate) {
      int pairs = 0;
      for (const auto& [f, a, g, b] : missing) {
        pairs += candidate[static_cast<size_t>(f)] == a && candidate[static_cast<size_t>(g)] == b;
      }
      return pairs;
    };
    for (size_t f = 0; f < factors.size(); ++f) {
      if (row[f] >= 0) continue;
      int best = -1;
      Configuration chosen;
      for (int level = 0; level < static_cast<int>(factors[f].levels.size()); ++level) {
        Configuration candidate = row;
        candidate[f] = level;
        if (IsPossible(candidate) && gain(candidate) > best) {
          best = gain(candidate);
          chosen = candidate;
        }
      }
      row = chosen;
    }
    std::erase_if(missing, [&row](const std::array<int, 4>& pair) {
      return row[static_cast<size_t>(pair[0])] == pair[1] &&
             row[static_cast<size_t>(pair[2])] == pair[3];
    });
    rows.push_back(row);
  }
  return rows;
}

TEST_F(ExactnessMatrixTest, EachFactorAloneGivesTheSameBits) {
  for (size_t f = 0; f < Factors().size(); ++f) {
    for (int level = 1; level < static_cast<int>(Factors()[f].levels.size()); ++level) {
      Configuration configuration(Factors().size(), 0);
      configuration[f] = level;
      if (!IsPossible(configuration)) configuration[kTogether] = 1;
      ExpectSameBits(configuration);
    }
  }
  ExpectPressure();
}

TEST_F(ExactnessMatrixTest, EveryPairOfLevelsGivesTheSameBits) {
  if (kIsSanitized) GTEST_SKIP() << "each factor alone takes the same paths";
  for (const Configuration& configuration : PairwiseArray()) ExpectSameBits(configuration);
  ExpectPressure();
}

TEST_F(ExactnessMatrixTest, Int16ProductsAndInt8KvGiveTheSameBitsUnderPressure) {
  precision_ = {ComputeType::kInt16, KvCacheDtype::kInt8, 12240};  // in blocks of 8
  ExpectSameBits({1, 1, 3, 1, 1, 2, 1, 1});     // 20 %, budget 32, blocks of 8, warm
  const int pool = kIsSanitized ? 2 : 4;        // the few requests of the former swap at 50 %
  ExpectSameBits({1, 0, pool, 0, 0, 2, 1, 0});  // with swap, budget 256, blocks of 16
  ExpectPressure();
}

// A request that is alone, with no storm about it, fits into every pool: it is never preempted, and
// where nothing is cached nothing can be evicted.
bool DiffersFromOthers(const Configuration& row) {
  if (row[kTogether] == 1 || row[kStorm] == 1) return true;
  const bool swaps = row[kPool] == 2 || row[kPool] == 4;
  return !swaps && (row[kPool] == 0 || row[kCache] == 1);
}

// Every combination of levels that can make a difference. A warm round comes after the cold one,
// which has no row of its own; without the cache there is nothing to be warm.
std::vector<Configuration> WholeProduct() {
  std::vector<Configuration> rows;
  Configuration row(Factors().size(), 0);
  while (true) {
    row[kWarm] = row[kCache];
    if (DiffersFromOthers(row)) rows.push_back(row);
    size_t f = 0;
    while (f < kWarm && ++row[f] == static_cast<int>(Factors()[f].levels.size())) row[f++] = 0;
    if (f == kWarm) break;
  }
  std::shuffle(rows.begin(), rows.end(), std::mt19937(21));
  return rows;
}

TEST_F(ExactnessMatrixTest, TheWholeProductGivesTheSameBits) {
  const std::optional<std::string> wanted = base::ReadEnvironment("OCTAVO_FULL_MATRIX");
  if (!wanted) GTEST_SKIP() << "hours long: set OCTAVO_FULL_MATRIX=1, as scripts/test --full does";
  size_t share = 1;
  size_t num_shares = 1;
  std::vector<Configuration> rows = WholeProduct();
  if (*wanted != "1") {
    int threads = 0;
    int num_read = 0;
    const int num_fields = std::sscanf(wanted->c_str(), "%zu/%zu%n@%d%n", &share, &num_shares,
                                       &num_read, &threads, &num_read);
    ASSERT_TRUE(num_fields >= 2 && static_cast<size_t>(num_read) == wanted->size()) << *wanted;
    if (num_fields == 3) {
      std::erase_if(rows, [threads](const Configuration& row) {
        return kThreadLevels[row[kThreads]] != threads;
      });
    }
  }
  ASSERT_TRUE(1 <= share && share <= num_shares && share <= rows.size()) << *wanted;
  for (size_t i = share - 1; i < rows.size(); i += num_shares) {
    std::printf("row %zu of %zu\n", i + 1, rows.size());
    ExpectSameBits(rows[i]);
  }
  if (rows.size() / num_shares > 100) ExpectPressure();
}

}  // namespace
}  // namespace octavo::testing
