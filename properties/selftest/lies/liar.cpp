// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/lies/liar.h"

#include <memory>
#include <optional>
#include <utility>

#include "properties/caller/caller_book.h"
#include "reference/mix64.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

void hide(std::vector<std::vector<BlockId>>& lists) {
  for (auto& list : lists) std::ranges::fill(list, kNullBlock);
}

/// What remains of an answer and of a state where blocks have no ids.
void show_counts_only(Outcome& outcome) {
  if (auto* granted = std::get_if<Granted>(&outcome.result)) *granted = {};
  if (auto* hit = std::get_if<Hit>(&outcome.result)) hide(hit->blocks);
  if (auto* decoded = std::get_if<Decoded>(&outcome.result)) {
    for (auto& blocks : decoded->blocks) blocks.clear();
    decoded->copies.clear();
  }
  outcome.events.clear();
}
void show_counts_only(Snapshot& state) {
  Snapshot out;
  out.blocks.resize(state.blocks.size());
  out.host.blocks.resize(state.host.blocks.size());
  out.num_free = state.num_free;
  out.usage = state.usage;
  out.host.num_free = state.host.num_free;
  out.host.usage = state.host.usage;
  out.requests = std::move(state.requests);
  for (RequestState& r : out.requests) {
    hide(r.tables);
    hide(r.host_tables);
    r.hashes.clear();
    r.progress.assign(r.tables.size(), std::nullopt);
  }
  state = std::move(out);
}

struct Habit {
  const Lie& lie;
  std::size_t operation;
  const View& view;
  std::uint32_t one_in;
  std::uint64_t seed;
  std::uint64_t& told;
};

class Liar final : public Subject {
 public:
  Liar(const CacheConfig& config, const Promises& promises, const Habit& habit)
      : config_(config), promises_(promises), habit_(habit), book_(config), sound_(config) {
    look(sound_, state_);
  }

  Outcome apply(const Operation& operation) override {
    if (auto answer = answer_unasked(operation, promises_, book_, state_)) return *answer;
    Outcome out = answer_to(operation);
    if (!habit_.view.block_ids) show_counts_only(out);
    book_.fold(operation, out.result);
    return out;
  }

  void observe(Snapshot& snapshot) const override { snapshot = state_; }

 private:
  Outcome answer_to(const Operation& operation) {
    const bool asked = operation.index() == habit_.operation;
    const bool lies = asked && mix64(habit_.seed + ++calls_) % habit_.one_in == 0;
    std::vector<Event> late = std::exchange(kept_back_, {});
    Outcome out;
    if (lies) {
      out = lie(operation);
    } else {
      out = sound_.apply(operation);
      look(sound_, state_);
    }
    out.events.insert(out.events.begin(), late.begin(), late.end());
    if (asked) last_ = out;
    return out;
  }

  Outcome lie(const Operation& operation) {
    reference::CacheManager honest = sound_;
    Outcome truth = honest.apply(operation);
    Snapshot shown;
    look(honest, shown);
    Telling telling{config_, sound_, operation, state_, last_ ? &*last_ : nullptr, kept_back_};
    Outcome out = habit_.lie.tell != nullptr ? habit_.lie.tell(telling) : sound_.apply(operation);
    Snapshot next;
    look(sound_, next);
    if (habit_.lie.show != nullptr) habit_.lie.show(telling, next);
    if (!habit_.view.block_ids) show_counts_only(next);
    state_ = std::move(next);
    Outcome visible = out;
    if (!habit_.view.block_ids) {
      show_counts_only(visible);
      show_counts_only(truth);
    }
    habit_.told += visible != truth || state_ != shown ? 1 : 0;
    return out;
  }

  void look(const reference::CacheManager& manager, Snapshot& out) const {
    manager.observe(out);
    out.work.reset();  // others are not asked for it
    if (!habit_.view.block_ids) show_counts_only(out);
  }

  CacheConfig config_;
  Promises promises_;
  Habit habit_;
  CallerBook book_;
  reference::CacheManager sound_;
  Snapshot state_;  // as it is shown
  std::optional<Outcome> last_;
  std::vector<Event> kept_back_;
  std::uint64_t calls_ = 0;
};

}  // namespace

Candidate liar(const Lie& lie, std::size_t operation, const View& view, const Frequency& frequency,
               std::uint64_t seed, std::uint64_t& told) {
  Candidate out;
  out.name = "liar";
  out.foreign = view.level != Level::profile;
  out.open = [&lie, operation, &view, one_in = frequency.one_in, seed, &told,
              managers = std::make_shared<std::uint64_t>()](const CacheConfig& config) {
    Demands demands;
    demands.promises.level = view.level;
    demands.promises.block_ids = view.block_ids;
    demands.promises.valid_calls_only = view.level != Level::profile;
    demands.promises.events = view.block_ids;
    // Two liars lie at different times, so only who lies about batches is asked for them.
    if (operation != operation_index("decode")) {
      demands.promises.operations &= ~operation_set({"decode"});
    }
    if (!view.block_ids) {
      demands.shown = kUsage;
      demands.promises.operations &=
          ~operation_set({"evict", "take", "touch", "release", "pin", "unpin"});
    }
    return Opened{std::make_unique<Liar>(
                      config, demands.promises,
                      Habit{lie, operation, view, one_in, mix64(seed + ++*managers), told}),
                  demands};
  };
  return out;
}

}  // namespace kvproof::properties
