// Command lines that cannot be used: the message names the word, and what there is instead.

#include "cli/usage_errors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace octavo::cli {
namespace {

class UsageErrorsTest : public ::testing::Test {
 protected:
  UsageErrorsTest() {
    app_.require_subcommand(1);
    CLI::App* bench = app_.add_subcommand("bench");
    bench->require_subcommand(1);
    CLI::App* cache = bench->add_subcommand("cache");
    bench->add_subcommand("latency");
    cache->add_option("--max-model-len", number_);
  }

  std::string ErrorOf(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return DescribeParseError(app_, error);
    }
    return {};
  }

  CLI::App app_{"", "octavo"};
  int number_ = 0;
};

TEST_F(UsageErrorsTest, AWordThatIsNoCommandIsNamedWithThoseThatThereAre) {
  EXPECT_EQ(ErrorOf({"bench", "foo"}), "'foo' is not a command; there are cache, latency");
  EXPECT_EQ(ProgramName(app_), "octavo bench");
}

TEST_F(UsageErrorsTest, AnOptionThatDoesNotExistIsNamedWithTheOneThatWasMeant) {
  EXPECT_EQ(ErrorOf({"bench", "cache", "--maxmodellen", "3"}),
            "'--maxmodellen' is not an option; did you mean --max-model-len?");
  EXPECT_EQ(ErrorOf({"bench", "cache", "--fly=3"}), "'--fly' is not an option");
  EXPECT_EQ(ErrorOf({"bench", "cache", "3"}), "'3' was not expected");
  EXPECT_EQ(ErrorOf({"--fly"}), "'--fly' is not an option");
}

TEST_F(UsageErrorsTest, WhatIsWrongWithAValueIsSaidByTheLibraryOfCli11) {
  EXPECT_NE(ErrorOf({"bench", "cache", "--max-model-len", "x"}).find("--max-model-len"),
            std::string::npos);
}

TEST_F(UsageErrorsTest, AFieldOfTheLibraryBecomesTheOptionIfThereIsOne) {
  EXPECT_EQ(ErrorOf({"bench", "cache"}), "");
  const CLI::App& cache = DeepestCommand(app_);
  EXPECT_EQ(WithOptionName(cache, "max_model_len is 0, but must be at least 1"),
            "--max-model-len is 0, but must be at least 1");
  EXPECT_EQ(WithOptionName(cache, "block_size is 17"), "block_size is 17");
  EXPECT_EQ(WithOptionName(cache, "the prompt is empty"), "the prompt is empty");
}

}  // namespace
}  // namespace octavo::cli
