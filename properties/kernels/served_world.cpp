// SPDX-License-Identifier: Apache-2.0
#include "properties/kernels/served_world.h"

#include <algorithm>

#include "properties/kernels/served_rows.h"
#include "reference/identity.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using kernels::Bf16;

constexpr std::int32_t kBuffers = 16;  // of the contiguous cache, more than requests live at once

}  // namespace

ServedWorld::ServedWorld(std::unique_ptr<Subject> subject, const CacheConfig& config,
                         LayoutOrder order, const DataPath& path, std::uint64_t every,
                         DriveFault fault)
    : subject_(std::move(subject)),
      config_(config),
      path_(path),
      every_(every),
      fault_(fault),
      book_(config) {
  for (const GroupConfig& from : config.groups) {
    Group& group = groups_.emplace_back();
    group.block_size = static_cast<std::int32_t>(from.block_size);
    group.window =
        from.kind == LayerKind::sliding_window ? static_cast<std::int32_t>(from.window) : 0;
    group.layout = CacheLayout::packed(order, group.block_size, kKvHeads, kHeadSize);
    const auto longest = static_cast<std::int32_t>(config.max_model_len);
    group.apart = CacheLayout::packed(order, longest, kKvHeads, kHeadSize);
    const auto blocks = static_cast<std::size_t>(group.layout.block_stride);
    for (Elements* cache : {&group.key, &group.value}) cache->resize(config.num_blocks * blocks);
    for (Elements* cache : {&group.host_key, &group.host_value}) {
      cache->resize(config.num_host_blocks * blocks);
    }
    for (Elements* cache : {&group.apart_key, &group.apart_value}) {
      cache->resize(kBuffers * static_cast<std::size_t>(group.apart.block_stride));
    }
    for (BlockId block = 0; block < config.num_blocks; ++block) spoil(group, block);
  }
  for (std::int32_t i = kBuffers; i-- > 0;) free_buffers_.push_back(i);
  subject_->observe(state_);
}

Outcome ServedWorld::apply(const Operation& operation) {
  if (book_.breach(operation, state_) != nullptr) return {NotAsked{}, {}};
  if (const auto* o = std::get_if<op::Complete>(&operation)) complete(*o);
  Outcome outcome = subject_->apply(operation);
  subject_->observe(state_);
  if (is_undone(outcome.result)) {
    complain(error_text(outcome.result));
    return outcome;
  }
  book_.fold(operation, outcome.result);
  follow(operation, outcome.result);
  const bool all = ++operations_ % every_ == 0;
  decode(all ? std::string() : std::string(request_of(operation)));
  return outcome;
}

void ServedWorld::follow(const Operation& operation, const Result& result) {
  const auto* granted = std::get_if<Granted>(&result);
  if (const auto* arrival = std::get_if<op::Arrive>(&operation)) {
    arrive(*arrival);
  } else if (const auto* appended = std::get_if<op::Append>(&operation)) {
    append(*appended);
  } else if (const auto* forked = std::get_if<op::Fork>(&operation)) {
    fork(*forked);
  } else if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    if (granted != nullptr) grant(*allocate, *granted);
  } else if (std::holds_alternative<op::Take>(operation)) {
    for (std::size_t g = 0; granted != nullptr && g < granted->blocks.size(); ++g) {
      for (const BlockId block : granted->blocks[g]) {
        for (Group& group : groups_) spoil(group, block);
      }
    }
  } else if (std::holds_alternative<op::SwapIn>(operation)) {
    for (const Copy& copy : granted != nullptr ? granted->copies : std::vector<Copy>()) {
      for (Group& group : groups_) spoil(group, copy.to);
    }
  } else if (std::holds_alternative<op::Free>(operation)) {
    ++counts_.preemptions;
  } else if (const auto* finished = std::get_if<op::Finish>(&operation)) {
    free_buffers_.push_back(requests_.at(finished->req).buffer);
    requests_.erase(finished->req);
  }
}

void ServedWorld::arrive(const op::Arrive& o) {
  Request& request = requests_[o.req];
  request.buffer = free_buffers_.back();
  free_buffers_.pop_back();
  append({o.req, o.tokens});
}

