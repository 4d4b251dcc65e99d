// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/history_client.h"

#include <algorithm>
#include <span>

namespace kvproof::properties::concurrency {

namespace {

constexpr std::size_t kMostSteps = 255;  // of one thread in one history

}  // namespace

HistoryClient::HistoryClient(Field& field, std::vector<Event>& log, std::uint32_t seed)
    : field_(field), log_(log), random_(seed) {
  log_.reserve(kMostSteps);
  held_.reserve(kMostSteps);
  own_.reserve(kMostSteps);
}

void HistoryClient::call() {
  switch (below(16)) {
    case 0:
    case 1:
    case 2: take(); break;
    case 3:
    case 4:
    case 5: fill(); break;
    case 6:
    case 7:
    case 8:
    case 9: acquire(); break;
    case 10:
    case 11:
    case 12: release(); break;
    case 13: touch(); break;
    case 14: forget(); break;
    default: reset(); break;
  }
}

Step& HistoryClient::record(StepKind kind, BlockId block, std::uint8_t key) {
  Event& event = log_.emplace_back();
  event.invoked = invoked_;
  event.returned = returned_;
  event.step.kind = kind;
  event.step.key = key;
  event.step.blocks[0] = static_cast<std::uint8_t>(block);
  return event.step;
}

void HistoryClient::take() {
  const std::size_t num = 1 + below(kMostCallBlocks);
  Blocks out{};
  begin();
  const bool granted = field_.pool->take(std::span(out).first(num));
  end();
  Step& step = record(StepKind::take);
  step.answer = granted;
  step.num = static_cast<std::uint8_t>(num);
  for (std::size_t i = 0; granted && i < num; ++i) {
    step.blocks[i] = static_cast<std::uint8_t>(out[i]);
    held_.push_back(out[i]);
    own_.push_back(out[i]);
  }
}

void HistoryClient::fill() {
  if (own_.empty()) return take();
  const BlockId block = own_.back();
  own_.pop_back();
  const std::uint8_t key = any_key();
  begin();
  const bool registered = field_.pool->fill(block, key, field_.cells[block]);
  end();
  record(StepKind::write, block, key);
  record(StepKind::publish, block, key).answer = registered;
}

void HistoryClient::acquire() {
  const std::size_t num = 1 + below(kMostCallBlocks);
  std::array<std::uint8_t, kMostCallBlocks> keys{};
  std::array<optimized::Key128, kMostCallBlocks> pool_keys{};
  Blocks out{};
  std::array<std::uint8_t, kMostCallBlocks> seen{};
  for (std::size_t i = 0; i < num; ++i) pool_keys[i] = pool_key(keys[i] = any_key());
  begin();
  const std::size_t found = field_.pool->acquire(std::span(pool_keys).first(num), out);
  for (std::size_t i = 0; i < found; ++i) seen[i] = read(out[i]);
  end();
  for (std::size_t i = 0; i < found; ++i) record(StepKind::acquire, out[i], keys[i]);
  if (found < num) record(StepKind::acquire, 0, keys[found]);
  for (std::size_t i = 0; i < found; ++i) {
    record(StepKind::read, out[i], seen[i]);
    held_.push_back(out[i]);
  }
}

void HistoryClient::release() {
  if (held_.empty()) return acquire();
  Blocks blocks{};
  std::array<std::uint8_t, kMostCallBlocks> seen{};
  const std::size_t num = 1 + below(std::min(held_.size(), kMostCallBlocks));
  for (std::size_t i = 0; i < num; ++i) {
    std::swap(held_[below(held_.size())], held_.back());
    blocks[i] = held_.back();
    held_.pop_back();
    if (std::ranges::find(held_, blocks[i]) == held_.end()) std::erase(own_, blocks[i]);
  }
  begin();
  for (std::size_t i = 0; i < num; ++i) seen[i] = read(blocks[i]);
  field_.pool->release(std::span(blocks).first(num));
  end();
  for (std::size_t i = 0; i < num; ++i) record(StepKind::read, blocks[i], seen[i]);
  for (std::size_t i = 0; i < num; ++i) {
    record(StepKind::release, blocks[i]).last = i + 1 == num;
    if (i + 1 < num) record(StepKind::look, blocks[i + 1]);
  }
}

void HistoryClient::touch() {
  Blocks blocks{};
  const std::size_t num = 1 + below(kMostCallBlocks);
  for (std::size_t i = 0; i < num; ++i) {
    blocks[i] = held_.empty() || below(2) == 0 ? any_block() : held_[below(held_.size())];
  }
  begin();
  field_.pool->touch(std::span(blocks).first(num));
  end();
  for (std::size_t i = 0; i < num; ++i) {
    record(StepKind::touch, blocks[i]);
    held_.push_back(blocks[i]);
  }
}

void HistoryClient::forget() {
  const BlockId block = any_block();
  begin();
  field_.pool->forget(block);
  end();
  record(StepKind::forget, block);
}

void HistoryClient::reset() {
  begin();
  const bool done = field_.pool->reset();
  end();
  record(StepKind::reset).answer = done;
}

}  // namespace kvproof::properties::concurrency
