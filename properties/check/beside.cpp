// SPDX-License-Identifier: Apache-2.0
#include "properties/check/beside.h"

#include <algorithm>
#include <map>
#include <utility>

#include "properties/caller/caller_book.h"
#include "properties/engines/kit/unusable_subject.h"
#include "properties/laws/same_state.h"
#include "properties/laws/violation.h"
#include "reference/trace_json.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// Parts that say which block it is.
constexpr Parts kOfBlocks =
    kIds | kQueue | kLinks | kReferences | kCached | kKeys | kIndex | kEvents;

/// Leaves what an answer says without naming blocks.
void forget_blocks(Outcome& outcome) {
  if (auto* hit = std::get_if<Hit>(&outcome.result)) hit->blocks.clear();
  if (auto* granted = std::get_if<Granted>(&outcome.result)) {
    *granted = {.blocks = {}, .hit = std::move(granted->hit)};
    if (granted->hit) granted->hit->blocks.clear();
  }
  if (auto* decoded = std::get_if<Decoded>(&outcome.result)) *decoded = {decoded->refused, {}};
}

void forget(Parts hidden, bool in_order, PoolState& pool) {
  if ((hidden & kUsage) != 0) pool.usage = 0;
  if ((hidden & kQueue) != 0) pool.queue.clear();
  if (!in_order) std::ranges::sort(pool.queue);
  for (BlockState& block : pool.blocks) {
    if ((hidden & kReferences) != 0) block.ref_cnt = 0;
    if ((hidden & kCached) != 0) block.hashed = false;
  }
}

/// Makes equal what is not compared.
void forget(Parts hidden, bool in_order, Snapshot& state) {
  forget(hidden, in_order, static_cast<PoolState&>(state));
  forget(hidden, in_order, state.host);
  state.copying.clear();  // few show it, and the reference counts have it
  if ((hidden & kHost) != 0) state.host = {};
  for (RequestState& request : state.requests) {
    if ((hidden & (kHost | kIds)) != 0) request.host_tables.clear();
    if ((hidden & kIds) != 0) request.tables.clear();
  }
  if ((hidden & kIds) == 0) return;
  state.raw.clear();
  state.leases.clear();
}

/// The shown keys, block for block, and those of requests.
std::vector<std::uint64_t> keys_in(const Snapshot& state, Parts shown) {
  std::vector<std::uint64_t> out;
  for (const BlockState& block : state.blocks) {
    if ((shown & kKeys) != 0) out.push_back(block.key);
  }
  for (const RequestState& request : state.requests) {
    if ((shown & kHashes) != 0) {
      out.insert(out.end(), request.hashes.begin(), request.hashes.end());
    }
  }
  return out;
}

/// The keys of one allocator as those of another: one for one.
class SameKeys {
 public:
  [[nodiscard]] bool are(std::uint64_t mine, std::uint64_t other) {
    return others_.try_emplace(mine, other).first->second == other &&
           mine_.try_emplace(other, mine).first->second == mine;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> others_;
  std::map<std::uint64_t, std::uint64_t> mine_;
};

/// One manager of each.
class Pair final : public Subject, public Objector {
 public:
  /// @param both the first one, with what is common to both
  Pair(const CacheConfig& config, const Opened& both, std::unique_ptr<Subject> first,
       std::unique_ptr<Subject> second)
      : first_(std::move(first)),
        second_(std::move(second)),
        promises_(both.demands.promises),
        beside_(both.beside),
        book_(config, promises_.traits) {
    first_->observe(first_state_);
    second_->observe(second_state_);
  }

  Outcome apply(const Operation& operation) override {
    for (const Snapshot* state : {&first_state_, &second_state_}) {
      if (auto answer = answer_unasked(operation, promises_, book_, *state)) return *answer;
    }
    Outcome mine = first_->apply(operation);
    first_->observe(first_state_);
    Outcome other = ask_second(operation);
    if (!objection_) objection_ = compare_answers(mine, std::move(other));
    if (!objection_) objection_ = compare_states(first_state_, second_state_);
    book_.fold(operation, mine.result);
    return mine;
  }

  void observe(Snapshot& snapshot) const override { snapshot = first_state_; }

  [[nodiscard]] Finding objection() const override { return objection_; }

 private:
  Outcome ask_second(const Operation& operation) {
    try {
      Outcome out = second_->apply(operation);
      second_->observe(second_state_);
      return out;
    } catch (Violation& violation) {
      violation.text = whose_ + ", " + violation.text;
      throw;
    }
  }