/// Tokens that have slots already are drafts that were accepted: the step has written them.
void ServedWorld::append(const op::Append& o) {
  Request& request = requests_.at(o.req);
  const auto from = static_cast<std::uint32_t>(request.digests.size());
  for (const TokenId token : o.tokens) {
    const Identity before = request.digests.empty() ? kEmptyPrefix : request.digests.back();
    request.digests.push_back(link(before, token));
  }
  const RequestRecord& known = *book_.find(o.req);
  const auto to = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.digests.size(), known.scheduled_tokens));
  if (from >= to || !known.resident()) return;
  for (GroupId g = 0; g < groups_.size(); ++g) {
    write(groups_[g], g, request, state_.find(o.req)->tables[g], from, to, 0);
    write_apart(groups_[g], g, request, to);
  }
}

// The contiguous cache has no way to share: a child's buffer is a copy of its parent's.
void ServedWorld::fork(const op::Fork& o) {
  Request& child = requests_[o.child] = requests_.at(o.req);
  const std::int32_t from = child.buffer;
  child.buffer = free_buffers_.back();
  free_buffers_.pop_back();
  for (Group& group : groups_) {
    for (Elements* cache : {&group.apart_key, &group.apart_value}) {
      std::copy_n(cache->begin() + from * group.apart.block_stride, group.apart.block_stride,
                  cache->begin() + child.buffer * group.apart.block_stride);
    }
  }
}

void ServedWorld::grant(const op::Allocate& o, const Granted& granted) {
  for (GroupId g = 0; g < groups_.size(); ++g) {
    for (const BlockId block : granted.blocks[g]) spoil(groups_[g], block);
  }
  copy(granted.copies);
  const RequestState& now = *state_.find(o.req);
  const Request& request = requests_.at(o.req);
  const RequestRecord& known = *book_.find(o.req);
  const std::uint32_t hit = o.args.use_lookup ? known.hit.tokens : 0;
  const std::uint32_t from = now.computed + hit;
  const auto granted_to = static_cast<std::uint32_t>(known.scheduled_tokens);
  const std::uint32_t to = std::min(granted_to, now.num_tokens);
  const std::uint32_t drafts = granted_to - to + o.args.lookahead;
  counts_.found_tokens += hit;
  counts_.written_tokens += to - from;
  for (GroupId g = 0; g < groups_.size(); ++g) {
    write(groups_[g], g, request, now.tables[g], from, to, drafts);
    write_apart(groups_[g], g, request, to);
    if (to > from) prefill(groups_[g], request, now.tables[g], from, to);
  }
}

// The manager is told after the bytes have moved. A block id names the same block in every group,
// and only the group whose table holds it reads it.
void ServedWorld::complete(const op::Complete& o) {
  const TransferRecord& transfer = *book_.find_transfer(o.transfer);
  if (!o.ok || transfer.copies.empty()) return;
  ++(transfer.out ? counts_.swaps_out : counts_.swaps_in);
  if (faulty(transfer.out ? DriveFault::swap_out_skipped : DriveFault::swap_in_skipped)) return;
  std::vector<std::int64_t> pairs;
  for (const Copy& copy : transfer.copies) {
    pairs.push_back(copy.from);
    pairs.push_back(copy.to);
  }
  for (Group& group : groups_) {
    for (const auto& [here, there] :
         {std::pair{&group.key, &group.host_key}, std::pair{&group.value, &group.host_value}}) {
      Elements& from = transfer.out ? *here : *there;
      Elements& to = transfer.out ? *there : *here;
      demand(path_.swap_blocks->launch(
          {.from = from.data(),
           .to = to.data(),
           .pairs = pairs.data(),
           .num_pairs = static_cast<std::int64_t>(transfer.copies.size()),
           .block_bytes = group.layout.block_stride * std::int64_t{sizeof(Bf16)},
           .from_blocks = static_cast<std::int64_t>(from.size()) / group.layout.block_stride,
           .to_blocks = static_cast<std::int64_t>(to.size()) / group.layout.block_stride},
          {}));
    }
  }
}

// ---- bytes ----

void ServedWorld::spoil(Group& group, BlockId block) {
  const auto at = static_cast<std::int64_t>(block) * group.layout.block_stride;
  for (Elements* cache : {&group.key, &group.value}) {
    std::fill_n(cache->begin() + at, group.layout.block_stride, Bf16{0x7FC0});  // NaN
  }
}

