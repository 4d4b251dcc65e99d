// SPDX-License-Identifier: Apache-2.0
#include "reference/cache_manager.h"

#include <algorithm>
#include <stdexcept>

#include "reference/contract.h"

namespace kvproof::reference {

CacheManager::CacheManager(const CacheConfig& config) : config_(config), pool_(config) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the naive cache manager does not support " + std::string(*why));
  }
}

Outcome CacheManager::apply(const Operation& operation) {
  Outcome outcome;
  try {
    outcome.result = std::visit([this](const auto& o) { return perform(o); }, operation);
  } catch (const ContractViolation& violation) {
    outcome.result = Rejected{violation.what()};
  }
  outcome.events = pool_.take_events();
  return outcome;
}

Result CacheManager::perform(const op::Arrive& o) {
  expects(!requests_.contains(o.req), Breach::duplicate_request, "arrive with a name in use");
  expects(o.tokens.size() <= config_.max_model_len, Breach::capacity,
          "a prompt beyond the token limit");
  Request& arrived = requests_[o.req];
  arrived.extra = o.extra;
  arrived.skip_lookup = o.skip_lookup;
  add_tokens(arrived, o.tokens);
  return {};
}

Result CacheManager::perform(const op::Append& o) {
  Request& r = request(o.req);
  expects(r.tokens.size() + o.tokens.size() <= config_.max_model_len, Breach::capacity,
          "append beyond the token limit");
  add_tokens(r, o.tokens);
  return {};
}

Result CacheManager::perform(const op::Advance& o) {
  Request& r = request(o.req);
  expects(o.computed <= r.tokens.size(), Breach::computed_beyond_tokens,
          "advance beyond the tokens");
  r.computed = o.computed;
  return {};
}

// The last token is always computed anew: its output is what the request came for.
Result CacheManager::perform(const op::Lookup& o) {
  Request& r = request(o.req);
  r.hit.clear();
  const std::uint32_t block_size = config_.groups.front().block_size;
  if (config_.enable_caching && !r.skip_lookup && !r.tokens.empty()) {
    const auto limit = static_cast<std::uint32_t>(r.tokens.size() - 1) / block_size;
    for (std::uint32_t i = 0; i < limit; ++i) {
      const auto block = pool_.cache().find(key(r, i));
      if (!block) break;  // the first gap ends the prefix
      r.hit.push_back(*block);
    }
  }
  return Hit{static_cast<std::uint32_t>(r.hit.size()) * block_size, {r.hit}};
}

// Order matters: everything that can refuse comes before anything that changes.
Result CacheManager::perform(const op::Allocate& o) {
  Request& r = request(o.req);
  const AllocateArgs& args = o.args;
  expects(args.new_tokens > 0 || args.external > 0, Breach::nothing_to_allocate,
          "allocate without new and without external tokens");
  const std::vector<BlockId> hit = args.use_lookup ? r.hit : std::vector<BlockId>{};
  if (!hit.empty()) check_hit(r);

  const std::uint64_t block_size = config_.groups.front().block_size;
  const std::uint64_t limit = config_.max_model_len;
  const std::uint64_t local = r.computed + hit.size() * block_size;
  const std::uint64_t known = std::min(local + args.external, limit);

  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::uint64_t watermark = admission ? config_.watermark_blocks() : 0;
  const std::uint64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  const std::uint64_t free = pool_.num_free();
  if (args.full_sequence_must_fit) {
    const std::uint64_t whole = std::min<std::uint64_t>(r.tokens.size(), limit);
    if (need(r, whole, hit) + watermark > free) return Refused{};
  }
  const std::uint64_t slots = std::min(known + args.new_tokens + args.lookahead, limit);
  if (need(r, slots, hit) + watermark + reserved > free) return Refused{};

  if ((!hit.empty() || args.external > 0) && !r.published && r.table.empty()) {
    pool_.touch(hit);  // before taking new blocks: a hit may stand in the free queue
    r.table = hit;
    r.published = static_cast<std::uint32_t>(r.table.size());
    const std::uint64_t loaded =
        args.external > 0 ? ceil_div(local + args.external, block_size) : 0;
    if (loaded > r.table.size()) {
      const auto blocks = pool_.take(static_cast<std::uint32_t>(loaded - r.table.size()));
      r.table.insert(r.table.end(), blocks.begin(), blocks.end());
    }
  }
  const std::uint64_t wanted = ceil_div(slots, block_size);
  std::vector<BlockId> taken;
  if (wanted > r.table.size())
    taken = pool_.take(static_cast<std::uint32_t>(wanted - r.table.size()));
  r.table.insert(r.table.end(), taken.begin(), taken.end());
  // Drafts beyond the tokens that exist are never published: they may be rejected.
  if (!args.delay_cache)
    publish(r, std::min<std::uint64_t>(known + args.new_tokens, r.tokens.size()));
  return Granted{{taken}};
}

