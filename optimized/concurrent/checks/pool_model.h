// SPDX-License-Identifier: Apache-2.0
// The concurrent pool as a pure step function: how one atomic step changes a pool of a few blocks,
// and whether the answer of the step is right.
//
// Model:   a call is one or more steps in the order of its arguments: take and reset are one each,
//          touch, release, acquire and publish one per block or key. Written from the promises in
//          concurrent_pool.h. A release of several last holders is one section of the queue for
//          as long as it is the last holder of the next block too: `look` is where it
//          finds out, and until then no other thread may use the queue. Blocks that go to the front
//          in a later section of one release go behind those of its earlier sections, unless a
//          section of another thread came between. A section without any effect cannot be seen, so
//          both places are allowed then.
// Source:  histories and pure steps as in porcupine (github.com/anishathalye/porcupine).
// Leaves out: num_free() (a hint), calls that break the contract, more than 7 blocks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "reference/config.h"

namespace kvproof::properties::concurrency {

inline constexpr std::uint32_t kMostModelBlocks = 8;  // with the null block
inline constexpr std::uint8_t kMostModelKeys = 3;

/// A thread is noted in a state as its number + 1; 0 means no thread, or no block.
struct PoolState {
  using PerBlock = std::array<std::uint8_t, kMostModelBlocks>;

  PerBlock queue{};  // shape [num_free], then zeros
  PerBlock references{};
  PerBlock key{};   // 0 = no content
  PerBlock rank{};  // how many blocks with the same key are older
  PerBlock cell{};  // the content last written into the block
  std::uint8_t num_free = 0;
  std::uint8_t section = 0;       // the thread in the middle of a release that uses the queue
  std::uint8_t front_thread = 0;  // whose release was the last section, and put blocks at the front
  std::uint8_t front_block = 0;   // the last of these blocks

  bool operator==(const PoolState&) const = default;
};

/// All blocks except the null block are free, in the order of their ids.
[[nodiscard]] PoolState initial_pool_state(std::uint32_t num_blocks);

/// The state at rest as a text for people.
[[nodiscard]] std::string to_string(const PoolState& state);

enum class StepKind : std::uint8_t {
  take,
  touch,
  release,
  look,  // inside of a release: is it the last holder of the next block too?
  write,
  publish,
  acquire,
  read,
  forget,
  reset
};

/// One atomic step with its answer.
struct Step {
  StepKind kind = StepKind::take;
  bool answer = true;            // of take, publish and reset
  bool last = false;             // the last release of a call
  std::uint8_t key = 0;          // of publish and acquire; the value of read and write
  std::uint8_t num = 1;          // blocks that take asks for
  PoolState::PerBlock blocks{};  // [0, num); acquire: {0} = not found
};

/// "take 3 4", "take of 2: no", "acquire b nothing".
[[nodiscard]] std::string to_string(const Step& step);

/// Performs a step. @param behind decides for a release that has a choice: whether a new section
/// continues behind its own blocks at the front
/// @return false if the step cannot happen now, or not with that answer; the state is then useless
[[nodiscard]] bool apply(PoolState& state, FreeOrder order, std::uint32_t thread, const Step& step,
                         bool behind);

}  // namespace kvproof::properties::concurrency
