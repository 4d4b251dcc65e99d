// SPDX-License-Identifier: Apache-2.0
// Plays a stream of requests in time on a memory, and samples the content of the memory.
//
// Model:   time advances in ticks of 25 ms. A request starts at the first tick that is not before
//          its arrival, with its whole prompt; at each tick after that it has one more token, and
//          at the tick after its last token it is gone. No request waits: the memory is large
//          enough.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/storage/storage.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {

inline constexpr std::int64_t kTickMs = 25;  // per token, for every request

/// One request on a memory that was sized for it. A study shows the need, so a refusal is a mistake
/// in its sizing and throws std::logic_error.
class PlayedRequest {
 public:
  /// Makes room for a prompt and computes it. @param final_tokens that the request will have at its
  /// end, which only an oracle looks at. @pre 0 < prompt.size() <= final_tokens
  PlayedRequest(KvMemory& memory, std::span<const TokenId> prompt, std::uint32_t final_tokens);

  /// Adds one token.
  void grow();
  /// Ends the request. @pre it is not used afterwards
  void end() { memory_->finish(handle_); }

  [[nodiscard]] std::uint32_t tokens() const { return tokens_; }
  [[nodiscard]] bool complete() const { return tokens_ == final_tokens_; }

 private:
  KvMemory* memory_;
  KvHandle handle_;
  std::uint32_t tokens_;
  std::uint32_t final_tokens_;
};

/// The limits of a play. Requests beyond the first limit that is reached are cut off.
struct PlayLimits {
  double seconds = 1'800;                  // during which requests arrive
  std::uint64_t grown_tokens = 8'000'000;  // decoded by all requests
  std::uint64_t requests = 50'000;
  std::uint64_t live_tokens = std::uint64_t{1} << 28;  // at one time; more is an InputError
};

/// The demand of a source, which is known before the play.
struct PlayPlan {
  std::uint64_t num_read = 0;       // leading requests of the source that are played or skipped
  std::uint64_t num_skipped = 0;    // those of them without a prompt, which store nothing
  std::uint64_t num_cut = 0;        // requests after them
  std::int64_t last_tick = 0;       // the last request is gone at this tick
  std::uint32_t max_length = 0;     // [tokens] longest request, rounded up to a power of two
  std::uint32_t peak_requests = 0;  // live at one time
  std::uint64_t peak_tokens = 0;    // whole blocks of all final lengths, at the worst tick
  bool has_ids = false;

  [[nodiscard]] std::uint64_t num_played() const { return num_read - num_skipped; }
};

/// Reads the whole source. @param block_size [tokens] that peak_tokens is rounded to, per request
[[nodiscard]] PlayPlan plan_play(const ReopenableSource& source, std::uint32_t block_size,
                                 const PlayLimits& limits);

struct PlaySample {
  double seconds = 0;  // since the first arrival
  MemoryUse use;
  std::uint64_t moved_tokens = 0;  // so far
};

/// @param num_samples evenly over the play, the first at its start and the last at its end; >= 2
/// @return the samples. Throws std::logic_error if a memory has lost or invented a token.
[[nodiscard]] std::vector<PlaySample> play(const ReopenableSource& source, const PlayPlan& plan,
                                           KvMemory& memory, std::uint32_t num_samples,
                                           const std::function<void(double)>& report);

}  // namespace kvproof::bench