Result CacheManager::perform(const op::Free& o) {
  Request& r = request(o.req);
  release_table(r);
  r.computed = 0;
  return {};
}

Result CacheManager::perform(const op::Finish& o) {
  release_table(request(o.req));
  requests_.erase(o.req);
  return {};
}

Result CacheManager::perform(const op::Recycle& o) {
  request(o.req);  // full attention reads every token: nothing ever leaves its window
  return {};
}

Result CacheManager::perform(const op::Cache& o) {
  publish(request(o.req), o.computed);
  return {};
}

Result CacheManager::perform(const op::Evict& o) {
  for (BlockId block : o.blocks) {
    expects(block < pool_.num_blocks(), Breach::block_out_of_range, "evict of an unknown block");
  }
  pool_.evict(o.blocks);
  return {};
}

Result CacheManager::perform(const op::Reset&) { return pool_.reset(); }

Result CacheManager::perform(const op::CommonPrefix& o) {
  std::size_t shared = request(o.req).table.size();
  const std::vector<BlockId>& mine = request(o.req).table;
  if (!config_.enable_caching) shared = 0;
  for (const auto& [name, other] : requests_) {
    if (other.table.empty()) continue;
    const std::size_t reach = std::min(shared, other.table.size());
    shared = static_cast<std::size_t>(
        std::mismatch(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(reach),
                      other.table.begin())
            .first -
        mine.begin());
  }
  return SharedBlocks{static_cast<std::uint32_t>(shared)};
}

Result CacheManager::perform(const op::Step&) { return {}; }

Result CacheManager::perform(const op::Take& o) {
  if (o.n > pool_.num_free()) return Refused{};
  std::vector<BlockId> blocks = pool_.take(o.n);
  raw_.insert(raw_.end(), blocks.begin(), blocks.end());
  return Granted{{std::move(blocks)}};
}

Result CacheManager::perform(const op::Touch& o) {
  for (BlockId block : o.blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "touch of a block that cannot be held");
  }
  pool_.touch(o.blocks);
  raw_.insert(raw_.end(), o.blocks.begin(), o.blocks.end());
  return {};
}

Result CacheManager::perform(const op::Release& o) {
  std::vector<BlockId> left = raw_;
  for (BlockId block : o.blocks) {
    const auto at = std::find(left.begin(), left.end(), block);
    expects(at != left.end(), Breach::not_held,
            "release of a block that the raw owner does not hold");
    left.erase(at);
  }
  raw_ = std::move(left);
  pool_.release(o.blocks);
  return {};
}

CacheManager::Request& CacheManager::request(const std::string& name) {
  const auto at = requests_.find(name);
  expects(at != requests_.end(), Breach::unknown_request, "no request of that name");
  return at->second;
}

// Blocks that leave the free queue if `tokens` tokens get slots. A hit that stands in the queue
// counts: nobody holds it, so it is free now and will not be afterwards.
std::uint32_t CacheManager::need(const Request& r, std::uint64_t tokens,
                                 const std::vector<BlockId>& hit) const {
  const std::uint64_t wanted = ceil_div<std::uint64_t>(tokens, config_.groups.front().block_size);
  const std::uint64_t have = hit.size() + r.table.size();
  const auto fresh = static_cast<std::uint32_t>(wanted > have ? wanted - have : 0);
  const auto revived = std::count_if(hit.begin(), hit.end(),
                                     [this](BlockId block) { return pool_.ref_cnt(block) == 0; });
  return fresh + static_cast<std::uint32_t>(revived);
}

