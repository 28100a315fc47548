#include "server/info_api.h"

#include <optional>
#include <string>
#include <utility>

#include "server/engine_metrics.h"
#include "server/json_writer.h"

namespace octavo::server {
namespace {

HttpResponse Json(JsonWriter& json) {
  HttpResponse response;
  response.body = json.Take();
  return response;
}

// 200 once requests are served, 503 while loading and draining.
Awaitable<void> Health(Service& service, Exchange& exchange) {
  if (const std::optional<ApiError> error = service.CheckReady()) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  JsonWriter json;
  json.BeginObject().Member("status", "ok").EndObject();
  co_await exchange.Send(Json(json));
}

Awaitable<void> Version(Service& service, Exchange& exchange) {
  JsonWriter json;
  json.BeginObject().Member("version", service.version()).EndObject();
  co_await exchange.Send(Json(json));
}

void WriteModel(const Service& service, std::string_view name, JsonWriter& json) {
  json.BeginObject()
      .Member("id", name)
      .Member("object", "model")
      .Member("created", service.created())
      .Member("owned_by", "octavo")
      .Member("root", service.model_name())
      .NullMember("parent")
      .Member("max_model_len", int64_t{service.engine()->model_info().max_model_len});
  json.Key("permission").BeginArray().EndArray();
  json.EndObject();
}

Awaitable<void> Models(Service& service, Exchange& exchange) {
  if (const std::optional<ApiError> error = service.CheckReady()) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (const std::string& name : service.model_names()) WriteModel(service, name, json);
  json.EndArray().EndObject();
  co_await exchange.Send(Json(json));
}

Awaitable<void> OneModel(Service& service, Exchange& exchange) {
  std::optional<ApiError> error = service.CheckReady();
  const std::string_view name =
      std::string_view(exchange.request().path).substr(std::string_view("/v1/models/").size());
  if (!error) error = service.CheckModel(name);
  if (error) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  JsonWriter json;
  WriteModel(service, name, json);
  co_await exchange.Send(Json(json));
}

Awaitable<void> Metrics(Service& service, Exchange& exchange) {
  std::vector<prometheus::MetricFamily> families;
  const ReportOptions& reports = service.options().reports;
  if (service.engine() != nullptr) {
    CollectEngineMetrics(service.engine()->stats(),
                         {reports.legacy_metric_names, reports.enable_block_metrics,
                          service.engine()->model_info().block_size},
                         &families);
  }
  service.metrics().Collect(reports.legacy_metric_names, &families);
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = SerializeMetrics(families, service.model_name());
  co_await exchange.Send(std::move(response));
}

// How busy it is, for routers.
Awaitable<void> Loads(Service& service, Exchange& exchange) {
  if (const std::optional<ApiError> error = service.CheckReady()) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  const EngineStats stats = service.engine()->stats();
  const int64_t block_size = service.engine()->model_info().block_size;
  const int64_t num_used = int64_t{stats.cache.num_blocks_in_use} * block_size;
  const int64_t num_total = int64_t{stats.cache.num_blocks} * block_size;
  JsonWriter json;
  json.BeginObject().Member("version", service.version()).Member("dp_rank_count", int64_t{1});
  json.Key("loads").BeginArray().BeginObject();
  json.Member("dp_rank", int64_t{0})
      .Member("num_running_reqs", int64_t{stats.num_running})
      .Member("num_waiting_reqs", int64_t{stats.num_waiting})
      .Member("num_total_reqs", int64_t{stats.num_running} + stats.num_waiting)
      .Member("num_used_tokens", num_used)
      .Member("max_total_num_tokens", num_total);
  json.Key("token_usage")
      .Double(num_total == 0 ? 0.0
                             : static_cast<double>(num_used) / static_cast<double>(num_total));
  json.Key("cache_hit_rate")
      .Double(stats.num_queried_tokens == 0 ? 0.0
                                            : static_cast<double>(stats.num_cached_tokens) /
                                                  static_cast<double>(stats.num_queried_tokens));
  json.Member("max_running_requests", int64_t{service.options().limits.max_concurrent_requests});
  json.EndObject().EndArray().EndObject();
  co_await exchange.Send(Json(json));
}

void WriteModelInfo(const ModelInfo& info, JsonWriter& json) {
  json.BeginObject()
      .Member("name", info.name)
      .Member("architecture", info.architecture)
      .Member("num_layers", int64_t{info.num_layers})
      .Member("num_heads", int64_t{info.num_heads})
      .Member("num_kv_heads", int64_t{info.num_kv_heads})
      .Member("head_dim", int64_t{info.head_dim})
      .Member("hidden_dim", int64_t{info.hidden_dim})
      .Member("vocab_size", int64_t{info.vocab_size})
      .Member("context_length", int64_t{info.context_length})
      .Member("max_model_len", int64_t{info.max_model_len})
      .Member("simd", info.simd)
      .Member("threads", int64_t{info.threads})
      .EndObject();
}

Awaitable<void> ServerInfo(Service& service, Exchange& exchange) {
  if (service.engine() == nullptr) {
    co_await exchange.Send(service.CheckReady()->Response());
    co_return;
  }
  JsonWriter json;
  json.BeginObject().Member("version", service.version()).Member("model", service.model_name());
  json.Key("model_info");
  WriteModelInfo(service.engine()->model_info(), json);
  const EngineStats stats = service.engine()->stats();
  json.Key("kv_cache")
      .BeginObject()
      .Member("block_size", int64_t{service.engine()->model_info().block_size})
      .Member("dtype", service.engine()->model_info().kv_cache_dtype)
      .Member("num_blocks", int64_t{stats.cache.num_blocks})
      .Member("num_free_blocks", int64_t{stats.cache.num_free_blocks})
      .Member("num_cached_blocks", int64_t{stats.cache.num_cached_blocks})
      .Member("num_blocks_in_use", int64_t{stats.cache.num_blocks_in_use})
      .Member("num_pinned_blocks", int64_t{stats.cache.num_pinned_blocks})
      .EndObject();
  const LimitOptions& limits = service.options().limits;
  json.Key("limits")
      .BeginObject()
      .Member("max_concurrent_requests", int64_t{limits.max_concurrent_requests})
      .Member("max_body_bytes", static_cast<int64_t>(limits.max_body_bytes))
      .EndObject();
  json.Member("num_generations", int64_t{service.num_generations()}).EndObject();
  co_await exchange.Send(Json(json));
}

// Fails while requests hold blocks, as vLLM's does.
Awaitable<void> ResetPrefixCache(Service& service, Exchange& exchange) {
  Engine* const engine = service.engine();
  if (engine == nullptr) {
    co_await exchange.Send(service.CheckReady()->Response());
    co_return;
  }
  auto reset = [engine] {
    engine->ResetPrefixCache();
    return engine->stats().cache.num_blocks_in_use == 0;
  };
  const std::optional<bool> success = co_await service.admin_questions().Put(exchange, reset);
  if (!success) co_return;
  JsonWriter json;
  json.BeginObject().Member("success", *success).EndObject();
  co_await exchange.Send(Json(json));
}

// The cache's audit, between two steps.
Awaitable<void> CheckIntegrity(Service& service, Exchange& exchange) {
  Engine* const engine = service.engine();
  if (engine == nullptr) {
    co_await exchange.Send(service.CheckReady()->Response());
    co_return;
  }
  auto audit = [engine] { return engine->CheckIntegrity(); };
  const std::optional<Status> sound = co_await service.admin_questions().Put(exchange, audit);
  if (!sound) co_return;
  if (!sound->ok()) {
    co_await exchange.Send(FromStatus(*sound).Response());
    co_return;
  }
  JsonWriter json;
  json.BeginObject().Member("success", true).EndObject();
  co_await exchange.Send(Json(json));
}

using ServiceHandler = Awaitable<void> (*)(Service&, Exchange&);

}  // namespace

void AddInfoApi(Service& service, Router& router) {
  const auto add = [&](Method method, const char* path, Guard guard, ServiceHandler handler) {
    router.Add(method, path, guard, [&service, handler](Exchange& exchange) -> Awaitable<void> {
      return handler(service, exchange);
    });
  };
  add(Method::kGet, "/health", Guard::kOpen, Health);
  add(Method::kGet, "/ready", Guard::kOpen, Health);
  add(Method::kGet, "/version", Guard::kOpen, Version);
  add(Method::kGet, "/metrics", Guard::kOpen, Metrics);
  add(Method::kGet, "/v1/models", Guard::kKey, Models);
  add(Method::kGet, "/v1/models/{model}", Guard::kKey, OneModel);
  add(Method::kGet, "/v1/loads", Guard::kKey, Loads);
  add(Method::kGet, "/server_info", Guard::kAdmin, ServerInfo);
  add(Method::kPost, "/reset_prefix_cache", Guard::kAdmin, ResetPrefixCache);
  add(Method::kPost, "/check_integrity", Guard::kAdmin, CheckIntegrity);
}

}  // namespace octavo::server
