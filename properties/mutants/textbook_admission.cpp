// SPDX-License-Identifier: Apache-2.0
// The textbook allocator's pool and admission: who takes which block, and whether it may.
#include <algorithm>
#include <utility>

#include "properties/mutants/textbook.h"

namespace kvproof::properties {

Result Textbook::run(const op::Allocate& o) {
  Sequence& s = sequence(o.req);
  require(o.args.new_tokens > 0 || o.args.external > 0, "nothing to allocate");
  std::vector<BlockId> hit;
  if (o.args.use_lookup) hit = s.found;
  if (!hit.empty()) check_hit(s);
  require(s.computed + hit.size() * block_size_ + o.args.external <= config_.max_model_len,
          "capacity: external tokens beyond the token limit");
  const Plan p = plan(s, o.args, hit.size());
  const bool first = s.table.empty() && !s.cached;
  if (is(Fault::touch_before_check) && first) touch(hit);
  if (!fits(s, o.args, p, hit)) {
    if (is(Fault::rollback_to_tail) && !free_.empty()) {  // took what there was, and gives it back
      free_.push_back(free_.front());
      free_.pop_front();
    }
    return Refused{};
  }
  std::vector<BlockId> fresh;
  std::vector<Copy> copies;
  for (const std::size_t at : to_copy(s, p)) {
    const BlockId copy = take(1).front();
    copies.push_back({s.table[at], copy});
    free({std::exchange(s.table[at], copy)});
  }
  if (is(Fault::take_before_touch) && first && !hit.empty() && p.loaded_blocks == 0) {
    fresh = take(p.end_blocks - std::min<std::uint64_t>(hit.size(), p.end_blocks));
    touch(hit);
    s.table = hit;
    s.cached = static_cast<std::uint32_t>(hit.size());
  } else {
    if (first && (!hit.empty() || p.loaded_blocks > 0)) admit(s, p, hit);
    fresh = take(p.end_blocks - std::min<std::uint64_t>(s.table.size(), p.end_blocks));
  }
  s.table.insert(s.table.end(), fresh.begin(), fresh.end());
  if (!o.args.delay_cache) publish(s, p.publish_tokens);
  std::vector<BlockId> answer;
  for (const Copy& copy : copies) answer.push_back(copy.to);
  answer.insert(answer.end(), fresh.begin(), fresh.end());
  return Granted{{answer}, copies};
}

// Positions about to be written whose block the raw owner holds, too.
std::vector<std::size_t> Textbook::to_copy(const Sequence& s, const Plan& p) const {
  std::vector<std::size_t> out;
  const std::size_t end = std::min<std::size_t>(p.end_blocks, s.table.size());
  std::size_t at = std::max<std::size_t>(p.first_written, s.cached.value_or(0));
  for (; at < end; ++at) {
    if (blocks_[s.table[at]].refs > 1) out.push_back(at);
  }
  return out;
}

// The looked-up blocks, then room for what a connector loads. None of it is in the answer.
void Textbook::admit(Sequence& s, const Plan& p, const std::vector<BlockId>& hit) {
  if (!is(Fault::touch_before_check)) touch(hit);
  s.table = hit;
  s.cached = static_cast<std::uint32_t>(hit.size());
  if (p.loaded_blocks <= hit.size()) return;
  const std::vector<BlockId> loaded = take(p.loaded_blocks - hit.size());
  s.table.insert(s.table.end(), loaded.begin(), loaded.end());
}

void Textbook::check_hit(const Sequence& s) const {
  require(s.table.empty() && !s.cached, "a prefix for a running request");
  if (is(Fault::stale_hit_accepted)) return;
  for (std::size_t i = 0; i < s.found.size(); ++i) {
    const Block& b = blocks_[s.found[i]];
    require(b.hashed && b.hash == s.hashes[i], "the looked-up prefix is gone");
  }
}

Textbook::Plan Textbook::plan(const Sequence& s, const AllocateArgs& args,
                              std::uint64_t hit_blocks) const {
  const std::uint64_t limit = config_.max_model_len;
  const std::uint64_t computed = s.computed + hit_blocks * block_size_;
  const std::uint64_t known = std::min(computed + args.external, limit);
  Plan p;
  if (args.external > 0)
    p.loaded_blocks = ceil_div<std::uint64_t>(computed + args.external, block_size_);
  p.end_blocks = ceil_div<std::uint64_t>(std::min(known + args.new_tokens + args.lookahead, limit),
                                         block_size_);
  p.first_written = (computed + args.external) / block_size_;
  p.publish_tokens = std::min<std::uint64_t>(known + args.new_tokens, s.tokens.size());
  return p;
}

bool Textbook::fits(const Sequence& s, const AllocateArgs& args, const Plan& p,
                    const std::vector<BlockId>& hit) const {
  const std::uint64_t have = s.table.size() + hit.size();
  // A hit may stand in the free list. Then it is free now, and will not be.
  std::uint64_t queued = 0;
  for (BlockId block : hit) queued += blocks_[block].refs == 0 ? 1 : 0;
  if (is(Fault::check_ignores_queued_hits)) queued = 0;
  const auto missing = [&](std::uint64_t end) { return (end > have ? end - have : 0) + queued; };
  const auto copied = [&](std::uint64_t end) {
    Plan until = p;
    until.end_blocks = end;
    return to_copy(s, until).size();
  };
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::uint64_t keep = admission ? config_.watermark_blocks() : 0;
  if (args.full_sequence_must_fit) {
    const std::uint64_t whole = std::min<std::uint64_t>(
        is(Fault::gate_reserves_chunk_only) ? args.new_tokens : s.tokens.size(),
        config_.max_model_len);
    const std::uint64_t end = ceil_div<std::uint64_t>(whole, block_size_);
    if (missing(end) + copied(end) + keep > free_.size()) return false;
  }
  std::uint64_t need = missing(p.end_blocks);
  if (is(Fault::check_ignores_partial_block))
    need = ceil_div(args.new_tokens + args.lookahead, block_size_) + queued;
  need += to_copy(s, p).size();
  const std::uint64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  return need + keep + reserved <= free_.size();
}

// ---- the pool ----

std::vector<BlockId> Textbook::take(std::uint64_t n) {
  require(n <= free_.size(), "no free blocks available");
  std::vector<BlockId> out;
  for (; n > 0; --n) {
    const BlockId block = free_.front();
    free_.pop_front();
    if (is(Fault::take_keeps_index_entry)) {
      blocks_[block].hashed = false;
    } else {
      unpublish(block);
    }
    if (!is(Fault::take_without_reference)) blocks_[block].refs = 1;
    out.push_back(block);
  }
  return out;
}

void Textbook::touch(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) {
    if (blocks_[block].refs == 0 && !is(Fault::touch_leaves_queued)) {
      free_.erase(std::remove(free_.begin(), free_.end(), block), free_.end());
    }
    ++blocks_[block].refs;
  }
}

