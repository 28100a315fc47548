// A server's explanation, as the command reads it.

#include "cli/explanation.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <functional>

namespace octavo::cli {
namespace {

boost::json::object GoodAnswer() {
  return boost::json::parse(R"({"model": "m", "prompt_token_ids": [5, 6, 7, 8, 9],
      "explanation": {"block_size": 2, "num_cached_tokens": 3, "blocks": [
        {"match": "hit", "num_cached_tokens": 2, "reason": null, "text": "ab"},
        {"match": "partial", "num_cached_tokens": 1, "reason": "tokens_differ", "differs_at": 3,
         "text": "0123456789012345678901234567890\u00e9 and more"},
        {"match": "miss", "num_cached_tokens": 0, "reason": "evicted", "evicted_ms_ago": 1500,
         "text": "e"}]}})")
      .get_object();
}

boost::json::array& BlocksOf(boost::json::object& answer) {
  return answer["explanation"].get_object()["blocks"].get_array();
}

boost::json::object& BlockOf(boost::json::object& answer, size_t index) {
  return BlocksOf(answer)[index].get_object();
}

TEST(ServerExplanationTest, ShowsAsTheTableOfAnEngine) {
  const Result<PromptExplanation> read = ReadExplanation(GoodAnswer());
  ASSERT_TRUE(read.ok()) << read.status().message();

  const std::string table = ExplanationTable(*read);

  EXPECT_NE(table.find("0              0-1      2/2  hit"), std::string::npos) << table;
  EXPECT_NE(table.find("\"ab\"\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\"0123456789012345678901234567890\" ...\n"), std::string::npos)
      << table;  // a character is not cut in two
  EXPECT_NE(table.find("1              2-3      1/2  partial: tokens differ at position 3"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("2              4-4      0/1  miss: evicted 1.5 s ago"), std::string::npos)
      << table;
  EXPECT_NE(table.find("3 of 5 tokens cached; blocks: 1 hit, 1 partial, 1 missed"),
            std::string::npos)
      << table;
}

TEST(ServerExplanationTest, AnAnswerOfAnotherShapeIsRefused) {
  using Spoil = std::function<void(boost::json::object&)>;
  const Spoil spoils[] = {
      [](boost::json::object& answer) { answer.erase("prompt_token_ids"); },
      [](boost::json::object& answer) { answer["prompt_token_ids"].get_array()[0] = -1; },
      [](boost::json::object& answer) { answer["prompt_token_ids"].get_array()[0] = 1LL << 31; },
      [](boost::json::object& answer) { answer["prompt_token_ids"] = "5"; },
      [](boost::json::object& answer) { answer["explanation"] = nullptr; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["block_size"] = 0; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["block_size"] = 1; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["blocks"] = 3; },
      [](boost::json::object& answer) { BlocksOf(answer).pop_back(); },
      [](boost::json::object& answer) { BlocksOf(answer)[0] = "hit"; },
      [](boost::json::object& answer) { BlockOf(answer, 0)["match"] = "full"; },
      [](boost::json::object& answer) { BlockOf(answer, 0)["match"] = nullptr; },
      [](boost::json::object& answer) { BlockOf(answer, 0)["reason"] = "why"; },
      [](boost::json::object& answer) { BlockOf(answer, 0).erase("reason"); },
      [](boost::json::object& answer) { BlockOf(answer, 0).erase("text"); },
      [](boost::json::object& answer) { BlockOf(answer, 0)["num_cached_tokens"] = -1; },
      [](boost::json::object& answer) { BlockOf(answer, 0)["num_cached_tokens"] = 3; },
      [](boost::json::object& answer) { BlockOf(answer, 2)["num_cached_tokens"] = 2; },
      [](boost::json::object& answer) { BlockOf(answer, 1).erase("differs_at"); },
      [](boost::json::object& answer) { BlockOf(answer, 1)["differs_at"] = 5; },
      [](boost::json::object& answer) { BlockOf(answer, 2).erase("evicted_ms_ago"); },
      [](boost::json::object& answer) { BlockOf(answer, 2)["evicted_ms_ago"] = INT64_MIN; },
      [](boost::json::object& answer) { BlockOf(answer, 2)["evicted_ms_ago"] = INT64_MAX; },
  };
  for (size_t i = 0; i < std::size(spoils); ++i) {
    boost::json::object answer = GoodAnswer();
    spoils[i](answer);
    const Result<PromptExplanation> read = ReadExplanation(answer);
    EXPECT_EQ(read.status().code(), StatusCode::kDataLoss) << "spoil " << i;
  }
}

}  // namespace
}  // namespace octavo::cli
