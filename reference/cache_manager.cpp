// SPDX-License-Identifier: Apache-2.0
#include "reference/cache_manager.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "reference/contract.h"
#include "reference/decode_calls.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"
#include "reference/prefix_search.h"

namespace kvproof::reference {
namespace {

FreeOrder order_of(const CacheConfig& config) {
  return config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
}

}  // namespace

std::unique_ptr<Subject> make_cache_manager(const CacheConfig& config) {
  return std::make_unique<CacheManager>(config);
}

CacheManager::CacheManager(const CacheConfig& config)
    : config_(with_eagle_kin(config)),
      pool_(config.num_blocks, order_of(config)),
      host_(config.num_host_blocks, order_of(config)),
      copying_(config.groups.size()) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the naive cache manager does not support " + std::string(*why));
  }
  for (GroupId g = 0; g < config.groups.size(); ++g) layer_groups_.emplace_back(config_, g);
}

Outcome CacheManager::apply(const Operation& operation) {
  Outcome outcome;
  last_need_.reset();
  try {
    outcome.result = std::visit([this](const auto& o) { return perform(o); }, operation);
  } catch (const ContractViolation& violation) {
    outcome.result = result_of_error(violation.what());
  }
  outcome.events = pool_.take_events();
  host_.take_events();  // only this manager reads the host tier: its events are not announced
  return outcome;
}

Result CacheManager::perform(const op::Arrive& o) {
  expects(!requests_.contains(o.req), Breach::duplicate_request, "arrive with a name in use");
  expects(o.tokens.size() <= config_.max_model_len, Breach::capacity,
          "a prompt beyond the token limit");
  Request& arrived = requests_[o.req];
  arrived.extra = o.extra;
  arrived.skip_lookup = o.skip_lookup;
  arrived.encoder_tokens = o.encoder_tokens;
  arrived.prompt_tokens = o.tokens.size();
  arrived.groups.resize(config_.groups.size());
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
  CommonHit hit{.patterns = std::vector<Pattern>(config_.groups.size()),
                .found = std::vector<std::uint64_t>(config_.groups.size())};
  if (config_.enable_caching && !r.skip_lookup && !r.tokens.empty()) {
    const std::uint64_t hashed = hashed_tokens(r);
    const auto cached = [&](GroupId g, std::uint64_t tokens) {
      return tokens <= hashed && pool_.cache().find(key(r, g, tokens)).has_value();
    };
    const std::uint64_t limit =
        std::min<std::uint64_t>(r.tokens.size() - 1, o.max_tokens.value_or(~0U));
    if (config_.groups.size() > 1) {
      hit = longest_common_hit(config_, limit, hashed, cached);
    } else {
      const GroupConfig& only = config_.groups.front();
      const GroupHit found = longest_hit(only, {limit, only.block_size, only.eagle},
                                         [&](std::uint64_t tokens) { return cached(0, tokens); });
      hit = {static_cast<std::uint32_t>(found.tokens), {found.read}, {found.found}};
    }
  }
  r.hit_tokens = hit.tokens;
  r.junction = hit.longest > hit.tokens ? hit.longest : 0;
  Hit answer{hit.tokens, {}};
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    const Pattern& read = hit.patterns[g];
    Blocks& blocks = r.groups[g].hit;
    r.groups[g].hit_found = hit.found[g];
    blocks.assign(read.size(), kNullBlock);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i]) blocks[i] = *pool_.cache().find(key(r, g, hit_end(r, g, i)));
    }
    answer.blocks.push_back(blocks);
  }
  return answer;
}

Demand CacheManager::demand_of(const Request& r, const AllocateArgs& args,
                               std::uint64_t local) const {
  const std::uint64_t limit = config_.max_model_len;
  const std::uint64_t total = local + args.external;
  expects(total <= limit, Breach::capacity, "external tokens beyond the token limit");
  const std::uint64_t main = std::min(total + args.new_tokens, limit);
  const std::size_t last = std::max<std::size_t>(r.tokens.size(), 1) - 1;
  return {.slots = std::min(main + args.lookahead, limit),
          .main = main,
          .computed = total,
          .local = local,
          .external = args.external,
          .encoder = r.encoder_tokens,
          .prompt = static_cast<std::uint32_t>(r.prompt_tokens),
          .prefill_end = std::max<std::uint64_t>(r.prompt_tokens, last)};
}