void Textbook::free(const std::vector<BlockId>& blocks) {
  std::vector<BlockId> released;
  if (is(Fault::free_queues_duplicates)) {  // two passes, as if every id came once
    for (BlockId block : blocks) --blocks_[block].refs;
    for (BlockId block : blocks) {
      if (blocks_[block].refs == 0) released.push_back(block);
    }
  } else {
    for (BlockId block : blocks) {
      if (--blocks_[block].refs == 0) released.push_back(block);
    }
  }
  enqueue(released);
}

void Textbook::enqueue(const std::vector<BlockId>& blocks) {
  const FreeOrder order =
      config_.enable_caching ? config_.profile.caching_on : config_.profile.caching_off;
  const auto to_front = [&](BlockId block) {
    return order == FreeOrder::prepend ||
           (order == FreeOrder::unhashed_first && !blocks_[block].hashed);
  };
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (to_front(*block)) free_.push_front(*block);
  }
  for (BlockId block : blocks) {
    if (!to_front(block)) free_.push_back(block);
  }
}

void Textbook::free_table(Sequence& s) {
  if (!is(Fault::free_parents_first)) std::reverse(s.table.begin(), s.table.end());
  free(s.table);
  s.table.clear();
  s.cached.reset();
  s.found.clear();
}

// ---- the raw owner ----

Result Textbook::run(const op::Take& o) {
  if (o.n > free_.size()) return Refused{};
  std::vector<BlockId> out = take(o.n);
  raw_.insert(raw_.end(), out.begin(), out.end());
  return Granted{{std::move(out)}};
}

Result Textbook::run(const op::Touch& o) {
  for (BlockId block : o.blocks)
    require(block != kNullBlock && block < blocks_.size(), "touch of no block");
  touch(o.blocks);
  raw_.insert(raw_.end(), o.blocks.begin(), o.blocks.end());
  return {};
}

Result Textbook::run(const op::Release& o) {
  std::vector<BlockId> left = raw_;
  for (BlockId block : o.blocks) {
    const auto held = std::find(left.begin(), left.end(), block);
    require(held != left.end(), "release of a block that is not held");
    left.erase(held);
  }
  raw_ = std::move(left);
  free(o.blocks);
  return {};
}

}  // namespace kvproof::properties
