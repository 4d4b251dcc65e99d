// SPDX-License-Identifier: Apache-2.0
// The law of the free queue's order: it is the eviction order, so every operation's effect on it is
// fixed.
#include <algorithm>

#include "properties/law_checks.h"

namespace kvproof::properties::law {
namespace {

using Blocks = std::vector<BlockId>;

// Where released blocks enter: `released` in the order given, those that lose their last reference.
Blocks after_release(const Step& step, const Blocks& released) {
  const FreeOrder order =
      step.config.enable_caching ? step.config.profile.caching_on : step.config.profile.caching_off;
  Blocks front;
  Blocks back;
  for (std::size_t i = 0; i < released.size(); ++i) {
    const BlockId block = released[i];
    if (block == kNullBlock || block >= step.before.blocks.size()) continue;
    const BlockState& state = step.before.blocks[block];
    const auto dropped =
        std::count(released.begin(), released.begin() + static_cast<std::ptrdiff_t>(i) + 1, block);
    if (state.ref_cnt != dropped) continue;  // still held, or already released within this call
    const bool to_front =
        order == FreeOrder::prepend || (order == FreeOrder::unhashed_first && !state.hashed);
    (to_front ? front : back).push_back(block);
  }
  front.insert(front.end(), step.before.queue.begin(), step.before.queue.end());
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

// Where blocks leave: revived ones from wherever they stand, then new ones from the head.
Finding check_taken(const Step& step, const Blocks& revived, const Blocks& fresh) {
  Blocks expected = step.before.queue;
  std::erase_if(expected, [&](BlockId b) {
    return std::find(revived.begin(), revived.end(), b) != revived.end();
  });
  if (fresh.size() > expected.size() || !std::equal(fresh.begin(), fresh.end(), expected.begin())) {
    return say("blocks ", list_of(fresh), " were taken from a queue whose head was ",
               list_of(expected));
  }
  expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(fresh.size()));
  if (step.after.queue != expected) {
    return say("after taking ", list_of(fresh), " the queue is ", list_of(step.after.queue),
               " instead of ", list_of(expected));
  }
  return std::nullopt;
}

Finding check_allocated(const Step& step, const op::Allocate& allocate) {
  const RequestState* was = step.before.find(allocate.req);
  const RequestState* now = step.after.find(allocate.req);
  const RequestRecord* record = step.history.find(allocate.req);
  if (was == nullptr || now == nullptr || record == nullptr) return std::nullopt;
  const Blocks hit = allocate.args.use_lookup && table_of(*was).empty() ? record->hit : Blocks{};
  const Blocks& table = table_of(*now);
  const std::size_t had = std::min(table_of(*was).size() + hit.size(), table.size());
  return check_taken(step, hit,
                     Blocks(table.begin() + static_cast<std::ptrdiff_t>(had), table.end()));
}

Finding check_released(const Step& step, const Blocks& released) {
  const Blocks expected = after_release(step, released);
  if (step.after.queue == expected) return std::nullopt;
  return say("after releasing ", list_of(released), " the queue is ", list_of(step.after.queue),
             " instead of ", list_of(expected));
}

}  // namespace

Finding free_order(const Step& step) {
  const bool granted = std::holds_alternative<Granted>(step.outcome.result);
  if (std::holds_alternative<Refused>(step.outcome.result) ||
      std::holds_alternative<Rejected>(step.outcome.result)) {
    return std::nullopt;  // I20
  }
  if (const auto* allocate = std::get_if<op::Allocate>(&step.operation);
      allocate != nullptr && granted) {
    return check_allocated(step, *allocate);
  }
  if (std::holds_alternative<op::Take>(step.operation) && granted) {
    const auto& blocks = std::get<Granted>(step.outcome.result).blocks;
    return check_taken(step, {}, blocks.empty() ? Blocks{} : blocks.front());
  }
  if (const auto* touch = std::get_if<op::Touch>(&step.operation))
    return check_taken(step, touch->blocks, {});
  if (const auto* release = std::get_if<op::Release>(&step.operation))
    return check_released(step, release->blocks);
  if (std::holds_alternative<op::Free>(step.operation) ||
      std::holds_alternative<op::Finish>(step.operation)) {
    const RequestState* r = step.before.find(request_of(step.operation));
    return r != nullptr ? check_released(step, Blocks(table_of(*r).rbegin(), table_of(*r).rend()))
                        : std::nullopt;
  }
  if (step.before.queue != step.after.queue) {
    return say("the queue went from ", list_of(step.before.queue), " to ",
               list_of(step.after.queue), " though nothing was taken or released");
  }
  return std::nullopt;
}

}  // namespace kvproof::properties::law
