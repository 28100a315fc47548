// How a server's address is read.

#include "bench/serving_client.h"

#include <gtest/gtest.h>

namespace octavo::bench {
namespace {

TEST(ParseBaseUrlTest, AHostAPortAndAnEndInV1AreRead) {
  struct Case {
    const char* url;
    const char* host;
    const char* port;
    const char* header;
  };
  for (const Case& c :
       {Case{"http://127.0.0.1:8000", "127.0.0.1", "8000", "127.0.0.1:8000"},
        Case{"http://localhost", "localhost", "80", "localhost:80"},
        Case{"http://localhost/", "localhost", "80", "localhost:80"},
        Case{"http://a.example:65535/v1", "a.example", "65535", "a.example:65535"},
        Case{"http://[::1]:80/v1/", "::1", "80", "[::1]:80"},
        Case{"http://[fe80::1]", "fe80::1", "80", "[fe80::1]:80"},
        Case{"http://[fe80::1%eth0]:8000", "fe80::1%eth0", "8000", "[fe80::1]:8000"},
        Case{"http://[fe80::1%25eth0]:8000", "fe80::1%eth0", "8000", "[fe80::1]:8000"},
        Case{"http://[fe80::1%25]:8000", "fe80::1%25", "8000", "[fe80::1]:8000"},
        Case{"http://[::ffff:10.0.0.1]", "::ffff:10.0.0.1", "80", "[::ffff:10.0.0.1]:80"},
        Case{"HTTP://my_host-1.Example", "my_host-1.Example", "80", "my_host-1.Example:80"}}) {
    const Result<ServingTarget> target = ParseBaseUrl(c.url);
    ASSERT_TRUE(target.ok()) << c.url << ": " << target.status().message();
    EXPECT_EQ(target->host, c.host);
    EXPECT_EQ(target->port, c.port);
    EXPECT_EQ(HostHeader(*target), c.header);
  }
}

TEST(ParseBaseUrlTest, WhatWouldReachAnotherPlaceIsRefused) {
  for (const char* url : {"",
                          "localhost:8000",
                          "https://localhost:8000",
                          "http://",
                          "http://:8000",
                          "http:///v1",
                          "http://localhost:",
                          "http://localhost:0",
                          "http://localhost:65536",
                          "http://localhost:109599",
                          "http://localhost: 80",
                          "http://localhost:80x",
                          "http://localhost:-1",
                          "http://localhost:80:80",
                          "http://::1",
                          "http://[::1",
                          "http://[]",
                          "http://[::1]80",
                          "http://local host",
                          "http://user@localhost",
                          "http://localhost?",
                          "http://localhost?x=:80",
                          "http://localhost#top",
                          "http://localhost\\v1",
                          "http://localhost]",
                          "http://::1]:80",
                          "http://local[host",
                          "http://localhost%20",
                          "http://[localhost]",
                          "http://[127.0.0.1]:80",
                          "http://[::1 ]",
                          "http://[[::1]]",
                          "http://[::1%]",
                          "http://[::1%lo?]",
                          "http:/localhost",
                          "http://localhost/prefix",
                          "http://localhost:80/v2",
                          "http://localhost:80/v1/completions"}) {
    const Result<ServingTarget> target = ParseBaseUrl(url);
    EXPECT_FALSE(target.ok()) << url;
    if (url[0] != '\0') {
      EXPECT_NE(target.status().message().find(url), std::string::npos) << url;
    }
  }
}

}  // namespace
}  // namespace octavo::bench
