#include "bench/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace octavo::bench {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxTimestampMs = int64_t{1} << 53;
constexpr int64_t kMaxLength = int64_t{1} << 24;  // tokens of one prompt or output
constexpr int64_t kMaxHashId = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxShownBytes = 40;
// Every token of a trace has its own 31-bit number.
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

std::string Shown(const json::value& value) {
  std::string text = json::serialize(value);
  if (text.size() > kMaxShownBytes) text = text.substr(0, kMaxShownBytes) + "...";
  return text;
}

// Reads one line into a request and the ids of its blocks.
class LineParser {
 public:
  LineParser(std::string_view name, size_t line) : name_(name), line_(line) {}

  Status Parse(std::string_view text, TraceRequest* request, std::vector<int64_t>* hash_ids) const {
    if (text.size() > kMaxTraceLineBytes) {
      return Bad(fmt::format("is {} bytes long, limit {}", text.size(), kMaxTraceLineBytes));
    }
    boost::system::error_code error;
    const json::value value = json::parse(text, error);
    if (error) return Bad("is not JSON: " + error.message());
    if (!value.is_object()) return Bad("is not a JSON object");
    const json::object& object = value.get_object();

    int64_t num_prompt_tokens = 0, num_output_tokens = 0;
    if (Status status = Read(object, "timestamp", 0, kMaxTimestampMs, &request->arrival_ms);
        !status.ok()) {
      return status;
    }
    if (Status status = Read(object, "input_length", 1, kMaxLength, &num_prompt_tokens);
        !status.ok()) {
      return status;
    }
    if (Status status = Read(object, "output_length", 0, kMaxLength, &num_output_tokens);
        !status.ok()) {
      return status;
    }
    request->num_prompt_tokens = static_cast<int32_t>(num_prompt_tokens);
    request->num_output_tokens = static_cast<int32_t>(num_output_tokens);
    return ReadHashIds(object, num_prompt_tokens, hash_ids);
  }

  Status Bad(const std::string& what) const {
    return Status::DataLoss(fmt::format("{}: line {} {}", name_, line_, what));
  }

 private:
  Status CheckWhole(std::string_view field, const json::value& value, int64_t least,
                    int64_t most) const {
    const bool is_whole =
        value.is_int64() && value.get_int64() >= least && value.get_int64() <= most;
    if (is_whole) return Status::Ok();
    return Bad(fmt::format("has {} in {}, but it must be a whole number from {} to {}",
                           Shown(value), field, least, most));
  }

  Status Read(const json::object& object, std::string_view field, int64_t least, int64_t most,
              int64_t* target) const {
    const json::value* value = object.if_contains(field);
    if (value == nullptr) return Bad(fmt::format("has no {}", field));
    if (Status status = CheckWhole(field, *value, least, most); !status.ok()) return status;
    *target = value->get_int64();
    return Status::Ok();
  }

  Status ReadHashIds(const json::object& object, int64_t num_prompt_tokens,
                     std::vector<int64_t>* hash_ids) const {
    const json::value* value = object.if_contains("hash_ids");
    if (value == nullptr) return Bad("has no hash_ids");
    if (!value->is_array()) return Bad("has no array in hash_ids, but " + Shown(*value));
    const json::array& array = value->get_array();
    const auto num_blocks =
        static_cast<size_t>((num_prompt_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens);
    if (array.size() != num_blocks) {
      return Bad(fmt::format("has {} hash_ids, but an input_length of {} has {} blocks of {}",
                             array.size(), num_prompt_tokens, num_blocks, kTraceBlockTokens));
    }
    for (const json::value& id : array) {
      if (Status status = CheckWhole("hash_ids", id, 0, kMaxHashId); !status.ok()) return status;
      hash_ids->push_back(id.get_int64());
    }
    return Status::Ok();
  }

  std::string_view name_;
  size_t line_;
};

// Gives each request the numbers of its contents: the ranks of its ids among all ids. `hash_ids`
// are those of all requests, one after the other.
Status NumberContents(std::string_view name, const std::vector<int64_t>& hash_ids, Trace* trace) {
  std::vector<int64_t> distinct = hash_ids;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto num_contents = static_cast<int64_t>(distinct.size());
  if (num_contents * kTraceBlockTokens + trace->num_output_tokens > kMaxTokens) {
    return Status::DataLoss(
        fmt::format("{}: {} different hash_ids of {} tokens and {} output tokens, limit {} tokens",
                    name, num_contents, kTraceBlockTokens, trace->num_output_tokens, kMaxTokens));
  }
  trace->num_contents = static_cast<int32_t>(num_contents);
  size_t next = 0;
  int32_t next_output = trace->num_contents * kTraceBlockTokens;
  for (TraceRequest& request : trace->requests) {
    for (int32_t& content : request.content) {
      const auto found = std::lower_bound(distinct.begin(), distinct.end(), hash_ids[next++]);
      content = static_cast<int32_t>(found - distinct.begin());
    }
    request.first_output_token = next_output;
    next_output += request.num_output_tokens;
  }
  return Status::Ok();
}

}  // namespace

Result<Trace> ParseTrace(std::string_view name, std::string_view text) {
  Trace trace;
  std::vector<int64_t> hash_ids;  // of all requests
  size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;

    TraceRequest request;
    const size_t num_ids_before = hash_ids.size();
    const LineParser parser(name, line_number);
    if (Status status = parser.Parse(line, &request, &hash_ids); !status.ok()) return status;
    request.content.resize(hash_ids.size() - num_ids_before);
    trace.num_prompt_tokens += request.num_prompt_tokens;
    trace.num_output_tokens += request.num_output_tokens;
    trace.max_request_tokens = std::max(trace.max_request_tokens, request.num_tokens());
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty()) {
    return Status::DataLoss(fmt::format("{}: the trace has no request", name));
  }
  if (Status status = NumberContents(name, hash_ids, &trace); !status.ok()) return status;
  std::stable_sort(
      trace.requests.begin(), trace.requests.end(),
      [](const TraceRequest& a, const TraceRequest& b) { return a.arrival_ms < b.arrival_ms; });
  return trace;
}

void MakeTokens(const TraceRequest& request, std::vector<int32_t>* tokens) {
  tokens->clear();
  tokens->reserve(static_cast<size_t>(request.num_tokens()));
  int32_t num_left = request.num_prompt_tokens;
  for (const int32_t content : request.content) {
    const int32_t first = content * kTraceBlockTokens;
    const int32_t count = std::min(num_left, kTraceBlockTokens);
    for (int32_t i = 0; i < count; ++i) tokens->push_back(first + i);
    num_left -= count;
  }
  for (int32_t i = 0; i < request.num_output_tokens; ++i) {
    tokens->push_back(request.first_output_token + i);
  }
}

}  // namespace octavo::bench
