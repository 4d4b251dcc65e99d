// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/pool_model.h"

#include <algorithm>

#include "reference/support/say.h"

namespace kvproof::properties::concurrency {

namespace {

/// Begins or continues a section of the queue by `who`. @return false while another thread has one
bool enter(PoolState& state, std::uint8_t who) {
  if (state.section != 0 && state.section != who) return false;
  if (state.front_thread != who) state.front_thread = state.front_block = 0;
  return true;
}

void unqueue(PoolState& state, std::uint8_t block) {
  const auto end = state.queue.begin() + state.num_free;
  std::copy(std::find(state.queue.begin(), end, block) + 1, end,
            std::find(state.queue.begin(), end, block));
  state.queue[--state.num_free] = 0;
}

/// @param place the position that the block will have
void enqueue(PoolState& state, std::ptrdiff_t place, std::uint8_t block) {
  const auto end = state.queue.begin() + state.num_free++;
  std::copy_backward(state.queue.begin() + place, end, end + 1);
  state.queue[static_cast<std::size_t>(place)] = block;
}

void erase_content(PoolState& state, std::uint8_t block) {
  for (std::size_t other = 1; other < kMostModelBlocks; ++other) {
    if (state.key[other] == state.key[block] && state.rank[other] > state.rank[block]) {
      --state.rank[other];
    }
  }
  state.key[block] = state.rank[block] = 0;
}

std::uint8_t oldest(const PoolState& state, std::uint8_t key) {
  for (std::uint8_t block = 1; block < kMostModelBlocks; ++block) {
    if (state.key[block] == key && state.rank[block] == 0) return block;
  }
  return 0;
}

bool add_reference(PoolState& state, std::uint8_t who, std::uint8_t block) {
  if (state.references[block] == 0) {
    if (!enter(state, who)) return false;
    unqueue(state, block);
  }
  ++state.references[block];
  return true;
}

bool take(PoolState& state, std::uint8_t who, const Step& step) {
  if (!enter(state, who)) return false;
  if (step.answer != (step.num <= state.num_free)) return false;
  if (!step.answer) return true;
  if (!std::equal(step.blocks.begin(), step.blocks.begin() + step.num, state.queue.begin())) {
    return false;
  }
  for (std::size_t i = 0; i < step.num; ++i) {
    unqueue(state, step.blocks[i]);
    state.references[step.blocks[i]] = 1;
    if (state.key[step.blocks[i]] != 0) erase_content(state, step.blocks[i]);
  }
  return true;
}

bool release(PoolState& state, FreeOrder order, std::uint8_t who, const Step& step, bool behind) {
  const std::uint8_t block = step.blocks[0];
  if (state.references[block] == 0) return false;
  if (state.references[block] == 1) {
    if (!enter(state, who)) return false;
    const bool begins = state.section != who;
    if (begins && !behind && state.front_thread == who) state.front_thread = state.front_block = 0;
    const bool to_front = order == FreeOrder::prepend ||
                          (order == FreeOrder::unhashed_first && state.key[block] == 0);
    std::ptrdiff_t place = to_front ? 0 : state.num_free;
    if (to_front && state.front_thread == who) {
      place = std::ranges::find(state.queue, state.front_block) - state.queue.begin() + 1;
    }
    enqueue(state, place, block);
    if (to_front) {
      state.front_thread = who;
      state.front_block = block;
    }
    state.section = who;
  }
  --state.references[block];
  if (step.last) {
    if (state.section == who) state.section = 0;
    if (state.front_thread == who) state.front_thread = state.front_block = 0;
  }
  return true;
}

bool publish(PoolState& state, const Step& step) {
  const std::uint8_t block = step.blocks[0];
  if (state.references[block] == 0 || step.answer != (state.key[block] == 0)) return false;
  if (!step.answer) return true;
  state.rank[block] = static_cast<std::uint8_t>(std::ranges::count(state.key, step.key));
  state.key[block] = step.key;
  return true;
}

bool reset(PoolState& state, std::uint8_t who, const Step& step) {
  if (!enter(state, who)) return false;
  const bool all_free = std::ranges::all_of(state.references, [](auto n) { return n == 0; });
  if (step.answer != all_free) return false;
  if (step.answer) state.key = state.rank = {};
  return true;
}

}  // namespace

PoolState initial_pool_state(std::uint32_t num_blocks) {
  PoolState state;
  for (std::uint8_t block = 1; block < num_blocks; ++block) enqueue(state, block - 1, block);
  return state;
}

bool apply(PoolState& state, FreeOrder order, std::uint32_t thread, const Step& step, bool behind) {
  const auto who = static_cast<std::uint8_t>(thread + 1);
  const std::uint8_t block = step.blocks[0];
  switch (step.kind) {
    case StepKind::take: return take(state, who, step);
    case StepKind::touch: return add_reference(state, who, block);
    case StepKind::release: return release(state, order, who, step, behind);
    case StepKind::look:
      if (state.section == who && state.references[block] != 1) state.section = 0;
      return true;
    case StepKind::write: state.cell[block] = step.key; return true;
    case StepKind::publish: return publish(state, step);
    case StepKind::acquire:
      return oldest(state, step.key) == block && (block == 0 || add_reference(state, who, block));
    case StepKind::read: return state.cell[block] == step.key;
    case StepKind::forget:
      if (state.key[block] != 0) erase_content(state, block);
      return true;
    case StepKind::reset: return reset(state, who, step);
  }
  return false;
}

namespace {

char letter(std::uint8_t key) { return key == 0 ? '-' : static_cast<char>('a' + key - 1); }

}  // namespace

std::string to_string(const PoolState& state) {
  std::string text = "free:";
  for (std::size_t i = 0; i < state.num_free; ++i) text += say(" ", +state.queue[i]);
  for (std::size_t block = 1; block < kMostModelBlocks; ++block) {
    if (state.references[block] == 0 && state.key[block] == 0) continue;
    text += say("; block ", block, ": ", +state.references[block], " references");
    if (state.key[block] != 0) {
      text += say(", key ", letter(state.key[block]), ", ", +state.rank[block], " older");
    }
  }
  return text;
}

std::string to_string(const Step& step) {
  constexpr const char* kNames[] = {"take",    "touch",   "release", "look",   "write",
                                    "publish", "acquire", "read",    "forget", "reset"};
  std::string text = kNames[static_cast<std::size_t>(step.kind)];
  if (step.key != 0) text += say(" ", letter(step.key));
  if (!step.answer) text += step.kind == StepKind::take ? say(" of ", +step.num, ": no") : ": no";
  for (const std::uint8_t block : step.blocks) {
    if (block != 0) text += say(" ", +block);
  }
  return step.kind == StepKind::acquire && step.blocks[0] == 0 ? text + " nothing" : text;
}

}  // namespace kvproof::properties::concurrency
