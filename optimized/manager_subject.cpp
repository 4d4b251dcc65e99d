// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager_subject.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "optimized/cache_manager.h"
#include "reference/contract.h"

namespace kvproof::optimized {
namespace {

using Blocks = std::vector<BlockId>;

template <std::size_t Words>
std::uint64_t fingerprint(const HashKey<Words>& key) {
  std::uint64_t out = 0;
  for (const std::uint64_t word : key.words) out = out * 0x100000001b3U + word;
  return out;
}

template <class Digest>
class ManagerSubject final : public Subject {
 public:
  ManagerSubject(const CacheConfig& config, std::uint32_t max_requests)
      : manager_(config, Capacity{max_requests, 4 * config.num_blocks + 16}) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    try {
      outcome.result = std::visit([this](const auto& o) { return perform(o); }, operation);
    } catch (const ContractViolation& violation) {
      outcome.result = Rejected{violation.what()};
    }
    outcome.events = manager_.take_events();
    return outcome;
  }

  void observe(Snapshot& out) const override;

 private:
  Result perform(const op::Arrive& o) {
    expects(!requests_.contains(o.req), Breach::duplicate_request, "arrive with a name in use");
    requests_[o.req] = manager_.arrive({o.tokens, &o.extra, o.skip_lookup});
    return {};
  }
  Result perform(const op::Append& o) {
    return manager_.append(request(o.req), o.tokens), Result();
  }
  Result perform(const op::Advance& o) {
    return manager_.advance(request(o.req), o.computed), Result();
  }
  Result perform(const op::Lookup& o) {
    const RequestId id = request(o.req);
    const std::uint32_t hit_tokens = manager_.lookup(id);
    const auto blocks = manager_.hit_blocks(id);
    return Hit{hit_tokens, {Blocks(blocks.begin(), blocks.end())}};
  }
  Result perform(const op::Allocate& o) {
    const RequestId id = request(o.req);
    const Admission taken = manager_.allocate(id, o.args);
    if (!taken) return Refused{};
    const auto blocks = manager_.table(id).last(*taken);
    return Granted{{Blocks(blocks.begin(), blocks.end())}};
  }
  Result perform(const op::Free& o) { return manager_.free(request(o.req)), Result(); }
  Result perform(const op::Finish& o) {
    manager_.finish(request(o.req));
    requests_.erase(o.req);
    return {};
  }
  // Full attention reads every token: nothing leaves its window, and a step has no memory.
  Result perform(const op::Recycle& o) { return request(o.req), Result(); }
  Result perform(const op::Step&) { return {}; }
  Result perform(const op::Cache& o) {
    return manager_.cache(request(o.req), o.computed), Result();
  }
  Result perform(const op::Evict& o) { return manager_.evict(o.blocks), Result(); }
  Result perform(const op::Reset&) { return manager_.reset(); }
  Result perform(const op::CommonPrefix& o) {
    return SharedBlocks{manager_.common_prefix(request(o.req))};
  }
  Result perform(const op::Take& o) {
    if (o.n > manager_.pool().num_free()) return Refused{};
    Blocks blocks(o.n);
    manager_.take(blocks);
    raw_.insert(raw_.end(), blocks.begin(), blocks.end());
    return Granted{{std::move(blocks)}};
  }
  Result perform(const op::Touch& o) {
    manager_.touch(o.blocks);
    raw_.insert(raw_.end(), o.blocks.begin(), o.blocks.end());
    return {};
  }
  Result perform(const op::Release& o) {
    Blocks left = raw_;
    for (const BlockId block : o.blocks) {
      const auto at = std::find(left.begin(), left.end(), block);
      expects(at != left.end(), Breach::not_held,
              "release of a block that the raw owner does not hold");
      left.erase(at);
    }
    manager_.release(o.blocks);
    raw_ = std::move(left);
    return {};
  }

  RequestId request(const std::string& name) const {
    const auto at = requests_.find(name);
    expects(at != requests_.end(), Breach::unknown_request, "no request of that name");
    return at->second;
  }

  CacheManager<Digest> manager_;
  std::map<std::string, RequestId> requests_;
  Blocks raw_;
};

// Walks are bounded by the number of blocks, so that a broken list is reported and not followed for
// ever.
template <class Pool>
void observe_pool(const Pool& pool, Snapshot& out) {
  const std::uint32_t n = pool.num_blocks();
  const auto& queue = pool.queue();
  out.num_free = pool.num_free();
  out.usage = 1.0 - static_cast<double>(out.num_free) / static_cast<double>(n - 1);
  out.queue.clear();
  out.queue_backward.clear();
  for (BlockId at = queue.head(); at != queue.sentinel() && out.queue.size() < n;
       at = pool.record(at).next) {
    out.queue.push_back(at);
  }
  for (BlockId at = pool.record(queue.sentinel()).prev;
       at != queue.sentinel() && out.queue_backward.size() < n; at = pool.record(at).prev) {
    out.queue_backward.push_back(at);
  }
  out.blocks.assign(n, {});
  std::size_t keys = 0;
  for (BlockId block = 0; block < n; ++block) {
    const auto& record = pool.record(block);
    BlockState& state = out.blocks[block];
    state.ref_cnt = record.ref_cnt;
    state.linked = queue.contains(block);
    state.hashed = pool.hashed(block);
    if (!state.hashed) continue;
    state.key = fingerprint(record.key);
    state.prefix_tokens = pool.events().prefix_tokens(block);
    if (pool.index().find(record.key) != block) continue;
    if (keys == out.index.size()) out.index.emplace_back();
    IndexEntry& entry = out.index[keys++];
    entry.group = 0;
    entry.key = state.key;
    entry.blocks.clear();
    for (BlockId copy = block; copy != kNoBlock && entry.blocks.size() < n;
         copy = pool.index().next_copy(copy)) {
      entry.blocks.push_back(copy);
    }
  }
  out.index.resize(keys);
}

template <class Digest>
void ManagerSubject<Digest>::observe(Snapshot& out) const {
  observe_pool(manager_.pool(), out);
  out.requests.resize(requests_.size());
  auto state = out.requests.begin();
  for (const auto& [name, id] : requests_) {
    state->name = name;
    state->num_tokens = static_cast<std::uint32_t>(manager_.tokens(id).size());
    state->computed = manager_.computed(id);
    state->hashes.clear();
    for (const auto& key : manager_.hashes(id)) state->hashes.push_back(fingerprint(key));
    const auto table = manager_.table(id);
    state->tables.resize(1);
    state->tables.front().assign(table.begin(), table.end());
    state->progress.assign(1, manager_.progress(id));
    ++state;
  }
  out.raw = raw_;
  std::ranges::sort(out.raw);
}

}  // namespace

template <class Digest>
std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                              std::uint32_t max_requests) {
  return std::make_unique<ManagerSubject<Digest>>(config, max_requests);
}

template std::unique_ptr<Subject> make_manager_subject<Xxh3Digest>(const CacheConfig&,
                                                                   std::uint32_t);
template std::unique_ptr<Subject> make_manager_subject<Sha256Digest>(const CacheConfig&,
                                                                     std::uint32_t);
template std::unique_ptr<Subject> make_manager_subject<WeakDigest>(const CacheConfig&,
                                                                   std::uint32_t);

}  // namespace kvproof::optimized