// Order matters: every check that can refuse comes before anything that changes the manager. Only
// blocks out of the window are given back in between, because no answer needs them any more.
Result CacheManager::perform(const op::Allocate& o) {
  Request& r = resident(o.req);
  const AllocateArgs& args = o.args;
  const bool use_hit = args.use_lookup && std::ranges::any_of(r.groups, [](const GroupTable& t) {
                         return !t.hit.empty();
                       });
  const bool adopts = config_.profile.grants_hits_alone && use_hit;
  expects(args.new_tokens > 0 || args.external > 0 || adopts, Breach::nothing_to_allocate,
          "allocate without new and without external tokens");
  if (use_hit) check_hit(r);

  Demand demand = demand_of(r, args, std::uint64_t{r.computed} + (use_hit ? r.hit_tokens : 0U));
  const bool idle = !running(r) && std::ranges::all_of(r.groups, [](const GroupTable& t) {
    return t.blocks.empty();
  });
  demand.starts = idle && (use_hit || args.external > 0);
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::int64_t watermark = admission ? config_.watermark_blocks() : 0;
  const std::int64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  const auto refuse = [&] {
    ++pool_.work().refusals;
    return Refused{};
  };
  if (args.full_sequence_must_fit) {
    Demand all = demand;
    all.slots = all.main = r.tokens.size();
    all.capped = true;
    if (need(r, use_hit, all) + watermark > pool_.num_free()) return refuse();
  }
  const std::uint64_t processed =
      demand.computed - std::min<std::uint64_t>(args.in_flight, demand.computed);
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    layer_groups_[g].recycle(r.groups[g], processed, r.prompt_tokens, pool_);
  }
  if (need(r, use_hit, demand) + watermark + reserved > pool_.num_free()) return refuse();
  note_states(r, demand);

  // All hits before any taking: a hit may stand in the free queue, and a group must not take it
  // from another.
  for (GroupId g = 0; demand.starts && g < r.groups.size(); ++g) {
    const Blocks hit = use_hit ? r.groups[g].hit : Blocks{};
    layer_groups_[g].add_hit(r.groups[g], hit, demand, pool_);
  }
  for (GroupId g = 0; demand.starts && g < r.groups.size(); ++g) {
    layer_groups_[g].add_external(r.groups[g], demand, pool_);
  }
  const bool resumed = args.status == RequestStatus::preempted;
  if (args.use_lookup && idle && !resumed) count(r, use_hit);
  Granted granted = grow(r, demand);
  // Drafts, which lie beyond the tokens that exist, are never published: they may be rejected.
  if (!args.delay_cache) publish(r, std::min<std::uint64_t>(demand.main, r.tokens.size()));
  return granted;
}

void CacheManager::count(const Request& r, bool use_hit) {
  if (!config_.enable_caching || r.skip_lookup || r.tokens.empty()) return;
  ++counters_.lookups;
  counters_.lookup_tokens += r.tokens.size() - 1;
  counters_.hit_tokens += use_hit ? r.hit_tokens : 0;
}

Result CacheManager::perform(const op::Free& o) {
  Request& r = request(o.req);
  expects(r.transfer.empty(), Breach::in_transfer, "free while a transfer is in flight");
  release_tables(r);
  release_host(r);
  r.computed = 0;
  ++pool_.work().preemptions;
  return {};
}

Result CacheManager::perform(const op::Finish& o) {
  Request& r = request(o.req);
  expects(r.transfer.empty(), Breach::in_transfer, "finish while a transfer is in flight");
  release_tables(r);
  release_host(r);
  requests_.erase(o.req);
  return {};
}

Result CacheManager::perform(const op::Recycle& o) {
  Request& r = resident(o.req);
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    layer_groups_[g].recycle(r.groups[g], o.processed, r.prompt_tokens, pool_);
  }
  return {};
}

Result CacheManager::perform(const op::Cache& o) {
  publish(resident(o.req), o.computed);
  return {};
}

Result CacheManager::perform(const op::Evict& o) {
  for (BlockId block : o.blocks) {
    expects(block < pool_.num_blocks(), Breach::block_out_of_range, "evict of an unknown block");
  }
  pool_.evict(o.blocks);
  return {};
}

// Resets both tiers or neither: content that is stale in one is stale in the other.
Result CacheManager::perform(const op::Reset&) {
  if (!pool_.all_free() || !host_.all_free()) return false;
  pool_.reset();
  host_.reset();
  return true;
}

Result CacheManager::perform(const op::CommonPrefix& o) {
  const Request& mine = request(o.req);
  SharedBlocks out;
  for (GroupId g = 0; g < mine.groups.size(); ++g) {
    const Blocks& table = mine.groups[g].blocks;
    std::size_t shared = config_.profile.counts_common_prefix && config_.enable_caching &&
                                 reads_all(config_.groups[g].kind)
                             ? table.size()
                             : 0;
    for (const auto& [name, other] : requests_) {
      const Blocks& theirs = other.groups[g].blocks;
      if (theirs.empty()) continue;
      const auto reach = static_cast<std::ptrdiff_t>(std::min(shared, theirs.size()));
      const auto differ = std::mismatch(table.begin(), table.begin() + reach, theirs.begin()).first;
      shared = static_cast<std::size_t>(differ - table.begin());
    }
    out.push_back(static_cast<std::uint32_t>(shared));
  }
  return out;
}

