#include "server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <optional>
#include <utility>

#include "server/access.h"
#include "server/listener.h"
#include "server/router.h"
#include "server/routes.h"
#include "server/service.h"

namespace octavo::server {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr uint32_t kMostConnections = 16'384;
constexpr rlim_t kOtherDescriptors = 64;  // the model, logs, the event loop

// Raises the limit on open files as far as it goes, and says how many connections that allows.
uint32_t ConnectionsAllowed(uint32_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  const rlim_t most = wanted == 0 ? kMostConnections : wanted;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, most + kOtherDescriptors);
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t left = limit.rlim_cur > 2 * kOtherDescriptors ? limit.rlim_cur - kOtherDescriptors
                                                             : kOtherDescriptors;
  return static_cast<uint32_t>(std::min(most, left));
}

class ServerImpl : public Server {
 public:
  ServerImpl(const ServerOptions& options, std::string version, ServerLog& log)
      : log_(log),
        service_(options, std::move(version)),
        access_(options.access),
        router_(access_),
        body_budget_(service_.options().limits.max_buffered_body_bytes),
        context_{service_.options().limits,
                 access_,
                 body_budget_,
                 [this](const HttpRequest& request) { return router_.CheckHead(request); },
                 [this](Exchange& exchange) { return router_.Dispatch(exchange); },
                 [this](const Exchange& exchange, double s) { log_.Request(exchange, s); },
                 [this] { return service_.phase() != Phase::kDraining; },
                 [this](std::string_view message) { log_.Warn(message); }},
        signals_(io_, SIGINT, SIGTERM),
        drain_timer_(io_) {
    AddRoutes(service_, router_);
  }

  ~ServerImpl() override {
    service_.set_on_quiet(nullptr);
    if (!listener_) return;
    listener_->Stop();
    listener_->CloseAll();
    service_.FinishWorkers();
    // Every connection ends now: its socket is closed, and nothing that it waits for is left out.
    io_.restart();
    while (listener_->num_connections() > 0) io_.run_for(std::chrono::milliseconds(10));
  }

  Status Listen() {
    const AccessOptions& access = service_.options().access;
    if (Status status = LoadTls(access); !status.ok()) return status;
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(access.host, fmt::format("{}", access.port),
                                        tcp::resolver::passive, error);
    if (error || found.empty()) {
      return Status::InvalidArgument(
          fmt::format("--host {}: cannot be resolved: {}", access.host, error.message()));
    }
    tcp::acceptor acceptor(io_);
    const tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return Status::Unavailable(
          fmt::format("cannot listen on {}:{}: {}", access.host, access.port, error.message()));
    }
    listener_.emplace(std::move(acceptor), tls_ ? &*tls_ : nullptr,
                      ConnectionsAllowed(service_.options().limits.max_connections), context_);
    listener_->Start();
    return Status::Ok();
  }

  void Run() override {
    AwaitSignal();
    io_.run();
    log_.Info("stopped");
  }

  void SetEngine(std::unique_ptr<Engine> engine) override {
    asio::post(io_, [this, loaded = std::move(engine)]() mutable {
      service_.SetEngine(std::move(loaded));
      const ModelInfo& info = service_.engine()->model_info();
      log_.Info(fmt::format("ready: {} on port {}; {} threads, {}, {} tokens of context",
                            service_.model_name(), port(), info.threads, info.simd,
                            info.max_model_len));
    });
  }

  void BeginDrain() override {
    asio::post(io_, [this] { Drain(); });
  }

  uint16_t port() const override { return listener_->port(); }

 private:
  Status LoadTls(const AccessOptions& access) {
    if (access.tls_certificate_file.empty() && access.tls_key_file.empty()) return Status::Ok();
    if (access.tls_certificate_file.empty() || access.tls_key_file.empty()) {
      return Status::InvalidArgument("--ssl-certfile and --ssl-keyfile go together");
    }
    tls_.emplace(asio::ssl::context::tls_server);
    error_code error;
    tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv3 |
                          asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1,
                      error);
    tls_->use_certificate_chain_file(access.tls_certificate_file, error);
    if (error) {
      return Status::InvalidArgument(
          fmt::format("--ssl-certfile {}: {}", access.tls_certificate_file, error.message()));
    }
    tls_->use_private_key_file(access.tls_key_file, asio::ssl::context::pem, error);
    if (error) {
      return Status::InvalidArgument(
          fmt::format("--ssl-keyfile {}: {}", access.tls_key_file, error.message()));
    }
    return Status::Ok();
  }

  void AwaitSignal() {
    signals_.async_wait([this](error_code error, int number) {
      if (error) return;
      if (service_.phase() == Phase::kDraining) {
        log_.Warn(fmt::format("signal {} again: cutting off {} requests", number,
                              service_.num_generations()));
        CutOff();
        return AwaitSignal();
      }
      log_.Info(fmt::format("signal {}: draining {} requests", number, service_.num_generations()));
      Drain();
      AwaitSignal();
    });
  }

  // Health answers 503 from now on, and so does every new request; those that run are finished.
  void Drain() {
    if (service_.phase() == Phase::kDraining) return;
    service_.BeginDrain();
    listener_->CloseIdle();
    service_.set_on_quiet([this] { asio::post(io_, [this] { EndIfQuiet(); }); });
    drain_timer_.expires_after(service_.options().limits.drain_timeout);
    drain_timer_.async_wait([this](error_code error) {
      if (error) return;
      log_.Warn(fmt::format("draining took too long: cutting off {} requests",
                            service_.num_generations()));
      CutOff();
    });
    EndIfQuiet();
  }

  // Ends every request; what they have so far is delivered.
  void CutOff() {
    if (service_.engine() != nullptr) service_.engine()->Abort();
    drain_timer_.expires_after(std::chrono::seconds(2));
    drain_timer_.async_wait([this](error_code error) {
      if (!error) io_.stop();
    });
  }

  void EndIfQuiet() {
    if (service_.num_generations() > 0) return;
    listener_->Stop();
    listener_->CloseIdle();
    signals_.cancel();
    // What was just answered is still being sent.
    drain_timer_.expires_after(std::chrono::milliseconds(200));
    drain_timer_.async_wait([this](error_code) {
      listener_->CloseAll();
      io_.stop();
    });
  }

  ServerLog& log_;
  // What the connections' coroutines use stands before the loop, which ends them.
  Service service_;
  Access access_;
  Router router_;
  BodyBudget body_budget_;
  ConnectionContext context_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  asio::steady_timer drain_timer_;
  std::optional<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(const ServerOptions& options, std::string version,
                                               ServerLog& log) {
  auto server = std::make_unique<ServerImpl>(options, std::move(version), log);
  if (Status status = server->Listen(); !status.ok()) return status;
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace octavo::server
