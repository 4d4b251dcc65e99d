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
  std::size_t reached = 0;  // requests of the batch before one whose token cannot be written
  bool plain = true;        // the step of each is plain

  /// Marks the index of a request whose step is not: its token is not written yet.
  static constexpr std::uint32_t kUnwritten = 0x8000'0000U;
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
      grow(1);
    taken_[count] = block;
    decoded_.taken = {taken_.data(), count + 1};
  }
  /// Where the next blocks go, with room for so many. @pre close() before anything else
  [[nodiscard]] NewBlock* open(std::size_t blocks) {
    const std::size_t count = decoded_.taken.size();
    if (room_ - count < blocks) [[unlikely]]
      grow(blocks);
    return taken_.data() + count;
  }
  /// @param end behind the last block that was written
  void close(NewBlock* end) { decoded_.taken = {taken_.data(), end}; }
  /// [blocks] of the tables before a step, shape [groups].
  [[nodiscard]] std::uint32_t& length(GroupId group) { return lengths_[group]; }
  [[nodiscard]] const Decoded& decoded() const { return decoded_; }

 private:
  [[gnu::noinline]] void grow(std::size_t blocks) {
    room_ = 2 * room_ + blocks;
    taken_.resize(room_);
  }

  std::vector<std::uint32_t> places_;
  std::vector<NewBlock> taken_;
  std::vector<std::uint32_t> lengths_;
  std::size_t room_ = 0;  // the size of taken_
  Decoded decoded_;
};

}  // namespace kvproof::optimized