void CacheManager::add_tokens(Request& r, const std::vector<TokenId>& tokens) {
  const std::uint32_t unit = config_.hash_block_size;
  r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
  while (r.tokens.size() >= (r.contents.size() + 1) * unit) {
    const auto start = static_cast<std::uint32_t>(r.contents.size()) * unit;
    const ContentId parent = r.contents.empty() ? ContentBook::kEmptyPrefix : r.contents.back();
    r.contents.push_back(book_->name(parent, std::span(r.tokens).subspan(start, unit),
                                     unit_extra(r.extra, start, start + unit)));
  }
}

PrefixKey CacheManager::key(const Request& r, std::size_t block) const {
  return {0, r.contents[block], static_cast<std::uint32_t>(block + 1) * config_.hash_block_size};
}

void CacheManager::publish(Request& r, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const std::uint32_t block_size = config_.groups.front().block_size;
  const std::uint32_t from = r.published.value_or(0);
  const auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      std::min<std::uint64_t>(tokens, r.tokens.size()) / block_size, r.table.size()));
  if (from >= to) return;
  std::vector<BlockId> blocks(r.table.begin() + from, r.table.begin() + to);
  std::vector<PrefixKey> keys;
  for (std::uint32_t i = from; i < to; ++i) keys.push_back(key(r, i));
  pool_.publish(blocks, keys, from * block_size, to * block_size);
  r.published = to;
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
void CacheManager::release_table(Request& r) {
  pool_.release({r.table.rbegin(), r.table.rend()});
  r.table.clear();
  r.published.reset();
  r.hit.clear();
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
void CacheManager::check_hit(const Request& r) const {
  expects(r.table.empty() && !r.published, Breach::hit_on_running,
          "a looked-up prefix for a request that already has blocks");
  for (std::size_t i = 0; i < r.hit.size(); ++i) {
    const PrefixKey* carried = pool_.cache().key_of(r.hit[i]);
    expects(carried != nullptr && *carried == key(r, i), Breach::stale_lookup,
            "a looked-up block has lost its content");
  }
}

void CacheManager::observe(Snapshot& out) const {
  const std::uint32_t n = pool_.num_blocks();
  out.num_free = pool_.num_free();
  out.usage = 1.0 - static_cast<double>(out.num_free) / static_cast<double>(n - 1);
  out.queue.assign(pool_.queue().begin(), pool_.queue().end());
  out.queue_backward.assign(pool_.queue().rbegin(), pool_.queue().rend());
  out.blocks.assign(n, {});
  for (BlockId block = 0; block < n; ++block) {
    BlockState& state = out.blocks[block];
    state.ref_cnt = pool_.ref_cnt(block);
    if (const PrefixKey* carried = pool_.cache().key_of(block)) {
      state.hashed = true;
      state.group = carried->group;
      state.key = carried->content;
      state.prefix_tokens = carried->prefix_tokens;
    }
  }
  for (BlockId block : out.queue) out.blocks[block].linked = true;
  out.index.clear();
  for (const auto& [carried, blocks] : pool_.cache().entries()) {
    out.index.push_back({carried.group, carried.content, blocks});
  }
  std::ranges::sort(out.index, {}, [](const IndexEntry& e) { return e.blocks.front(); });
  out.requests.clear();
  for (const auto& [name, r] : requests_) {
    RequestState& state = out.requests.emplace_back();
    state.name = name;
    state.num_tokens = static_cast<std::uint32_t>(r.tokens.size());
    state.computed = r.computed;
    if (config_.enable_caching) state.hashes.assign(r.contents.begin(), r.contents.end());
    state.tables = {r.table};
    state.progress = {r.published};
  }
  out.raw = raw_;
  std::ranges::sort(out.raw);
}

}  // namespace kvproof::reference
