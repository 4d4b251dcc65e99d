// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/lies/lies.h"

#include <algorithm>
#include <utility>

#include "properties/caller/promises.h"
#include "reference/contract.h"

namespace kvproof::properties {
namespace {

Outcome truth(Telling& t) { return t.sound.apply(t.operation); }

template <Breach breach>
Outcome reject(Telling&) {
  return {Rejected{breach, "so it says"}, {}};
}

Outcome decline(Telling&) { return {Declined{"not now"}, {}}; }
Outcome refuse(Telling&) { return {Refused{}, {}}; }

Outcome do_nothing(Telling& t) {
  reference::CacheManager copy = t.sound;
  return copy.apply(t.operation);
}

Outcome do_twice(Telling& t) {
  Outcome out = truth(t);
  const Outcome again = truth(t);
  out.events.insert(out.events.end(), again.events.begin(), again.events.end());
  return out;
}

Outcome answer_the_call_before(Telling& t) {
  Outcome out = truth(t);
  if (t.call_before != nullptr) out.result = t.call_before->result;
  return out;
}

void shorten(std::vector<std::vector<BlockId>>& lists) {
  for (auto& list : lists) {
    if (!list.empty()) list.pop_back();
  }
}

Outcome answer_less(Telling& t) {
  Outcome out = truth(t);
  if (auto* hit = std::get_if<Hit>(&out.result); hit != nullptr && hit->hit_tokens > 0) {
    const std::uint32_t unit = t.config.groups.front().block_size;
    hit->hit_tokens -= std::min(unit, hit->hit_tokens);
    shorten(hit->blocks);
  } else if (auto* granted = std::get_if<Granted>(&out.result)) {
    shorten(granted->blocks);
    if (!granted->copies.empty()) granted->copies.pop_back();
  } else if (auto* flag = std::get_if<bool>(&out.result)) {
    *flag = false;
  } else if (auto* shared = std::get_if<SharedBlocks>(&out.result); shared != nullptr) {
    for (std::uint32_t& count : *shared) count -= std::min(count, 1U);
  } else if (auto* decoded = std::get_if<Decoded>(&out.result)) {
    for (auto& lists : decoded->blocks) shorten(lists);
    if (!decoded->refused.empty()) decoded->refused.pop_back();
  }
  return out;
}

Outcome answer_more(Telling& t) {
  Outcome out = truth(t);
  if (auto* hit = std::get_if<Hit>(&out.result)) {
    hit->hit_tokens += t.config.groups.front().block_size;
    for (auto& list : hit->blocks) list.push_back(1);
  } else if (auto* granted = std::get_if<Granted>(&out.result)) {
    if (std::holds_alternative<op::SwapOut>(t.operation) ||
        std::holds_alternative<op::SwapIn>(t.operation)) {
      granted->copies.push_back({1, 1});
    } else {
      if (granted->blocks.empty()) granted->blocks.emplace_back();
      granted->blocks.back().push_back(1);
    }
  } else if (auto* flag = std::get_if<bool>(&out.result)) {
    *flag = true;
  } else if (auto* shared = std::get_if<SharedBlocks>(&out.result)) {
    for (std::uint32_t& count : *shared) ++count;
  } else if (auto* decoded = std::get_if<Decoded>(&out.result)) {
    decoded->refused.push_back(0);
  }
  return out;
}

Outcome announce_nothing(Telling& t) { return {truth(t).result, {}}; }

Outcome announce_twice(Telling& t) {
  Outcome out = truth(t);
  const std::vector<Event> events = out.events;
  out.events.insert(out.events.end(), events.begin(), events.end());
  return out;
}

Outcome announce_late(Telling& t) {
  Outcome out = truth(t);
  t.kept_back = std::exchange(out.events, {});
  return out;
}

/// The operation with another request in the place of its own.
Outcome serve_another(Telling& t) {
  Operation other = t.operation;
  const std::string& own = request_of(t.operation);
  const auto at =
      std::ranges::find_if(t.before.requests, [&](const RequestState& r) { return r.name != own; });
  if (at == t.before.requests.end() || own.empty()) return truth(t);
  std::visit(
      [&](auto& o) {
        if constexpr (requires { o.req; }) o.req = at->name;
      },
      other);
  return t.sound.apply(other);
}

/// The operation with a little less of what it asks for.
struct Lessened {
  void operator()(op::Arrive& o) const { drop(o.tokens); }
  void operator()(op::Append& o) const { drop(o.tokens); }
  void operator()(op::Advance& o) const { o.computed -= std::min(o.computed, 1U); }
  void operator()(op::Allocate& o) const { o.args.new_tokens -= o.args.new_tokens > 1 ? 1 : 0; }
  void operator()(op::Recycle& o) const { o.processed = 0; }
  void operator()(op::Cache& o) const { o.computed = 0; }
  void operator()(op::Evict& o) const { drop(o.blocks); }
  void operator()(op::Take& o) const { o.n -= std::min(o.n, 1U); }
  void operator()(op::Touch& o) const { drop(o.blocks); }
  void operator()(op::Release& o) const { drop(o.blocks); }
  void operator()(op::Truncate& o) const { ++o.tokens; }
  void operator()(op::Pin& o) const { drop(o.blocks); }
  void operator()(op::Complete& o) const { o.ok = !o.ok; }
  void operator()(op::Decode& o) const { drop(o.reqs), drop(o.tokens); }
  template <class Other>
  void operator()(Other&) const {}

