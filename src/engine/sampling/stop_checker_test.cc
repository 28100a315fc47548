#include "engine/sampling/stop_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace octavo::engine {
namespace {

constexpr TokenId kEos = 0;
constexpr TokenId kWord = 5;
const std::vector<TokenId> kEosIds = {kEos};

// What a whole request streamed, and how it ended.
struct Outcome {
  std::vector<std::string> deltas;
  std::string text;
  FinishReason finish_reason = FinishReason::kNone;
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

// Pushes ordinary tokens with these texts until one ends the request; all are pushed if none does.
Outcome RunRequest(const SamplingParams& params, const std::vector<std::string>& pieces,
                   int32_t max_output_tokens = 1000) {
  StopChecker checker(params, kEosIds, max_output_tokens);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopUpdate update = checker.Push(kWord, piece);
    outcome.deltas.emplace_back(update.text);
    outcome.text += update.text;
    outcome.finish_reason = update.finish_reason;
    outcome.stop_reason = update.stop_reason;
    if (update.finish_reason != FinishReason::kNone) break;
  }
  return outcome;
}

SamplingParams WithStop(std::vector<std::string> stop) {
  SamplingParams params;
  params.stop = std::move(stop);
  return params;
}

using Deltas = std::vector<std::string>;

TEST(StopCheckerTest, FindsAStopStringAcrossTokensAndStreamsNothingOfIt) {
  const Outcome outcome = RunRequest(WithStop({"DEFGHIJ"}), {"ABC", "DE", "FGH", "IJK", "L"});

  EXPECT_EQ(outcome.deltas, (Deltas{"ABC", "", "", ""}));
  EXPECT_EQ(outcome.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(outcome.stop_reason), "DEFGHIJ");
}

TEST(StopCheckerTest, FindsAStopStringInsideAToken) {
  const Outcome outcome = RunRequest(WithStop({"ell"}), {"say ", "hello", " you"});

  EXPECT_EQ(outcome.deltas, (Deltas{"say ", "h"}));
}

TEST(StopCheckerTest, ReleasesWhatCanNoLongerMatch) {
  const Outcome outcome = RunRequest(WithStop({"\nUser:"}), {"hi", "\n", "Use", "d", " it"});

  EXPECT_EQ(outcome.deltas, (Deltas{"hi", "", "", "\nUsed", " it"}));
  EXPECT_EQ(outcome.finish_reason, FinishReason::kNone);
}

// After "aab" plus an "a" that breaks the match, "a" is held again: it may begin another.
TEST(StopCheckerTest, HoldsBackTheNewBeginningInsideABrokenMatch) {
  const Outcome outcome = RunRequest(WithStop({"aabc"}), {"aab", "a", "abc"});

  EXPECT_EQ(outcome.deltas, (Deltas{"", "aab", ""}));
  EXPECT_EQ(outcome.finish_reason, FinishReason::kStop);
}

TEST(StopCheckerTest, ReleasesAHeldBeginningAtTheLimit) {
  const Outcome outcome = RunRequest(WithStop({"END"}), {"x", "E", "N"}, 3);

  EXPECT_EQ(outcome.deltas, (Deltas{"x", "", "EN"}));
  EXPECT_EQ(outcome.finish_reason, FinishReason::kLength);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(outcome.stop_reason));
}

TEST(StopCheckerTest, TheMatchThatIsCompleteFirstWins) {
  const Outcome outcome = RunRequest(WithStop({"abcde", "cd"}), {"xabcdef"});

  EXPECT_EQ(outcome.text, "xab");
  EXPECT_EQ(std::get<std::string>(outcome.stop_reason), "cd");
}

TEST(StopCheckerTest, OfMatchesThatEndTogetherTheFirstOfTheListWins) {
  EXPECT_EQ(RunRequest(WithStop({"cd", "bcd"}), {"abcd"}).text, "ab");
  EXPECT_EQ(RunRequest(WithStop({"bcd", "cd"}), {"abcd"}).text, "a");
}

TEST(StopCheckerTest, IncludesTheStopStringOnRequestAndNothingAfterIt) {
  SamplingParams params = WithStop({"END"});
  params.include_stop_str_in_output = true;

  const Outcome outcome = RunRequest(params, {"a E", "ND b"});

  EXPECT_EQ(outcome.text, "a END");
  EXPECT_EQ(outcome.deltas.front(), "a E") << "nothing is held back when all of it is sent anyway";
  EXPECT_EQ(outcome.finish_reason, FinishReason::kStop);
}

