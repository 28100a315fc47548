#include "bench/serving_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace octavo::bench {
namespace {

constexpr TokenId kFirstToken = 1000;

class LoadMaker {
 public:
  LoadMaker(const LoadOptions& options, const Trace* trace)
      : options_(options), trace_(trace), random_(options.seed) {}

  std::vector<Conversation> Make() {
    std::vector<Conversation> load;
    if (options_.dataset == Dataset::kTrace) {
      MakeFromTrace(&load);
    } else {
      MakeSynthetic(&load);
    }
    return load;
  }

 private:
  void MakeSynthetic(std::vector<Conversation>* load) {
    const bool shares = options_.dataset == Dataset::kSharedPrefix;
    const std::vector<TokenId> prefix = Tokens(shares ? options_.prefix_len : 0);
    const int32_t num_turns = options_.dataset == Dataset::kMultiTurn ? options_.num_turns : 1;
    for (int32_t left = options_.num_prompts; left > 0; left -= num_turns) {
      Conversation conversation;
      conversation.arrival_s = NextArrival();
      std::vector<TokenId> history = prefix;
      for (int32_t turn = 0; turn < std::min(num_turns, left); ++turn) {
        Append(Tokens(Length(options_.input_len)), &history);
        conversation.turns.push_back({history, Length(options_.output_len)});
        // What the server answers is its own affair: the next turn quotes other tokens.
        Append(Tokens(conversation.turns.back().num_output_tokens), &history);
      }
      load->push_back(std::move(conversation));
    }
  }

  void MakeFromTrace(std::vector<Conversation>* load) {
    std::vector<int32_t> tokens;
    for (const TraceRequest& request : trace_->requests) {
      if (static_cast<int32_t>(load->size()) == options_.num_prompts) return;
      MakeTokens(request, &tokens);
      Turn turn;
      turn.num_output_tokens = std::max(request.num_output_tokens, 1);
      auto num_tokens = static_cast<int64_t>(request.num_prompt_tokens);
      if (options_.max_model_len > 0) {
        turn.num_output_tokens = std::min(turn.num_output_tokens, options_.max_model_len / 2);
        num_tokens = std::min<int64_t>(num_tokens, options_.max_model_len - turn.num_output_tokens);
      }
      for (int64_t i = 0; i < num_tokens; ++i) {
        turn.prompt.push_back(Hashed(static_cast<uint32_t>(tokens[static_cast<size_t>(i)])));
      }
      const double arrival = options_.request_rate > 0.0
                                 ? NextArrival()
                                 : static_cast<double>(request.arrival_ms) / 1e3;
      load->push_back({arrival, {std::move(turn)}});
    }
  }

  // The time between two arrivals is gamma distributed with the mean 1 / rate.
  double NextArrival() {
    if (options_.request_rate <= 0.0) return 0.0;
    const double arrival = now_s_;
    std::gamma_distribution<double> gap(options_.burstiness,
                                        1.0 / (options_.request_rate * options_.burstiness));
    now_s_ += gap(random_);
    return arrival;
  }

  int32_t Length(int32_t mean) {
    const double spread = options_.range_ratio * mean;
    const auto low = static_cast<int32_t>(mean - spread);
    const auto high = static_cast<int32_t>(mean + spread);
    return std::max(1, std::uniform_int_distribution<int32_t>(low, high)(random_));
  }

  std::vector<TokenId> Tokens(int32_t count) {
    std::uniform_int_distribution<TokenId> ids(kFirstToken, options_.vocab_size - 1);
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    for (TokenId& id : tokens) id = ids(random_);
    return tokens;
  }

  // A trace's token as one of the vocabulary: equal ones stay equal.
  TokenId Hashed(uint32_t token) const {
    const uint32_t mixed = (token ^ (token >> 15)) * 2654435761u;
    return kFirstToken +
           static_cast<TokenId>(mixed % static_cast<uint32_t>(options_.vocab_size - kFirstToken));
  }

  static void Append(const std::vector<TokenId>& more, std::vector<TokenId>* tokens) {
    tokens->insert(tokens->end(), more.begin(), more.end());
  }

  const LoadOptions& options_;
  const Trace* trace_;
  std::mt19937_64 random_;
  double now_s_ = 0.0;
};

Status CheckRange(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be in [{}, {}]", name, value, low, high));
}

Status CheckOptions(const LoadOptions& options) {
  const Status checks[] = {
      CheckRange("--num-prompts", options.num_prompts, 1, 1e6),
      CheckRange("--random-input-len", options.input_len, 1, 1e6),
      CheckRange("--random-output-len", options.output_len, 1, 1e6),
      CheckRange("--random-range-ratio", options.range_ratio, 0.0, 0.99),
      CheckRange("--random-prefix-len", options.prefix_len, 0, 1e6),
      CheckRange("--num-turns", options.num_turns, 1, 1000),
      CheckRange("--request-rate", options.request_rate, 0.0, 1e6),
      CheckRange("--burstiness", options.burstiness, 1e-3, 1e6),
      CheckRange("--vocab-size", options.vocab_size, kFirstToken + 1, 1e9),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<Conversation>> MakeLoad(const LoadOptions& options, const Trace* trace) {
  if (Status status = CheckOptions(options); !status.ok()) return status;
  if (options.dataset == Dataset::kTrace && trace == nullptr) {
    return Status::InvalidArgument("--dataset-name trace needs --dataset-path");
  }
  return LoadMaker(options, trace).Make();
}

}  // namespace octavo::bench
