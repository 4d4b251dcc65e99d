// SPDX-License-Identifier: Apache-2.0
// One decode step of a batch: which of its requests have more to do than to write a token, which
// were refused, and the blocks that the others took.
//
// Model:   plain arrays with room for every request that is known at one time. Only a batch that
//          names requests more than once may need more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/ids.h"

namespace kvproof::optimized {

/// A block that a decode step has put into a table.
struct NewBlock {
  std::uint32_t index = 0;  // of the request in the batch
  GroupId group = 0;
  BlockId block = 0;
};

/// What a decode step did, in the order of the batch; valid until the next one.
struct Decoded {
  std::span<const std::uint32_t> refused;  // indexes of the requests without room for a token
  std::span<const NewBlock> taken;
};

/// The requests of a batch whose step is more than writing a token.
struct BatchDue {
  std::size_t count = 0;
  bool doubtful = false;  // it may be that one of them cannot make its step
  bool twice = false;     // one of them stands there twice, which is doubtful
  bool plain = true;      // the step of each is plain
};

class Batch {
 public:
  Batch(std::size_t max_requests, std::size_t groups) {
    places_.resize(max_requests);
    room_ = max_requests * groups;
    taken_.resize(room_);
    lengths_.resize(groups);
  }

  /// Room for the indexes of a whole batch.
  [[nodiscard]] std::uint32_t* places(std::size_t requests) {
    if (requests > places_.size()) [[unlikely]]
      places_.resize(requests);
    return places_.data();
  }
  void start() { decoded_ = {{places_.data(), 0}, {taken_.data(), 0}}; }
  /// @pre it has been read from places(), which are used again
  void refuse(std::uint32_t index) {
    places_[decoded_.refused.size()] = index;
    decoded_.refused = {places_.data(), decoded_.refused.size() + 1};
  }
  void take(const NewBlock& block) {
    const std::size_t count = decoded_.taken.size();
    if (count == room_) [[unlikely]]
      grow();
    taken_[count] = block;
    decoded_.taken = {taken_.data(), count + 1};
  }
  /// [blocks] of the tables before a step, shape [groups].
  [[nodiscard]] std::uint32_t& length(GroupId group) { return lengths_[group]; }
  [[nodiscard]] const Decoded& decoded() const { return decoded_; }

 private:
  [[gnu::noinline]] void grow() {
    room_ = 2 * room_ + 1;
    taken_.resize(room_);
  }

  std::vector<std::uint32_t> places_;
  std::vector<NewBlock> taken_;
  std::vector<std::uint32_t> lengths_;
  std::size_t room_ = 0;  // the size of taken_
  Decoded decoded_;
};

}  // namespace kvproof::optimized