TEST(StopCheckerTest, AStopStringBeatsTheLimitOnTheSameToken) {
  const Outcome outcome = RunRequest(WithStop({"b"}), {"a", "b"}, 2);

  EXPECT_EQ(outcome.finish_reason, FinishReason::kStop);
  EXPECT_EQ(outcome.text, "a");
}

TEST(StopCheckerTest, CharactersOfSeveralBytesStayWhole) {
  const Outcome outcome =
      RunRequest(WithStop({"\xC3\xA9\xC3\xA8"}), {"a\xC3\xA9", "\xC3\xA9", "b"});

  EXPECT_EQ(outcome.deltas, (Deltas{"a", "\xC3\xA9",
                                    "\xC3\xA9"
                                    "b"}));
}

TEST(StopCheckerTest, EndOfTextStopsWithoutAReasonAndReleasesWhatIsHeld) {
  StopChecker checker(WithStop({"END"}), kEosIds, 10);
  EXPECT_EQ(checker.Push(kWord, "a EN").text, "a ");

  EXPECT_EQ(checker.FinishReasonOf(kEos), FinishReason::kStop);
  EXPECT_FALSE(checker.KeepsTextOf(kEos));
  const StopUpdate update = checker.Push(kEos, "");

  EXPECT_EQ(update.text, "EN");
  EXPECT_EQ(update.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(update.stop_reason));
}

TEST(StopCheckerTest, EndOfTextAtTheLimitIsAStop) {
  StopChecker checker({}, kEosIds, 1);

  EXPECT_EQ(checker.Push(kEos, "").finish_reason, FinishReason::kStop);
}

TEST(StopCheckerTest, IgnoreEosGoesOnToTheLimit) {
  SamplingParams params;
  params.ignore_eos = true;
  StopChecker checker(params, kEosIds, 2);

  EXPECT_TRUE(checker.KeepsTextOf(kEos));
  EXPECT_EQ(checker.Push(kEos, "").finish_reason, FinishReason::kNone);
  EXPECT_EQ(checker.FinishReasonOf(kEos), FinishReason::kLength);
  EXPECT_EQ(checker.Push(kEos, "").finish_reason, FinishReason::kLength);
}

TEST(StopCheckerTest, AStopTokenIsReportedAndItsTextIsKeptOnRequestOnly) {
  SamplingParams params;
  params.stop_token_ids = {7, kEos};
  StopChecker checker(params, kEosIds, 10);
  EXPECT_FALSE(checker.KeepsTextOf(7));
  EXPECT_EQ(std::get<TokenId>(checker.Push(7, "").stop_reason), 7);

  params.include_stop_str_in_output = true;
  StopChecker including(params, kEosIds, 10);
  EXPECT_TRUE(including.KeepsTextOf(7));
  EXPECT_EQ(including.Push(7, "word").text, "word");

  StopChecker at_end(params, kEosIds, 10);
  const StopUpdate update = at_end.Push(kEos, "");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(update.stop_reason)) << "end-of-text is first";
}

TEST(StopCheckerTest, NothingButTheLimitStopsBeforeMinTokens) {
  SamplingParams params = WithStop({"ab"});
  params.min_tokens = 2;
  params.stop_token_ids = {7};
  StopChecker checker(params, kEosIds, 10);

  EXPECT_EQ(checker.Push(7, "ab").finish_reason, FinishReason::kNone);
  EXPECT_EQ(checker.FinishReasonOf(kEos), FinishReason::kNone);
  EXPECT_EQ(checker.Push(kEos, "a").finish_reason, FinishReason::kNone);
  EXPECT_EQ(checker.FinishReasonOf(kEos), FinishReason::kStop);
  const StopUpdate update = checker.Push(kWord, "b");

  EXPECT_EQ(update.finish_reason, FinishReason::kStop);
  EXPECT_EQ(update.text, "") << "the match began before min_tokens and ended after";
}

TEST(StopCheckerTest, FlushReleasesWhatIsHeldAndTheTail) {
  StopChecker checker(WithStop({"END"}), kEosIds, 10);
  EXPECT_EQ(checker.Push(kWord, "a EN").text, "a ");

  EXPECT_EQ(checker.Flush("\xEF\xBF\xBD"), "EN\xEF\xBF\xBD");
}

// The whole-text answer, by search: of all occurrences that end after `floor` bytes, the one that
// ends first.
struct NaiveMatch {
  size_t begin = 0, end = std::string::npos;
};

