// One question to a server: how long it may take, and how what the server says is quoted.

#include "cli/server_call.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace octavo::cli {
namespace {

// The name that nobody answers for: its look-up lasts until the test lets it go.
constexpr char kSlowName[] = "slow.example";

struct SlowLookUp {
  std::promise<void> let_go;
  std::promise<void> ended;
  std::atomic<bool> has_ended = false;
};
std::shared_ptr<SlowLookUp> slow_look_up;  // the running test's
std::atomic<bool> no_thread_starts = false;

int LookUpSlowly() {
  const std::shared_ptr<SlowLookUp> mine = slow_look_up;
  mine->let_go.get_future().wait_for(std::chrono::seconds(20));
  mine->has_ended = true;
  mine->ended.set_value();
  return EAI_AGAIN;
}

}  // namespace
}  // namespace octavo::cli

// The C library's, but for the slow name where it may be one.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  const bool is_numeric = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (!is_numeric && node != nullptr && std::strcmp(node, octavo::cli::kSlowName) == 0) {
    return octavo::cli::LookUpSlowly();
  }
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, found);
}

// The C library's, but while no thread may start.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  if (octavo::cli::no_thread_starts) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}

namespace octavo::cli {
namespace {

namespace asio = boost::asio;

// What PostJson says when a server answers a request with `status` and `body`.
Status StatusOfAnswer(const std::string& status, const std::string& body) {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::thread server([&] {
    asio::ip::tcp::socket socket = acceptor.accept();
    asio::streambuf request;
    asio::read_until(socket, request, "\r\n\r\n{}");
    const std::string answer = "HTTP/1.1 " + status +
                               "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                               body;
    asio::write(socket, asio::buffer(answer));
  });
  bench::ServingTarget target;
  target.port = std::to_string(acceptor.local_endpoint().port());
  target.timeout_s = 60;
  const Result<boost::json::object> answer = PostJson(target, {});
  server.join();
  return answer.ok() ? Status::Ok() : answer.status();
}

TEST(PostJsonTest, ANameWhoseLookUpHangsIsGivenUpWhenTheTimeIsUp) {
  const auto look_up = std::make_shared<SlowLookUp>();
  slow_look_up = look_up;
  bench::ServingTarget target;
  target.host = kSlowName;
  target.timeout_s = 0.05;

  const Result<boost::json::object> answer = PostJson(target, {});

  EXPECT_FALSE(look_up->has_ended);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer.status().message(), "no answer from slow.example:8000 within 0.05 s");

  look_up->let_go.set_value();
  look_up->ended.get_future().wait();
}

TEST(PostJsonTest, ANameThatNoThreadCanLookUpIsAnError) {
  bench::ServingTarget target;
  target.host = kSlowName;
  no_thread_starts = true;
  const Result<boost::json::object> answer = PostJson(target, {});
  no_thread_starts = false;

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(answer.status().message().find("looks up slow.example:8000"), std::string::npos)
      << answer.status().message();
}

TEST(PostJsonTest, AnAddressInFiguresNeedsNoThread) {
  bench::ServingTarget target;
  target.host = "::1";
  target.port = "1";
  no_thread_starts = true;
  const Result<boost::json::object> answer = PostJson(target, {});
  no_thread_starts = false;

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable) << answer.status().message();
}

TEST(PostJsonTest, ControlCharactersOfAServerAreEscaped) {
  const Status status = StatusOfAnswer("500 X", "\x1b[2Jgone\r\n\xff");

  EXPECT_NE(status.message().find(R"(answers 500: "\x1b[2Jgone\x0d\n\xff")"), std::string::npos)
      << status.message();
}

TEST(PostJsonTest, AMessageOfAServerIsEscapedToo) {
  const Status status =
      StatusOfAnswer("400 X", R"({"error": {"message": "no\u0000\u001b]0;title\u0007"}})");

  EXPECT_NE(status.message().find(R"(answers 400: "no\x00\x1b]0;title\x07")"), std::string::npos)
      << status.message();
}

TEST(PostJsonTest, LongAnswersAreCutBetweenTwoCharacters) {
  std::string body = "x";
  for (int i = 0; i < 1000; ++i) body += "\xe2\x82\xac";  // a euro sign each

  for (const char* status : {"200 OK", "404 X"}) {
    const std::string message = StatusOfAnswer(status, body).message();
    const size_t quote = message.find("\"x\xe2\x82\xac");
    ASSERT_NE(quote, std::string::npos) << message;
    const size_t end = message.find("...\"", quote);
    ASSERT_NE(end, std::string::npos) << message;
    EXPECT_EQ((end - quote - 2) % 3, 0U) << message;
  }
}

TEST(PostJsonTest, AnObjectIsHandedOn) { EXPECT_TRUE(StatusOfAnswer("200 OK", "{}").ok()); }

}  // namespace
}  // namespace octavo::cli
