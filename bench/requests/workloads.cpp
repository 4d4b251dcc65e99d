// SPDX-License-Identifier: Apache-2.0
// The generators of the built-in workloads. Each is a stream that holds only its live state.
#include "bench/requests/workloads.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests/workload_random.h"

namespace kvproof::bench {
namespace {

/// Shared by the generators: counting, and an arrival clock in whole milliseconds.
class GeneratedSource : public RequestSource {
 public:
  GeneratedSource(std::string name, std::int64_t ids_block_size, std::uint64_t seed,
                  std::int64_t num_requests)
      : random_(seed), num_requests_(std::max<std::int64_t>(num_requests, 0)) {
    info_ = {std::move(name), "workload", ids_block_size, false};
  }

  [[nodiscard]] const SourceInfo& info() const final { return info_; }
  [[nodiscard]] double fraction() const final {
    if (num_requests_ == 0) return 1;
    return static_cast<double>(num_produced_) / static_cast<double>(num_requests_);
  }

  bool next(Request& request) final {
    if (num_produced_ == num_requests_) return false;
    request.index = static_cast<std::uint64_t>(num_produced_++);
    request.block_ids.clear();
    generate(request);
    request.arrival_seconds = static_cast<double>(now_ms_ - first_ms_) / 1000.0;
    return true;
  }

 protected:
  WorkloadRandom& random() { return random_; }

  void wait_for_arrival(double arrivals_per_second) {
    now_ms_ += random_.gap_ms(arrivals_per_second);
    if (num_produced_ == 1) first_ms_ = now_ms_;
  }

 private:
  virtual void generate(Request& request) = 0;

  SourceInfo info_;
  WorkloadRandom random_;
  std::int64_t num_requests_;
  std::int64_t num_produced_ = 0;
  std::int64_t now_ms_ = 0;
  std::int64_t first_ms_ = 0;
};

/// A quarter of the tokens is output, at least one token is input.
void split_total(std::int64_t total_tokens, Request& request) {
  request.output_tokens = total_tokens / 4;
  request.input_tokens = total_tokens - request.output_tokens;
}

class LognormalSource final : public GeneratedSource {
 public:
  LognormalSource(std::uint64_t seed, std::int64_t num_requests)
      : GeneratedSource("lognormal", 0, seed, num_requests) {}

 private:
  void generate(Request& request) override {
    split_total(random().lognormal(5.1, 0.58, 34, 631), request);
  }
};

class LongTailSource final : public GeneratedSource {
 public:
  LongTailSource(std::uint64_t seed, std::int64_t num_requests)
      : GeneratedSource("long_tail", 0, seed, num_requests) {}

 private:
  static constexpr double kArrivalsPerSecond = 10;

  void generate(Request& request) override {
    wait_for_arrival(kArrivalsPerSecond);
    const std::int64_t percent = random().between(0, 99);
    const std::int64_t longest_tokens = percent < 50   ? 128
                                        : percent < 80 ? 512
                                        : percent < 95 ? 2'048
                                                       : 8'192;
    split_total(random().between(longest_tokens / 2 + 1, longest_tokens), request);
  }
};

/// Interleaved sessions. A block id is the place where its tokens were first written: which system
/// prompt or which session, and which block of it. A session owns every block that is not wholly
/// system prompt, and never rewrites one, so equal ids mean equal tokens and equal prefixes.
class ChatSource final : public GeneratedSource {
 public:
  ChatSource(std::uint64_t seed, std::int64_t num_requests)
      : GeneratedSource("chat", kIdTokens, seed, num_requests) {
    for (std::int64_t& tokens : system_tokens_) tokens = random().between(400, 600);
  }