Result CacheManager::perform(const op::Step&) {
  pool_.release(copying());
  for (Blocks& held : copying_) held.clear();
  new_states_.clear();
  pool_.step();
  return {};
}

// All of the batch, or nothing: the calls are made on a copy.
Result CacheManager::perform(const op::Decode& o) {
  expects(o.tokens.size() == o.reqs.size(), Breach::capacity,
          "a batch that has not one token for each request");
  CacheManager next = *this;
  const auto computed = [&](const std::string& req) { return next.request(req).computed; };
  Result out = by_three_calls(o, computed, [&](const Operation& call) {
    return std::visit([&](const auto& one) { return next.perform(one); }, call);
  });
  *this = std::move(next);
  return out;
}

CacheManager::Request& CacheManager::request(const std::string& name) {
  const auto at = requests_.find(name);
  expects(at != requests_.end(), Breach::unknown_request, "no request of that name");
  return at->second;
}

CacheManager::Request& CacheManager::resident(const std::string& name) {
  Request& r = request(name);
  expects(r.transfer.empty() && r.host.empty(), Breach::in_transfer,
          "the blocks of the request are not in the device pool");
  return r;
}

void CacheManager::add_tokens(Request& r, const std::vector<TokenId>& tokens) {
  const std::uint32_t unit = config_.hash_block_size;
  r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
  if (!config_.enable_caching) return;
  const std::uint32_t ahead = config_.hash_lookahead;
  while (r.tokens.size() >= (r.contents.size() + 1) * unit + ahead) {
    const auto start = static_cast<std::uint32_t>(r.contents.size()) * unit;
    const ContentId parent = r.contents.empty() ? ContentBook::kEmptyPrefix : r.contents.back();
    std::vector<std::string> extra = unit_extra(r.extra, start, start + unit + ahead);
    for (std::uint32_t i = 0; i < ahead; ++i) {
      extra.push_back("next:" + std::to_string(r.tokens[start + unit + i]));
    }
    r.contents.push_back(
        book_->name(parent, std::span(r.tokens).subspan(start, unit), std::move(extra)));
  }
}

// The content of a block is the content of the last hash unit in it, which stands for the whole
// prefix.
PrefixKey CacheManager::key(const Request& r, GroupId group, std::uint64_t tokens) const {
  return {group, r.contents[tokens / config_.hash_block_size - 1],
          static_cast<std::uint32_t>(tokens)};
}

std::uint64_t CacheManager::hit_end(const Request& r, GroupId group, std::size_t block) const {
  return std::min((block + 1) * std::uint64_t{config_.groups[group].block_size},
                  r.groups[group].hit_found);
}

std::uint64_t CacheManager::hashed_tokens(const Request& r) const {
  return r.contents.size() * std::uint64_t{config_.hash_block_size};
}

bool CacheManager::running(const Request& r) const {
  return std::ranges::any_of(r.groups, [](const GroupTable& t) { return t.published.has_value(); });
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
void CacheManager::check_hit(const Request& r) const {
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    const GroupTable& table = r.groups[g];
    expects(table.blocks.empty() && !table.published, Breach::hit_on_running,
            "a looked-up prefix for a request that already has blocks");
    for (std::size_t i = 0; i < table.hit.size(); ++i) {
      if (table.hit[i] == kNullBlock) continue;
      const std::vector<PrefixKey>& carried = pool_.cache().keys_of(table.hit[i]);
      const bool has = std::ranges::find(carried, key(r, g, hit_end(r, g, i))) != carried.end();
      expects(has, Breach::stale_lookup, "a looked-up block has lost its content");
    }
  }
}

// The number of blocks that leave the free queue. A hit that stands in the queue counts: it is free
// now, and afterwards the request holds it.
std::int64_t CacheManager::need(const Request& r, bool use_hit, const Demand& demand) {
  std::int64_t sum = 0;
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    const GroupTable& table = r.groups[g];
    const Blocks hit = use_hit ? table.hit : Blocks{};
    // A state that was published in this very step is not computed yet.
    if (config_.groups[g].kind == LayerKind::mamba && !hit.empty() &&
        new_states_.contains(key(r, g, hit_end(r, g, hit.size() - 1)))) {
      return std::int64_t{pool_.num_blocks()} + 1;
    }
    sum += layer_groups_[g].need(table, hit, demand, pool_);
    sum += static_cast<std::int64_t>(to_copy(r, g, demand).size());
  }
  last_need_ = {sum, pool_.num_free()};
  return sum;
}

