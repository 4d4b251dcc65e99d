// SPDX-License-Identifier: Apache-2.0
// Plays requests tick by tick.
#include "bench/studies/play.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include "bench/requests/tokens.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

void require_room(bool granted) {
  if (!granted) throw std::logic_error("a memory refused a request that it was sized for");
}

std::int64_t arrival_tick(const Request& request) {
  // Times are whole milliseconds or finer; the small amount makes up for the division by 1000.
  return static_cast<std::int64_t>(std::ceil(request.arrival_seconds * 1000.0 / kTickMs - 1e-6));
}

class Player {
 public:
  Player(const ReopenableSource& source, const PlayPlan& plan, KvMemory& memory)
      : stream_(source.open()), plan_(plan), memory_(memory) {
    read_next();
  }

  void tick(std::int64_t now) {
    std::erase_if(live_, [this](PlayedRequest& request) {
      if (!request.complete()) return false;
      request.end();
      live_tokens_ -= request.tokens();
      return true;
    });
    for (PlayedRequest& request : live_) request.grow();
    live_tokens_ += live_.size();
    for (; has_next_ && arrival_tick(next_) <= now; read_next()) start_next();
  }

  [[nodiscard]] MemoryUse use() const {
    const MemoryUse use = memory_.use();
    if (use.known != live_tokens_) {
      throw std::logic_error("a memory holds " + std::to_string(use.known) +
                             " tokens where its requests have " + std::to_string(live_tokens_));
    }
    return use;
  }

 private:
  void read_next() {
    has_next_ = num_read_ < plan_.num_read && stream_->next(next_);
    ++num_read_;
  }

  void start_next() {
    if (next_.input_tokens == 0) return;
    fill_tokens(next_, stream_->info(), prompt_);
    const auto final_tokens = static_cast<std::uint32_t>(next_.input_tokens + next_.output_tokens);
    live_.emplace_back(memory_, prompt_, final_tokens);
    live_tokens_ += prompt_.size();
  }

  std::unique_ptr<RequestSource> stream_;
  const PlayPlan& plan_;
  KvMemory& memory_;
  std::uint64_t num_read_ = 0;
  Request next_;
  bool has_next_ = false;
  std::vector<TokenId> prompt_;
  std::vector<PlayedRequest> live_;  // in order of arrival
  std::uint64_t live_tokens_ = 0;
};

/// Requests and tokens that are alive, as differences by tick.
class Presence {
 public:
  void add(std::int64_t from, std::int64_t until, std::int64_t tokens) {
    changes_[from].requests += 1;
    changes_[from].tokens += tokens;
    changes_[until].requests -= 1;
    changes_[until].tokens -= tokens;
  }

  /// Fills in the peaks and the end of the plan.
  void conclude(PlayPlan& plan) const {
    Change now;
    for (const auto& [tick, change] : changes_) {
      now.requests += change.requests;
      now.tokens += change.tokens;
      plan.peak_requests = std::max(plan.peak_requests, static_cast<std::uint32_t>(now.requests));
      plan.peak_tokens = std::max(plan.peak_tokens, static_cast<std::uint64_t>(now.tokens));
      plan.last_tick = tick;
    }
  }

 private:
  struct Change {
    std::int64_t requests = 0;
    std::int64_t tokens = 0;
  };
  std::map<std::int64_t, Change> changes_;
};

}  // namespace

PlayedRequest::PlayedRequest(KvMemory& memory, std::span<const TokenId> prompt,
                             std::uint32_t final_tokens)
    : memory_(&memory),
      handle_(memory.arrive(prompt, final_tokens)),
      tokens_(static_cast<std::uint32_t>(prompt.size())),
      final_tokens_(final_tokens) {
  const std::uint32_t cached = memory.cached_prefix(handle_);
  require_room(memory.start(handle_, {.new_tokens = tokens_ - cached}));
  memory.advance(handle_, {}, tokens_);
}

void PlayedRequest::grow() {
  // No log has the generated tokens; within a request they may be equal, because the hash of a
  // block covers all tokens before it.
  const TokenId token = -1 - static_cast<TokenId>(std::uint32_t{handle_});
  memory_->advance(handle_, {&token, 1}, tokens_);
  require_room(memory_->grow(handle_, 1, 0, 0));
  memory_->advance(handle_, {}, ++tokens_);
}

PlayPlan plan_play(const ReopenableSource& source, std::uint32_t block_size,
                   const PlayLimits& limits) {
  const auto stream = source.open();
  PlayPlan plan;
  plan.has_ids = stream->info().ids_block_size > 0;
  Presence presence;
  std::uint64_t grown_tokens = 0;
  std::int64_t longest = 1;
  for (Request request; stream->next(request);) {
    grown_tokens += static_cast<std::uint64_t>(request.output_tokens);
    if (plan.num_cut > 0 || plan.num_read == limits.requests ||
        request.arrival_seconds >= limits.seconds || grown_tokens > limits.grown_tokens) {
      ++plan.num_cut;
      continue;
    }
    ++plan.num_read;
    if (request.input_tokens == 0) {
      ++plan.num_skipped;
      continue;
    }
    const std::int64_t tokens = request.input_tokens + request.output_tokens;
    const std::int64_t start = arrival_tick(request);
    presence.add(start, start + request.output_tokens + 1,
                 ceil_div<std::int64_t>(tokens, block_size) * block_size);
    longest = std::max(longest, tokens);
  }
  presence.conclude(plan);
  plan.max_length = static_cast<std::uint32_t>(std::bit_ceil(static_cast<std::uint64_t>(longest)));
  if (plan.peak_tokens > limits.live_tokens) {
    throw InputError(source.name, 0, "",
                     "at most " + std::to_string(limits.live_tokens) +
                         " tokens alive at one time, found " + std::to_string(plan.peak_tokens));
  }
  return plan;
}

std::vector<PlaySample> play(const ReopenableSource& source, const PlayPlan& plan, KvMemory& memory,
                             std::uint32_t num_samples, const std::function<void(double)>& report) {
  constexpr std::int64_t kReportEvery = 256;  // [ticks]
  Player player(source, plan, memory);
  std::vector<PlaySample> samples;
  // A short play has fewer ticks than the samples that were asked for.
  num_samples = static_cast<std::uint32_t>(
      std::min(std::int64_t{num_samples}, std::max(plan.last_tick, std::int64_t{1}) + 1));
  const auto sample_tick = [&](std::size_t which) {
    return plan.last_tick * static_cast<std::int64_t>(which) /
           static_cast<std::int64_t>(num_samples - 1);
  };
  for (std::int64_t now = 0; now <= plan.last_tick; ++now) {
    player.tick(now);
    const double seconds = static_cast<double>(now * kTickMs) / 1000.0;
    if (now == sample_tick(samples.size())) {
      samples.push_back({seconds, player.use(), memory.moved_tokens()});
    }
    if (now % kReportEvery == 0) {
      report(static_cast<double>(now) / static_cast<double>(plan.last_tick + 1));
    }
  }
  return samples;
}

}  // namespace kvproof::bench