void ServedWorld::copy(const std::vector<Copy>& copies) {
  std::vector<std::int64_t> pairs;
  for (const Copy& copy : copies) {
    ++counts_.fork_copies;
    if (faulty(DriveFault::fork_copy_skipped)) continue;
    pairs.push_back(copy.from);
    pairs.push_back(copy.to);
  }
  if (pairs.empty()) return;
  for (Group& group : groups_) {
    void* const caches[] = {group.key.data(), group.value.data()};
    const std::int64_t bytes = group.layout.block_stride * std::int64_t{sizeof(Bf16)};
    demand(path_.copy_blocks->launch({.caches = caches,
                                      .num_caches = 2,
                                      .pairs = pairs.data(),
                                      .num_pairs = static_cast<std::int64_t>(pairs.size() / 2),
                                      .block_stride = bytes,
                                      .block_bytes = bytes},
                                     {}));
  }
}

/// Computes tokens [from, to), and drafts of other content behind them, as far as the table goes.
void ServedWorld::write(Group& group, GroupId id, const Request& request,
                        const std::vector<BlockId>& table, std::uint32_t from, std::uint32_t to,
                        std::uint32_t drafts) {
  const auto room =
      static_cast<std::uint32_t>(table.size()) * static_cast<std::uint32_t>(group.block_size);
  const std::uint32_t end = std::min({to + drafts, room, config_.max_model_len});
  const auto tokens = static_cast<std::int32_t>(end - from);
  std::vector<std::int64_t> positions;
  // One row more, of padding.
  Elements key(static_cast<std::size_t>((tokens + 1) * kRow)), value(key.size());
  for (std::uint32_t p = from; p < end; ++p) {
    const std::uint64_t digest =
        in_group(p < to ? request.digests[p] : link(kUnjudged, ++dirt_), id);
    const std::int64_t at = static_cast<std::int64_t>(p - from) * kRow;
    fill(digest, key.data() + at, kRow);
    fill(of_value(digest), value.data() + at, kRow);
    positions.push_back(p);
  }
  const std::vector<std::int32_t> row = row_of(table);
  const std::int32_t starts[] = {0, tokens};
  std::vector<SlotId> slots(static_cast<std::size_t>(tokens) + 1);
  demand(path_.slot_mapping->launch({.block_tables = row.data(),
                                     .table_stride = static_cast<std::int64_t>(row.size()),
                                     .table_width = static_cast<std::int32_t>(row.size()),
                                     .block_size = group.block_size,
                                     .query_starts = starts,
                                     .positions = positions.data(),
                                     .num_seqs = 1,
                                     .num_tokens = tokens,
                                     .slots = slots.data(),
                                     .num_slots = tokens + 1},
                                    {}));
  if (faulty(DriveFault::slot_shifted)) std::rotate(slots.begin(), slots.begin() + 1, slots.end());
  demand(path_.reshape_and_cache->launch({.key = key.data(),
                                          .value = value.data(),
                                          .num_rows = tokens + 1,
                                          .key_token_stride = kRow,
                                          .value_token_stride = kRow,
                                          .key_cache = group.key.data(),
                                          .value_cache = group.value.data(),
                                          .key_layout = group.layout,
                                          .value_layout = group.layout,
                                          .slot_mapping = slots.data(),
                                          .num_tokens = tokens + 1,
                                          .num_heads = kKvHeads,
                                          .head_size = kHeadSize,
                                          .value_head_size = kHeadSize},
                                         {}));
}

/// The contiguous cache computes every token itself, also those that the paged cache found.
void ServedWorld::write_apart(Group& group, GroupId id, const Request& request, std::uint32_t to) {
  for (std::uint32_t p = 0; p < to; ++p) {
    const std::uint64_t digest = in_group(request.digests[p], id);
    Elements key(kRow), value(kRow);
    fill(digest, key.data(), kRow);
    fill(of_value(digest), value.data(), kRow);
    for (std::int32_t head = 0; head < kKvHeads; ++head) {
      const std::int64_t at = group.apart.row(request.buffer, static_cast<std::int32_t>(p), head);
      std::copy_n(key.begin() + head * kHeadSize, kHeadSize, group.apart_key.begin() + at);
      std::copy_n(value.begin() + head * kHeadSize, kHeadSize, group.apart_value.begin() + at);
    }
  }
}

// ---- faults ----

/// Takes the third chance, because the first ones may have no effect on any request.
bool ServedWorld::faulty(DriveFault kind) { return kind == fault_ && ++chances_ >= 3; }

void ServedWorld::demand(const kernels::Refusal& refusal) {
  if (refusal) complain(refusal.reason);
}

void ServedWorld::complain(std::string text) {
  if (!wrong_) wrong_ = std::move(text);
}

}  // namespace kvproof::properties
