#include "base/self_process.h"

#include <gtest/gtest.h>

namespace octavo::base {
namespace {

TEST(SelfProcessTest, WhatAProgramWritesIsReturned) {
  const Result<std::string> output = RunProgram("/bin/sh", {"sh", "-c", "printf 'a\\nb'"});

  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_EQ(*output, "a\nb");
}

TEST(SelfProcessTest, AProgramThatFailsIsAnErrorWithItsExitCode) {
  const Result<std::string> output = RunProgram("/bin/sh", {"sh", "-c", "exit 3"});

  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.status().message(), "/bin/sh: ended with exit code 3");
}

TEST(SelfProcessTest, AProgramThatIsKilledIsAnErrorWithItsSignal) {
  const Result<std::string> output = RunProgram("/bin/sh", {"sh", "-c", "kill -9 $$"});

  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.status().message(), "/bin/sh: ended with signal 9");
}

TEST(SelfProcessTest, AProgramThatIsNotThereIsAnErrorWithItsName) {
  const Result<std::string> output = RunProgram("/nowhere/program", {"program"});

  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.status().message(),
            "/nowhere/program: cannot start it: No such file or directory");
}

}  // namespace
}  // namespace octavo::base