NaiveMatch FindNaively(const std::string& text, const std::vector<std::string>& stops,
                       size_t floor) {
  NaiveMatch best;
  for (const std::string& stop : stops) {
    for (size_t at = text.find(stop); at != std::string::npos; at = text.find(stop, at + 1)) {
      const size_t end = at + stop.size();
      if (end > floor && end < best.end) best = {at, end};
    }
  }
  return best;
}

// The length of the longest suffix of `text` that begins `stop` but is not all of it.
size_t LongestBeginning(const std::string& text, const std::string& stop) {
  for (size_t n = stop.size() - 1; n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

std::string RandomText(std::mt19937& rng, size_t length, unsigned letters) {
  static const std::vector<std::string> alphabet = {"a", "b", "\xC3\xA9", "c"};
  std::string text;
  for (size_t i = 0; i < length; ++i) text += alphabet[rng() % letters];
  return text;
}

TEST(StopCheckerTest, EqualsAWholeTextSearchForRandomTextsStopsAndSplits) {
  constexpr unsigned kSeed = 20231;
  std::mt19937 rng(kSeed);
  int num_matches = 0;
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    const unsigned letters = 1 + rng() % 4;
    SamplingParams params;
    for (unsigned i = 1 + rng() % 4; i > 0; --i) {
      params.stop.push_back(RandomText(rng, 1 + rng() % 7, letters));
    }
    params.include_stop_str_in_output = rng() % 3 == 0;
    params.min_tokens = static_cast<int32_t>(rng() % 3 == 0 ? rng() % 6 : 0);
    std::vector<std::string> pieces;
    std::string whole;
    size_t floor = 0;
    for (unsigned i = 1 + rng() % 20; i > 0; --i) {
      pieces.push_back(RandomText(rng, rng() % 4, letters));
      whole += pieces.back();
      if (static_cast<int32_t>(pieces.size()) <= params.min_tokens) floor = whole.size();
    }
    const auto limit = static_cast<int32_t>(pieces.size());

    const NaiveMatch match = FindNaively(whole, params.stop, floor);
    const bool found = match.end != std::string::npos;
    const size_t expected_end =
        !found ? whole.size() : (params.include_stop_str_in_output ? match.end : match.begin);
    const Outcome outcome = RunRequest(params, pieces, limit);
    num_matches += found ? 1 : 0;

    ASSERT_EQ(outcome.text, whole.substr(0, expected_end));
    ASSERT_EQ(outcome.finish_reason, found ? FinishReason::kStop : FinishReason::kLength);
    if (found) {
      ASSERT_EQ(std::get<std::string>(outcome.stop_reason),
                whole.substr(match.begin, match.end - match.begin));
    }
  }
  EXPECT_GT(num_matches, 1000);
}

TEST(StopCheckerTest, HoldsBackTheBeginningsOfStopStringsAndNothingElse) {
  constexpr unsigned kSeed = 977;
  std::mt19937 rng(kSeed);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    const std::string stop_a = RandomText(rng, 2 + rng() % 5, 3);
    const std::string stop_b = RandomText(rng, 2 + rng() % 5, 3);
    StopChecker checker(WithStop({stop_a, stop_b}), kEosIds, 1000);
    std::string text, sent;
    for (int i = 0; i < 20; ++i) {
      const std::string piece = RandomText(rng, rng() % 4, 3);
      text += piece;
      const StopUpdate update = checker.Push(kWord, piece);
      if (update.finish_reason != FinishReason::kNone) break;
      sent += update.text;
      const size_t held = std::max(LongestBeginning(text, stop_a), LongestBeginning(text, stop_b));
      ASSERT_EQ(sent, text.substr(0, text.size() - held));
    }
  }
}

// 64 stop strings of 10,000 bytes that agree with each other and with the text in all but their
// last byte: a search that began anew at each byte would compare some 10^12 bytes.
TEST(StopCheckerTest, ALongRepetitiveStopListTakesLinearTime) {
  SamplingParams params;
  for (int i = 0; i < 64; ++i) params.stop.push_back(std::string(4080 + i % 8, 'a') + "b");
  ASSERT_TRUE(params.Validate(0).ok());
  StopChecker checker(params, kEosIds, 1 << 20);

  size_t sent = 0;
  for (int i = 0; i < 5000; ++i) sent += checker.Push(kWord, "aaaa").text.size();
  const StopUpdate update = checker.Push(kWord, "b");

  EXPECT_EQ(update.finish_reason, FinishReason::kStop);
  EXPECT_EQ(sent + update.text.size(), 20000u - 4080u);
}

}  // namespace
}  // namespace octavo::engine