  [[nodiscard]] bool compared(Parts parts) const { return (parts & ~beside_.compared) == 0; }

  [[nodiscard]] Finding compare_answers(Outcome mine, Outcome other) const {
    if (is_undone(mine.result) && is_undone(other.result)) return std::nullopt;
    if (!compared(kEvents)) mine.events = other.events = {};
    if (!compared(kIds)) {
      forget_blocks(mine);
      forget_blocks(other);
    }
    if (mine.result == other.result && mine.events == other.events) return std::nullopt;
    return say("the answer is ", to_json(mine), ", ", whose_, " ", to_json(other));
  }

  [[nodiscard]] Finding compare_states(Snapshot mine, Snapshot other) {
    forget(~beside_.compared, beside_.in_order, mine);
    forget(~beside_.compared, beside_.in_order, other);
    if (mine.num_free != other.num_free) {
      return say(mine.num_free, " blocks are free, ", whose_, " ", other.num_free);
    }
    const ComparedParts parts{
        .index = compared(kIndex), .progress = compared(kProgress), .whose = whose_};
    if (Finding finding = difference(other, mine, on::any, parts)) return finding;
    const std::vector<std::uint64_t> keys = keys_in(mine, beside_.compared);
    const std::vector<std::uint64_t> others = keys_in(other, beside_.compared);
    if (std::ranges::equal(keys, others, [&](auto m, auto o) { return keys_.are(m, o); })) {
      return std::nullopt;
    }
    return say("there are keys, ", whose_, " others: what is equal in one is not in the other");
  }

  std::unique_ptr<Subject> first_;
  std::unique_ptr<Subject> second_;
  Promises promises_;
  Beside beside_;
  std::string whose_ = "in " + beside_.name;
  CallerBook book_;
  Snapshot first_state_;
  Snapshot second_state_;
  SameKeys keys_;
  Finding objection_;
};

std::string names_of(const OperationSet& operations) {
  std::string out;
  for (std::size_t i = 0; i < kNumOperations; ++i) {
    if (operations.test(i)) out.append(out.empty() ? "" : ", ").append(kOperationNames[i]);
  }
  return out;
}

/// What may be asked of both. @throws UnusableSubject if that is nothing
Promises common(Promises first, const Promises& second) {
  first.operations &= second.operations;
  first.valid_calls_only = true;
  if (!has_common(first.abilities, second.abilities)) {
    throw UnusableSubject(
        "--beside: the two cannot be asked the same: only one looks up within an allocation, or "
        "they have no size of a block in common");
  }
  first.abilities = common(first.abilities, second.abilities);
  return first;
}

Opened open_both(const Candidate& first, const Candidate& second, bool counts_only,
                 const CacheConfig& config) {
  Opened out = first.open(config);
  Opened other = second.open(config);
  const Promises mine = std::move(out.demands.promises);
  const Promises& others = other.demands.promises;
  Promises& both = out.demands.promises = common(mine, others);
  out.beside = {
      .name = second.name,
      .compared = out.demands.shown & other.demands.shown & (counts_only ? ~kOfBlocks : kAllParts),
      .in_order = !mine.traits.free_list_is_a_set() && !others.traits.free_list_is_a_set(),
      .level = others.level,
      .left_out = names_of(mine.operations ^ others.operations)};
  if (both.unsupported.empty() && !others.unsupported.empty()) {
    both.unsupported = say(second.name, ": ", others.unsupported);
  }
  auto alone = std::move(out.subject);
  if (both.unsupported.empty()) {
    out.subject = std::make_unique<Pair>(config, out, std::move(alone), std::move(other.subject));
  }
  return out;
}

}  // namespace

Candidate beside_other(Candidate first, const SubjectOptions& options) {
  SubjectOptions others;
  others.subject = options.beside;
  others.subject_command = options.beside_command;
  others.limits = options.limits;
  if (!others.given()) return first;
  const Candidate second = find_candidate(others);
  const bool counts_only = options.beside_counts;
  Candidate out;
  out.name = first.name;
  out.option = say(first.option, " --beside", second.option.substr(std::size("--subject") - 1),
                   counts_only ? " --beside-counts" : "");
  out.beside = second.name;
  out.foreign = true;  // only valid calls are made
  out.hurry = [first, second](bool on) {
    first.hurry(on);
    second.hurry(on);
  };
  out.suppose = first.suppose;
  out.open = [first, second, counts_only](const CacheConfig& config) {
    return open_both(first, second, counts_only, config);
  };
  return out;
}

}  // namespace kvproof::properties