  template <class List>
  static void drop(List& list) {
    if (!list.empty()) list.pop_back();
  }
};

Outcome do_less(Telling& t) {
  Operation less = t.operation;
  std::visit(Lessened{}, less);
  return t.sound.apply(less);
}

void show_the_state_before(const Telling& t, Snapshot& state) { state = t.before; }

void lose_a_block(const Telling&, Snapshot& state) {
  if (state.queue.empty()) return;
  --state.num_free;
  state.blocks[state.queue.back()].linked = false;
  state.queue.pop_back();
  state.queue_backward.erase(state.queue_backward.begin());
  state.usage = 1.0 - static_cast<double>(state.num_free) /
                          static_cast<double>(std::max<std::size_t>(state.blocks.size(), 2) - 1);
}

void turn_the_queue(const Telling&, Snapshot& state) {
  std::swap(state.queue, state.queue_backward);
}
void miscount_use(const Telling&, Snapshot& state) { state.usage += 0.25; }

void miscount_hits(const Telling&, Snapshot& state) {
  if (state.counters) ++state.counters->hit_tokens;
}

void count_one_holder_more(const Telling&, Snapshot& state) {
  for (BlockState& block : state.blocks) {
    if (block.ref_cnt > 0 && &block != state.blocks.data()) return void(++block.ref_cnt);
  }
}

void hide_a_key(const Telling&, Snapshot& state) {
  for (BlockState& block : state.blocks) {
    if (!block.hashed) continue;
    const auto id = BlockId(static_cast<std::uint32_t>(&block - state.blocks.data()));
    std::erase_if(state.index, [&](const IndexEntry& e) { return e.blocks.front() == id; });
    block.hashed = false;
    block.key = 0;
    block.tail_key.reset();
    std::erase_if(state.further_keys, [&](const FurtherKey& f) { return f.block == id; });
    return;
  }
}

void shorten_a_table(const Telling& t, Snapshot& state) {
  for (RequestState& r : state.requests) {
    if (r.name != request_of(t.operation)) continue;
    shorten(r.tables);
  }
}

void lengthen_a_table(const Telling& t, Snapshot& state) {
  for (RequestState& r : state.requests) {
    if (r.name != request_of(t.operation)) continue;
    for (auto& table : r.tables) table.push_back(table.empty() ? BlockId(1) : table.back());
  }
}

void swap_two_entries(const Telling& t, Snapshot& state) {
  for (RequestState& r : state.requests) {
    for (auto& table : r.tables) {
      if (r.name == request_of(t.operation) && table.size() > 1) std::swap(table[0], table[1]);
    }
  }
}

void forget_progress(const Telling& t, Snapshot& state) {
  for (RequestState& r : state.requests) {
    if (r.name != request_of(t.operation)) continue;
    for (auto& progress : r.progress) progress = progress.value_or(0) + 1;
  }
}

void change_a_hash(const Telling& t, Snapshot& state) {
  for (RequestState& r : state.requests) {
    if (r.name == request_of(t.operation) && !r.hashes.empty()) ++r.hashes.front();
  }
}

void forget_a_lease(const Telling&, Snapshot& state) {
  if (!state.leases.empty()) state.leases.pop_back();
}

void forget_a_raw_reference(const Telling&, Snapshot& state) {
  if (!state.raw.empty()) state.raw.pop_back();
}

void lose_a_host_block(const Telling&, Snapshot& state) {
  if (state.host.num_free > 0) --state.host.num_free;
}

OperationSet can_announce() {
  return operation_set(
      {"allocate", "cache", "evict", "reset", "take", "swap_in", "complete", "decode"});
}
OperationSet can_refuse() { return operation_set({"allocate", "take", "swap_out", "swap_in"}); }

template <Breach breach>
constexpr Lie rejects(std::string_view name) {
  return {.name = name,
          .sentence = "it rejects the call for that reason",
          .tell = reject<breach>,
          .show = nullptr,
          .about = all_operations,
          .is_a_code = breach != Breach::capacity};
}

constexpr Lie kLies[] = {
    rejects<Breach::unknown_request>("rejects_unknown_request"),
    rejects<Breach::duplicate_request>("rejects_duplicate_request"),
    rejects<Breach::nothing_to_allocate>("rejects_nothing_to_allocate"),
    rejects<Breach::hit_on_running>("rejects_hit_on_running"),
    rejects<Breach::stale_lookup>("rejects_stale_lookup"),
    rejects<Breach::computed_beyond_tokens>("rejects_computed_beyond_tokens"),
    rejects<Breach::block_out_of_range>("rejects_block_out_of_range"),
    rejects<Breach::not_held>("rejects_not_held"),
    rejects<Breach::capacity>("rejects_capacity"),
    rejects<Breach::published_tail>("rejects_published_tail"),
    rejects<Breach::no_content>("rejects_no_content"),
    rejects<Breach::unknown_lease>("rejects_unknown_lease"),
    rejects<Breach::duplicate_lease>("rejects_duplicate_lease"),
    rejects<Breach::unknown_transfer>("rejects_unknown_transfer"),
    rejects<Breach::duplicate_transfer>("rejects_duplicate_transfer"),
    rejects<Breach::in_transfer>("rejects_in_transfer"),
    rejects<Breach::not_in_transfer>("rejects_not_in_transfer"),
    {.name = "declines", .sentence = "it says that it does not do that", .tell = decline},
    {.name = "refuses",
     .sentence = "it says that there is not enough room",
     .tell = refuse,
     .about = can_refuse},
    {.name = "does_nothing",
     .sentence = "it answers rightly, and nothing has happened",
     .tell = do_nothing},
    {.name = "does_it_twice",
     .sentence = "it answers rightly, and it has happened twice",
     .tell = do_twice},
    {.name = "does_less",
     .sentence = "one token, one block or one flag is not as it was asked",
     .tell = do_less},
    {.name = "serves_another", .sentence = "it is done to another request", .tell = serve_another},
    {.name = "answers_the_call_before",
     .sentence = "the answer is that of the last call",
     .tell = answer_the_call_before},
    {.name = "answers_less",
     .sentence = "one block or one token too few is answered",
     .tell = answer_less},
    {.name = "answers_more",
     .sentence = "one block or one token too many is answered",
     .tell = answer_more},
    {.name = "announces_nothing",
     .sentence = "what entered or left the index is not announced",
     .tell = announce_nothing,
     .about = can_announce},
    {.name = "announces_twice",
     .sentence = "it is announced twice",
     .tell = announce_twice,
     .about = can_announce},
    {.name = "announces_late",
     .sentence = "it is announced with the next answer",
     .tell = announce_late,
     .about = can_announce},
    {.name = "shows_the_state_before",
     .sentence = "nothing seems to have changed",
     .show = show_the_state_before},
    {.name = "loses_a_block", .sentence = "the last free block is gone", .show = lose_a_block},
    {.name = "turns_the_queue", .sentence = "the queue stands on its head", .show = turn_the_queue},
    {.name = "miscounts_use", .sentence = "usage is a quarter too high", .show = miscount_use},
    {.name = "miscounts_hits",
     .sentence = "a hit token is counted that there was not",
     .show = miscount_hits},
    {.name = "counts_a_holder_more",
     .sentence = "a held block has a reference of nobody",
     .show = count_one_holder_more},
    {.name = "hides_a_key",
     .sentence = "the first block with a key shows none",
     .show = hide_a_key},
    {.name = "shortens_a_table", .sentence = "the last entry is missing", .show = shorten_a_table},
    {.name = "lengthens_a_table",
     .sentence = "the last entry stands twice",
     .show = lengthen_a_table},
    {.name = "swaps_two_entries",
     .sentence = "the first two entries have changed places",
     .show = swap_two_entries},
    {.name = "misstates_progress",
     .sentence = "one position more seems to be cached",
     .show = forget_progress},
    {.name = "changes_a_hash", .sentence = "the first hash is another", .show = change_a_hash},
    {.name = "forgets_a_lease", .sentence = "the last lease is missing", .show = forget_a_lease},
    {.name = "forgets_a_raw_reference",
     .sentence = "the raw owner holds one block less",
     .show = forget_a_raw_reference},
    {.name = "loses_a_host_block",
     .sentence = "the host tier has one free block less",
     .show = lose_a_host_block},
};

}  // namespace

std::span<const Lie> all_lies() { return kLies; }

}  // namespace kvproof::properties
