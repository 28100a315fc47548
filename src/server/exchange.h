#pragma once

// Purpose:    one request of a client and the way back to it, as the handlers use it.
// Ownership:  made by the connection for one handler call.
// Threading:  the I/O thread.
// Invariants: exactly one of Send and BeginStream is called; every call returns false once the
//             client is gone or too slow, and then nothing more is sent.

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/awaitable.h"
#include "server/body_budget.h"
#include "server/http_message.h"

namespace octavo::server {

class Exchange {
 public:
  Exchange(HttpRequest request, std::optional<BodyLease> body_lease)
      : request_(std::move(request)), body_lease_(std::move(body_lease)) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  // Gives the memory of the body back, and what it took of the budget of all.
  void ReleaseBody() {
    std::string().swap(request_.body);
    body_lease_.reset();
  }

  virtual asio::any_io_executor executor() = 0;

  // Sends a whole answer.
  virtual Awaitable<bool> Send(HttpResponse response) = 0;
  // Sends an answer in pieces, as they come: the head, the pieces, the end.
  virtual Awaitable<bool> BeginStream(HttpResponse head) = 0;
  virtual Awaitable<bool> Write(std::string_view piece) = 0;
  virtual Awaitable<bool> EndStream() = 0;

  // From now until the answer is sent, `on_gone` is called once if the client leaves. Half-closed
  // connections stay.
  virtual void WatchClient(std::function<void()> on_gone) = 0;

  // What the access log says about the request beside its head.
  struct Account {
    int status = 0;
    int64_t num_prompt_tokens = 0;
    int64_t num_cached_tokens = 0;
    int64_t num_generation_tokens = 0;
  };
  Account& account() { return account_; }
  const Account& account() const { return account_; }
  // Which of the API keys came with the request; empty = none is needed.
  std::string_view key_salt() const { return key_salt_; }
  void set_key_salt(std::string salt) { key_salt_ = std::move(salt); }

 private:
  HttpRequest request_;
  std::optional<BodyLease> body_lease_;
  Account account_;
  std::string key_salt_;
};

}  // namespace octavo::server
