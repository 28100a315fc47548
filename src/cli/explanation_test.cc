// A server's explanation, as the command reads it.

#include "cli/explanation.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <functional>

namespace octavo::cli {
namespace {

boost::json::object GoodAnswer() {
  return boost::json::parse(R"({"model": "m", "prompt_token_ids": [5, 6, 7, 8, 9],
      "token_strs": ["a", "b", "c", "d", "e"],
      "explanation": {"block_size": 2, "num_cached_tokens": 3, "blocks": [
        {"match": "hit", "num_cached_tokens": 2, "reason": null},
        {"match": "partial", "num_cached_tokens": 1, "reason": "tokens_differ", "differs_at": 3},
        {"match": "miss", "num_cached_tokens": 0, "reason": "evicted", "evicted_ms_ago": 1500}]}})")
      .get_object();
}

boost::json::array& BlocksOf(boost::json::object& answer) {
  return answer["explanation"].get_object()["blocks"].get_array();
}

TEST(ServerExplanationTest, ShowsAsTheTableOfAnEngine) {
  const Result<ServerExplanation> read = ReadServerExplanation(GoodAnswer());
  ASSERT_TRUE(read.ok()) << read.status().message();

  const std::string table =
      ExplanationTable(read->prompt, [&](size_t position) { return read->token_strs[position]; });

  EXPECT_NE(table.find("0              0-1      2/2  hit"), std::string::npos) << table;
  EXPECT_NE(table.find("\"ab\"\n"), std::string::npos) << table;
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
      [](boost::json::object& answer) { answer.erase("token_strs"); },
      [](boost::json::object& answer) { answer["token_strs"].get_array().pop_back(); },
      [](boost::json::object& answer) { answer["token_strs"].get_array()[0] = 1; },
      [](boost::json::object& answer) { answer["prompt_token_ids"].get_array()[0] = -1; },
      [](boost::json::object& answer) { answer["prompt_token_ids"].get_array()[0] = 1LL << 31; },
      [](boost::json::object& answer) { answer["prompt_token_ids"] = "5"; },
      [](boost::json::object& answer) { answer["explanation"] = nullptr; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["block_size"] = 0; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["block_size"] = 1; },
      [](boost::json::object& answer) { answer["explanation"].get_object()["blocks"] = 3; },
      [](boost::json::object& answer) { BlocksOf(answer).pop_back(); },
      [](boost::json::object& answer) { BlocksOf(answer)[0] = "hit"; },
      [](boost::json::object& answer) { BlocksOf(answer)[0].get_object()["match"] = "full"; },
      [](boost::json::object& answer) { BlocksOf(answer)[0].get_object()["match"] = nullptr; },
      [](boost::json::object& answer) { BlocksOf(answer)[0].get_object()["reason"] = "why"; },
      [](boost::json::object& answer) { BlocksOf(answer)[0].get_object().erase("reason"); },
      [](boost::json::object& answer) {
        BlocksOf(answer)[0].get_object()["num_cached_tokens"] = 3;
      },
      [](boost::json::object& answer) {
        BlocksOf(answer)[0].get_object()["num_cached_tokens"] = -1;
      },
  };
  for (size_t i = 0; i < std::size(spoils); ++i) {
    boost::json::object answer = GoodAnswer();
    spoils[i](answer);
    const Result<ServerExplanation> read = ReadServerExplanation(answer);
    EXPECT_EQ(read.status().code(), StatusCode::kDataLoss) << "spoil " << i;
  }
}

}  // namespace
}  // namespace octavo::cli
