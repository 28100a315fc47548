// Paths and queries as clients spell them.

#include "server/target.h"

#include <gtest/gtest.h>

namespace octavo::server {
namespace {

TEST(ParseTargetTest, EscapesAreDecodedOnceInPathAndQuery) {
  HttpRequest request;
  ASSERT_TRUE(ParseTarget("/a%20b%2f%25?x=1&y=a+b%26&flag&=z", &request));
  EXPECT_EQ(request.path, "/a b/%");
  EXPECT_EQ(request.Query("x"), "1");
  EXPECT_EQ(request.Query("y"), "a b&");
  EXPECT_EQ(request.query.size(), 4u);
  EXPECT_EQ(request.Query("absent"), "");
}

TEST(ParseTargetTest, APlusInAPathIsAPlus) {
  HttpRequest request;
  ASSERT_TRUE(ParseTarget("/a+b", &request));
  EXPECT_EQ(request.path, "/a+b");
}

TEST(ParseTargetTest, TheAbsoluteFormIsItsPath) {
  for (const char* target : {"http://x:8000/a?b=c", "https://x/a?b=c"}) {
    HttpRequest request;
    ASSERT_TRUE(ParseTarget(target, &request)) << target;
    EXPECT_EQ(request.path, "/a");
    EXPECT_EQ(request.Query("b"), "c");
  }
  HttpRequest request;
  ASSERT_TRUE(ParseTarget("http://x", &request));
  EXPECT_EQ(request.path, "/");
}

TEST(ParseTargetTest, WhatIsNoAbsolutePathIsRefused) {
  for (const char* target : {"", "*", "a", "http:///a", "http://x?y", "ftp://x/", "/%", "/%4",
                             "/%zz", "/%-1", "/?a=%g1"}) {
    HttpRequest request;
    EXPECT_FALSE(ParseTarget(target, &request)) << target;
  }
}

}  // namespace
}  // namespace octavo::server
