#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace octavo::base {
namespace {

// Sets a variable (or unsets it, given null) for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name), saved_(ReadEnvironment(name)) {
    Set(value);
  }
  ~ScopedVariable() { Set(saved_ ? saved_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Set(const char* value) { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }

  const char* name_;
  std::optional<std::string> saved_;
};

TEST(EnvironmentTest, AnEmptyVariableIsAbsent) {
  const ScopedVariable variable("OCTAVO_TEST_VARIABLE", "");
  EXPECT_EQ(ReadEnvironment("OCTAVO_TEST_VARIABLE"), std::nullopt);

  const ScopedVariable set("OCTAVO_TEST_VARIABLE", "x");
  EXPECT_EQ(ReadEnvironment("OCTAVO_TEST_VARIABLE"), "x");
}

TEST(EnvironmentTest, CacheHomeGoesBeforeHome) {
  const ScopedVariable home("HOME", "/home/ann");
  const ScopedVariable cache("XDG_CACHE_HOME", "/var/ann");

  EXPECT_EQ(CacheDirectory(), "/var/ann/octavo");
}

TEST(EnvironmentTest, ARelativeCacheHomeIsIgnored) {
  const ScopedVariable home("HOME", "/home/ann");
  const ScopedVariable cache("XDG_CACHE_HOME", "cache");

  EXPECT_EQ(CacheDirectory(), "/home/ann/.cache/octavo");
}

TEST(EnvironmentTest, WithoutAnyHomeThereIsNoCacheDirectory) {
  const ScopedVariable home("HOME", nullptr);
  const ScopedVariable cache("XDG_CACHE_HOME", nullptr);

  EXPECT_EQ(CacheDirectory(), std::nullopt);
}

}  // namespace
}  // namespace octavo::base