 private:
  static constexpr std::int64_t kIdTokens = 16;
  static constexpr std::size_t kSystemPrompts = 8;
  static constexpr std::size_t kMaxLiveSessions = 64;
  static constexpr double kArrivalsPerSecond = 5;
  static constexpr double kNewSessionShare = 0.2;    // so a session has 5 turns on average
  static constexpr std::int64_t kMaxTokens = 8'192;  // prompt and answer
  static constexpr std::int64_t kMaxTurnTokens =
      1'024;  // of a message of the user, and of an answer
  // Prompt k is 1/(k+1) as popular as prompt 0; 840 divides by 1 to 8.
  static constexpr std::array<std::int64_t, kSystemPrompts> kPopularity = {840, 420, 280, 210,
                                                                           168, 140, 120, 105};

  struct Session {
    std::uint64_t number = 0;  // from 1; 0 in an id means a system prompt
    std::size_t system_prompt = 0;
    std::int64_t context_tokens = 0;  // system prompt and all turns so far, with their answers
  };

  void generate(Request& request) override {
    wait_for_arrival(kArrivalsPerSecond);
    const std::size_t which = pick_session();
    Session& session = live_[which];
    request.input_tokens = session.context_tokens + random().lognormal(3.7, 0.8, 4, kMaxTurnTokens);
    request.output_tokens = random().lognormal(5.1, 0.7, 8, kMaxTurnTokens);
    fill_ids(session, request);
    session.context_tokens = request.input_tokens + request.output_tokens;
    if (session.context_tokens + 2 * kMaxTurnTokens > kMaxTokens) end_session(which);
  }

  /// A new session, or a live one's next turn. Each new one beyond the limit ends a random one.
  std::size_t pick_session() {
    const auto random_live = [this] {
      return static_cast<std::size_t>(
          random().between(0, static_cast<std::int64_t>(live_.size()) - 1));
    };
    if (!live_.empty() && random().unit() >= kNewSessionShare) return random_live();
    if (live_.size() == kMaxLiveSessions) end_session(random_live());
    const std::size_t prompt = pick_system_prompt();
    live_.push_back({++num_sessions_, prompt, system_tokens_[prompt]});
    return live_.size() - 1;
  }

  std::size_t pick_system_prompt() {
    std::int64_t total = 0;
    for (const std::int64_t weight : kPopularity) total += weight;
    std::int64_t draw = random().between(0, total - 1);
    std::size_t prompt = 0;
    while (draw >= kPopularity[prompt]) draw -= kPopularity[prompt++];
    return prompt;
  }

  void end_session(std::size_t which) {
    live_[which] = live_.back();
    live_.pop_back();
  }

  void fill_ids(const Session& session, Request& request) const {
    const std::int64_t shared_blocks = system_tokens_[session.system_prompt] / kIdTokens;
    const std::int64_t num_blocks = request.input_tokens / kIdTokens;
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      const bool shared = block < shared_blocks;
      const std::uint64_t owner = shared ? 0 : session.number;
      const std::uint64_t place =
          static_cast<std::uint64_t>(block) + (shared ? session.system_prompt << 16 : 0);
      request.block_ids.push_back(owner << 32 | place);
    }
  }

  std::array<std::int64_t, kSystemPrompts> system_tokens_{};
  std::vector<Session> live_;
  std::uint64_t num_sessions_ = 0;
};

}  // namespace

std::unique_ptr<RequestSource> open_lognormal(std::uint64_t seed, std::int64_t num_requests) {
  return std::make_unique<LognormalSource>(seed, num_requests);
}

std::unique_ptr<RequestSource> open_chat(std::uint64_t seed, std::int64_t num_requests) {
  return std::make_unique<ChatSource>(seed, num_requests);
}

std::unique_ptr<RequestSource> open_long_tail(std::uint64_t seed, std::int64_t num_requests) {
  return std::make_unique<LongTailSource>(seed, num_requests);
}

const Workload* find_workload(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kWorkloads), std::end(kWorkloads),
                   [name](const Workload& workload) { return workload.name == name; });
  return found == std::end(kWorkloads) ? nullptr : found;
}

}  // namespace kvproof::bench
