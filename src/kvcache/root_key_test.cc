#include "octavo/kvcache/root_key.h"

#include <gtest/gtest.h>

#include <string>

namespace octavo::kvcache {
namespace {

TEST(RootKeyTest, AFieldIsTagLengthAndValue) {
  RootKey key;
  key.Add(RootField::kSalt, "ab").Add(RootField::kWindow, 0x102);

  using namespace std::string_literals;
  EXPECT_EQ(key.bytes(),
            "\x07\x02\0\0\0\0\0\0\0ab"s + "\x05\x08\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0"s);
}

TEST(RootKeyTest, AnAdapterIsNoSaltOfTheSameName) {
  RootKey adapter;
  adapter.Add(RootField::kAdapter, "x");
  RootKey salt;
  salt.Add(RootField::kSalt, "x");

  EXPECT_NE(adapter.bytes(), salt.bytes());
}

TEST(RootKeyTest, WhereOneFieldEndsAndTheNextBeginsIsPartOfTheIdentity) {
  RootKey one;
  one.Add(RootField::kModel, "ab").Add(RootField::kModel, "c");
  RootKey other;
  other.Add(RootField::kModel, "a").Add(RootField::kModel, "bc");
  RootKey forged;  // a value that looks like the second field
  forged.Add(RootField::kModel, std::string("ab\x01\x01\0\0\0\0\0\0\0c", 12));

  EXPECT_NE(one.bytes(), other.bytes());
  EXPECT_NE(one.bytes(), forged.bytes());
}

TEST(RootKeyTest, AnEmptyFieldIsNotAnAbsentOne) {
  RootKey empty;
  empty.Add(RootField::kSalt, "");

  EXPECT_NE(empty.bytes(), RootKey().bytes());
}

}  // namespace
}  // namespace octavo::kvcache
