#pragma once

// Purpose:    what all handlers share: the engine once it is there, the options, the workers, and
//             who is being served.
// Ownership:  owns the engine and the workers; the handlers borrow it.
// Threading:  the I/O thread, but for what is const.
// Invariants: generations begin only in kReady; num_generations counts those that have not ended.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/api_error.h"
#include "server/awaitable.h"
#include "server/question_line.h"
#include "server/request_metrics.h"
#include "server/server_options.h"

namespace octavo::server {

enum class Phase { kLoading, kReady, kDraining };

class Service {
 public:
  Service(const ServerOptions& options, std::string version);
  ~Service() { FinishWorkers(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const ServerOptions& options() const { return options_; }
  const std::string& version() const { return version_; }
  Workers& workers() { return workers_; }
  // For requests whose grammar must be compiled, which may take seconds: the others do not wait.
  Workers& compile_workers() { return compile_workers_; }
  // What clients ask the engine between two steps, and what administrators do, beside them.
  QuestionLine& client_questions() { return client_questions_; }
  QuestionLine& admin_questions() { return admin_questions_; }
  // Waits for what they all do; none of them begins anything while another still works.
  void FinishWorkers();
  RequestMetrics& metrics() { return metrics_; }

  Phase phase() const { return phase_; }
  // From kLoading to kReady.
  void SetEngine(std::unique_ptr<Engine> engine);
  void BeginDrain() { phase_ = Phase::kDraining; }
  // Null while loading.
  Engine* engine() const { return engine_.get(); }

  // The name that stands in answers.
  const std::string& model_name() const { return model_names_.front(); }
  const std::vector<std::string>& model_names() const { return model_names_; }
  int64_t created() const { return created_; }  // seconds since 1970

  // Why no generation can begin now, if so.
  std::optional<ApiError> CheckReady() const;
  // The model's name as a request gives it; empty = any.
  std::optional<ApiError> CheckModel(std::string_view name) const;

  uint32_t num_generations() const { return num_generations_; }
  // Called on the I/O thread when the last generation has ended.
  void set_on_quiet(std::function<void()> on_quiet) { on_quiet_ = std::move(on_quiet); }

  // A place among the generations that run at once; given back by destruction.
  class Place {
   public:
    explicit Place(Service* service) : service_(service) {}
    Place(Place&& other) noexcept : service_(std::exchange(other.service_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    Service* service_;
  };
  // An error (429, 503) when there is none.
  ApiResult<Place> TakePlace();

 private:
  const ServerOptions options_;
  const std::string version_;
  const int64_t created_;
  Workers workers_;
  Workers compile_workers_;
  QuestionLine client_questions_;
  QuestionLine admin_questions_;
  RequestMetrics metrics_;
  Phase phase_ = Phase::kLoading;
  std::unique_ptr<Engine> engine_;
  std::vector<std::string> model_names_;
  uint32_t num_generations_ = 0;
  std::function<void()> on_quiet_;
};

}  // namespace octavo::server
