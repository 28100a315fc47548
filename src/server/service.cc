#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "text/utf8.h"

namespace octavo::server {
namespace {

constexpr size_t kNumCompileWorkers = 2;
// So many are answered after one step, and so many wait.
constexpr size_t kNumClientTurns = 4;
constexpr size_t kNumAdminTurns = 2;
constexpr size_t kMaxQuestions = 16;

}  // namespace

Service::Service(const ServerOptions& options, std::string version)
    : options_(options),
      version_(std::move(version)),
      created_(static_cast<int64_t>(std::time(nullptr))),
      workers_(options.num_workers),
      compile_workers_(kNumCompileWorkers),
      client_questions_(kNumClientTurns, kMaxQuestions, "prompts wait to be explained"),
      admin_questions_(kNumAdminTurns, kMaxQuestions, "questions of administrators wait"),
      model_names_(options.reports.served_model_names) {
  if (model_names_.empty()) model_names_.emplace_back();
}

void Service::FinishWorkers() {
  Workers* const all[] = {&workers_, &compile_workers_, &client_questions_.workers(),
                          &admin_questions_.workers()};
  for (Workers* workers : all) workers->BeginFinish();
  for (Workers* workers : all) workers->Finish();
}

void Service::SetEngine(std::unique_ptr<Engine> engine) {
  engine_ = std::move(engine);
  if (options_.reports.served_model_names.empty()) {
    model_names_ = {text::ReplaceInvalidUtf8(engine_->model_info().name)};
  }
  if (phase_ == Phase::kLoading) phase_ = Phase::kReady;
}

std::optional<ApiError> Service::CheckReady() const {
  if (phase_ == Phase::kReady) return std::nullopt;
  ApiError error;
  error.status = 503;
  error.code = phase_ == Phase::kLoading ? "loading" : "shutting_down";
  error.message =
      phase_ == Phase::kLoading ? "the model is still being loaded" : "the server is shutting down";
  return error;
}

std::optional<ApiError> Service::CheckModel(std::string_view name) const {
  if (name.empty() || std::ranges::find(model_names_, name) != model_names_.end()) {
    return std::nullopt;
  }
  ApiError error = NotFound("model_not_found",
                            fmt::format("there is no model '{}' here; this server serves '{}'",
                                        name.substr(0, 200), model_name()));
  error.param = "model";
  return error;
}

ApiResult<Service::Place> Service::TakePlace() {
  if (std::optional<ApiError> error = CheckReady()) return *std::move(error);
  const uint32_t limit = options_.limits.max_concurrent_requests;
  if (num_generations_ >= limit) {
    return TooManyRequests(fmt::format(
        "{} requests are being served, which is the most; try again later", num_generations_));
  }
  ++num_generations_;
  return Place(this);
}

Service::Place::~Place() {
  if (service_ == nullptr) return;
  if (--service_->num_generations_ == 0 && service_->on_quiet_) service_->on_quiet_();
}

}  // namespace octavo::server