void CacheManager::observe(const Request& r, RequestState& state) const {
  state.num_tokens = static_cast<std::uint32_t>(r.tokens.size());
  state.computed = r.computed;
  state.hashes.assign(r.contents.begin(), r.contents.end());
  state.tables.resize(r.groups.size());
  state.progress.resize(r.groups.size());
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    state.tables[g] = r.groups[g].blocks;
    state.progress[g] = r.groups[g].published;
  }
  state.host_tables = r.host;
}

namespace {

void observe_pool(const BlockPool& pool, PoolState& out) {
  const std::uint32_t n = pool.num_blocks();
  out.num_free = pool.num_free();
  out.usage = n > 1 ? 1.0 - static_cast<double>(out.num_free) / static_cast<double>(n - 1) : 0.0;
  out.queue.assign(pool.queue().begin(), pool.queue().end());
  out.queue_backward.assign(pool.queue().rbegin(), pool.queue().rend());
  out.blocks.assign(n, {});
  for (BlockId block = 0; block < n; ++block) {
    out.blocks[block].ref_cnt = pool.ref_cnt(block);
  }
  for (BlockId block : out.queue) out.blocks[block].linked = true;
  out.index.resize(pool.cache().entries().size());
  out.further_keys.clear();
  auto entry = out.index.begin();
  for (const auto& [block, keys] : pool.cache().carried()) {
    BlockState& state = out.blocks[block];
    state.hashed = true;
    state.group = keys.front().group;
    state.key = keys.front().content;
    state.prefix_tokens = keys.front().prefix_tokens;
    if (keys.size() > 1) state.tail_key = keys[1].content;
    for (std::size_t i = 2; i < keys.size(); ++i) {
      out.further_keys.push_back({block, keys[i].content});
    }
    for (const PrefixKey& key : keys) {  // each content once, with the oldest of its blocks
      const std::vector<BlockId>& copies = pool.cache().entries().at(key);
      if (copies.front() != block) continue;
      entry->group = key.group;
      entry->key = key.content;
      entry->blocks = copies;
      ++entry;
    }
  }
}

}  // namespace

void CacheManager::observe_requests(std::vector<RequestState>& states) const {
  states.resize(requests_.size());
  auto state = states.begin();
  for (const auto& [name, r] : requests_) {
    state->name = name;
    observe(r, *state++);
  }
}

void CacheManager::observe(Snapshot& out) const {
  observe_pool(pool_, out);
  observe_pool(host_, out.host);
  observe_requests(out.requests);
  out.counters = counters_;
  out.work = pool_.work();
  out.work->keys = pool_.cache().entries().size();
  out.copying = copying();
  std::ranges::sort(out.copying);
  out.raw = raw_;
  std::ranges::sort(out.raw);
  out.leases.resize(leases_.size());
  auto lease = out.leases.begin();
  for (const auto& [name, blocks] : leases_) {
    lease->name = name;
    lease->blocks = blocks;
    ++lease;
  }
}

// What a lookup found is read until the request has blocks; of the states of moved keys, those that
// are gone delay nobody.
Memory CacheManager::memory() const {
  Memory out{.requests = {}, .copying = copying_, .new_states = {}};
  for (const auto& [name, r] : requests_) {
    std::vector<std::uint64_t>& numbers = out.requests.emplace_back();
    numbers.assign({r.prompt_tokens, r.junction});
    for (const GroupTable& table : r.groups) {
      const bool waits = table.blocks.empty() && !table.published && !table.hit.empty();
      const Checkpoint checkpoint = table.checkpoint.value_or(Checkpoint{});
      const Checkpoint passed = table.passed.value_or(Checkpoint{});
      numbers.insert(numbers.end(),
                     {waits ? table.hit_found : 0, table.has_states ? 1U : 0U,
                      table.last_state ? *table.last_state + 1 : 0, table.retired,
                      table.tail ? table.tail->position + 1 : 0, checkpoint.tokens,
                      checkpoint.position, table.state_tokens, passed.tokens, passed.position});
    }
  }
  for (const auto& [block, keys] : pool_.cache().carried()) {
    const bool fresh =
        std::ranges::any_of(keys, [&](const PrefixKey& own) { return new_states_.contains(own); });
    if (fresh) out.new_states.push_back(block);
  }
  return out;
}

}  // namespace kvproof::reference
