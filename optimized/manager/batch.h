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
struct DecodeGrant {
  std::span<const std::uint32_t> refused;  // indexes of the requests without room for a token
  std::span<const NewBlock> taken;
};

/// The requests of a batch whose step is more than writing a token.
struct BatchDue {
  std::size_t count = 0;
  std::size_t reached = 0;  // requests of the batch before one whose token cannot be written
  bool written = true;      // the tokens of all of these are

  /// Marks the index of a request whose token is not written yet.
  static constexpr std::uint32_t kUnwritten = 0x8000'0000U;
};

class Batch {
 public:
  Batch(std::size_t max_requests, std::size_t groups)
      : places_(max_requests), taken_(max_requests * groups) {}

  /// Room for the indexes of a whole batch.
  [[nodiscard]] std::uint32_t* places(std::size_t requests) {
    if (requests > places_.size()) [[unlikely]]
      places_.resize(requests);
    return places_.data();
  }
  void start() {
    num_refused_ = 0;
    next_ = taken_.data();
  }
  /// @pre it has been read from places(), which are used again
  void refuse(std::uint32_t index) { places_[num_refused_++] = index; }
  void take(const NewBlock& block) {
    if (next_ == taken_.data() + taken_.size()) [[unlikely]]
      grow();
    *next_++ = block;
  }
  const DecodeGrant& finish() {
    return decoded_ = {{places_.data(), num_refused_}, {taken_.data(), next_}};
  }

 private:
  [[gnu::noinline]] void grow() {
    const auto count = static_cast<std::size_t>(next_ - taken_.data());
    taken_.resize(2 * count + 1);
    next_ = taken_.data() + count;
  }

  std::vector<std::uint32_t> places_;
  std::vector<NewBlock> taken_;
  std::size_t num_refused_ = 0;
  NewBlock* next_ = nullptr;
  DecodeGrant decoded_;
};

}  // namespace kvproof::optimized
