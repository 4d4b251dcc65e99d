// SPDX-License-Identifier: Apache-2.0
// An example of a paged allocator with a prefix cache, and the shared library that kvproof checks
// (lines of JSON) and gates (direct calls).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "properties/foreign/kvproof_subject.h"

// ---- the allocator: this is the part that would be yours ----------------------------------------

namespace mine {

struct Config {
  std::uint32_t num_blocks = 0;  // block 0 is never handed out
  std::uint32_t block_size = 0;  // [tokens]
  std::uint32_t max_tokens = 0;  // of a request
  bool caching = true;
};

/// A block. Free blocks stand in a list; the first one is taken next.
struct Block {
  std::uint64_t key = 0;  // of its content and all before it; 0 = none
  std::uint32_t prev = 0;
  std::uint32_t next = 0;
  std::uint32_t refs = 0;
};

struct Request {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> keys;   // of its complete blocks
  std::vector<std::uint32_t> table;  // its blocks
  std::vector<std::uint32_t> hits;   // found by the last look-up
  std::uint32_t computed = 0;        // [tokens]
  std::uint32_t published = 0;       // [blocks]
  bool sharing = true;
};

class Allocator {
 public:
  explicit Allocator(const Config& config);

  /// @param sharing false if the manager shall neither use nor fill the prefix cache
  std::uint32_t arrive(const std::int32_t* tokens, std::size_t n, bool sharing = true);
  void append(std::uint32_t request, const std::int32_t* tokens, std::size_t n);
  /// Says how many tokens are in the cache; their complete blocks can be found from now on.
  void advance(std::uint32_t request, std::uint32_t computed);
  std::uint32_t lookup(std::uint32_t request);
  enum class Answer { granted, refused, stale };
  /// @param taken the number of blocks taken, the last of the table
  Answer allocate(std::uint32_t request, std::uint32_t new_tokens, bool use_lookup,
                  bool all_must_fit, std::uint32_t& taken);
  void free(std::uint32_t request);
  void finish(std::uint32_t request);

  const Request& request(std::uint32_t number) const { return requests_[number]; }
  const Block& block(std::uint32_t number) const { return blocks_[number]; }
  std::uint32_t num_free() const { return num_free_; }
  const Config& config() const { return config_; }

 private:
  void hash_complete_blocks(Request& r) const;
  std::uint32_t blocks_for(std::size_t tokens) const;
  void link(std::uint32_t block);
  void unlink(std::uint32_t block);
  std::uint32_t take();
  std::size_t find(std::uint64_t key) const;
  void forget(std::uint32_t block);

  Config config_;
  std::vector<Block> blocks_;         // [0] is the head of the list
  std::vector<std::uint32_t> index_;  // open addressing by key; 0 = empty
  std::uint32_t num_free_ = 0;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> unused_;  // numbers of finished requests
};

namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t key_of(std::uint64_t parent, const std::int32_t* tokens, std::uint32_t n) {
  std::uint64_t key = mixed(parent + 0x9e3779b97f4a7c15U);
  for (std::uint32_t i = 0; i < n; ++i) {
    key = mixed(key ^ static_cast<std::uint32_t>(tokens[i])) + 0x9e3779b97f4a7c15U;
  }
  return key != 0 ? key : 1;
}

}  // namespace

Allocator::Allocator(const Config& config) : config_(config), blocks_(config.num_blocks) {
  std::size_t size = 4;
  while (size < 2 * blocks_.size()) size *= 2;
  index_.resize(size);
  for (std::uint32_t block = 1; block < config.num_blocks; ++block) link(block);
}

std::uint32_t Allocator::arrive(const std::int32_t* tokens, std::size_t n, bool sharing) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const std::uint32_t number = unused_.back();
  unused_.pop_back();
  Request& r = requests_[number];
  r = Request();
  r.sharing = sharing && config_.caching;
  append(number, tokens, n);
  return number;
}

void Allocator::append(std::uint32_t request, const std::int32_t* tokens, std::size_t n) {
  Request& r = requests_[request];
  r.tokens.insert(r.tokens.end(), tokens, tokens + n);
  if (r.sharing) hash_complete_blocks(r);
}

void Allocator::hash_complete_blocks(Request& r) const {
  const std::uint32_t size = config_.block_size;
  while ((r.keys.size() + 1) * size <= r.tokens.size()) {
    const std::uint64_t parent = r.keys.empty() ? 0 : r.keys.back();
    r.keys.push_back(key_of(parent, r.tokens.data() + r.keys.size() * size, size));
  }
}

void Allocator::advance(std::uint32_t request, std::uint32_t computed) {
  Request& r = requests_[request];
  r.computed = computed;
  if (!r.sharing) return;
  const std::size_t complete = std::min(r.table.size(), std::size_t{computed / config_.block_size});
  for (; r.published < complete; ++r.published) {
    Block& block = blocks_[r.table[r.published]];
    const std::uint64_t key = r.keys[r.published];
    if (block.key != 0 || index_[find(key)] != 0) continue;
    block.key = key;
    index_[find(key)] = r.table[r.published];
  }
}

std::uint32_t Allocator::lookup(std::uint32_t request) {
  Request& r = requests_[request];
  r.hits.clear();
  if (!r.sharing || r.tokens.empty()) return 0;
  const std::size_t most = (r.tokens.size() - 1) / config_.block_size;
  for (std::size_t i = 0; i < most; ++i) {
    const std::uint32_t block = index_[find(r.keys[i])];
    if (block == 0) break;
    r.hits.push_back(block);
  }
  return static_cast<std::uint32_t>(r.hits.size()) * config_.block_size;
}

Allocator::Answer Allocator::allocate(std::uint32_t request, std::uint32_t new_tokens,
                                      bool use_lookup, bool all_must_fit, std::uint32_t& taken) {
  Request& r = requests_[request];
  const std::size_t hits = use_lookup ? r.hits.size() : 0;
  std::size_t revived = 0;
  for (std::size_t i = 0; i < hits; ++i) {
    if (blocks_[r.hits[i]].key != r.keys[i]) return Answer::stale;
    revived += blocks_[r.hits[i]].refs == 0 ? 1 : 0;
  }
  const std::size_t held = r.table.size() + hits;
  const std::size_t end =
      blocks_for(std::max<std::size_t>(r.computed, hits * config_.block_size) + new_tokens);
  const std::size_t all =
      all_must_fit ? std::max<std::size_t>(end, blocks_for(r.tokens.size())) : end;
  if (std::max(all, held) - held + revived > num_free_) return Answer::refused;
  for (std::size_t i = 0; i < hits; ++i) {
    if (blocks_[r.hits[i]].refs++ == 0) unlink(r.hits[i]);
    r.table.push_back(r.hits[i]);
  }
  taken = 0;
  for (; r.table.size() < end; ++taken) r.table.push_back(take());
  r.hits.clear();
  return Answer::granted;
}

void Allocator::free(std::uint32_t request) {
  Request& r = requests_[request];
  for (; !r.table.empty(); r.table.pop_back()) {
    if (--blocks_[r.table.back()].refs == 0) link(r.table.back());
  }
  r.hits.clear();
  r.computed = r.published = 0;
}

void Allocator::finish(std::uint32_t request) {
  free(request);
  unused_.push_back(request);
}

std::uint32_t Allocator::blocks_for(std::size_t tokens) const {
  const std::size_t most = std::min<std::size_t>(tokens, config_.max_tokens);
  return static_cast<std::uint32_t>((most + config_.block_size - 1) / config_.block_size);
}

void Allocator::link(std::uint32_t block) {
  Block& b = blocks_[block];
  b.next = 0;
  b.prev = blocks_[0].prev;
  blocks_[b.prev].next = block;
  blocks_[0].prev = block;
  ++num_free_;
}

void Allocator::unlink(std::uint32_t block) {
  const Block& b = blocks_[block];
  blocks_[b.prev].next = b.next;
  blocks_[b.next].prev = b.prev;
  --num_free_;
}

std::uint32_t Allocator::take() {
  const std::uint32_t block = blocks_[0].next;
  unlink(block);
  if (blocks_[block].key != 0) forget(block);
  blocks_[block].refs = 1;
  return block;
}

/// @return where the key stands, or the empty place where it would
std::size_t Allocator::find(std::uint64_t key) const {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = key & mask;
  while (index_[at] != 0 && blocks_[index_[at]].key != key) at = (at + 1) & mask;
  return at;
}

/// Takes the content of a block away, and closes the gap that its key leaves.
void Allocator::forget(std::uint32_t block) {
  const std::size_t mask = index_.size() - 1;
  std::size_t gap = find(blocks_[block].key);
  for (std::size_t at = (gap + 1) & mask; index_[at] != 0; at = (at + 1) & mask) {
    const std::size_t wanted = blocks_[index_[at]].key & mask;
    if (((at - wanted) & mask) < ((at - gap) & mask)) continue;
    index_[gap] = index_[at];
    gap = at;
  }
  index_[gap] = 0;
  blocks_[block].key = 0;
}

}  // namespace mine

// ---- what kvproof check calls -------------------------------------------------------------------

using nlohmann::json;

namespace {

const char* const kNothingElse = R"({"unsupported":true,"reason":"one group of full attention"})";
const char* const kPromises =
    R"({"promises":"safety","block_ids":true,"operations":)"
    R"(["arrive","append","advance","lookup","allocate","free","finish"]})";

/// @return whether this allocator can be built as the header asks
bool read_header(const char* header, mine::Config& out) {
  const json config = json::parse(header)["config"];
  const json& groups = config["groups"];
  const bool full = groups[0]["kind"] == "full" || groups[0]["kind"] == "mla";
  if (groups.size() != 1 || !full || groups[0].value("eagle", false)) return false;
  out = {config["num_blocks"], groups[0]["block_size"], config["max_model_len"],
         config["enable_caching"]};
  return true;
}

}  // namespace

struct kvproof_subject {
  explicit kvproof_subject(const mine::Config& config) : allocator(config) {}

  json arrive(const json& o) {
    const std::vector<std::int32_t> tokens = o["tokens"];
    const bool extra = o.contains("extra") && !o["extra"].empty();
    const bool sharing = !extra && !o.value("skip_lookup", false);
    requests[o["req"]] = allocator.arrive(tokens.data(), tokens.size(), sharing);
    return json::object();
  }

  json lookup(std::uint32_t request) {
    const std::uint32_t tokens = allocator.lookup(request);
    return {{"out",
             {{"hit_tokens", tokens}, {"blocks", json::array({allocator.request(request).hits})}}}};
  }

  json allocate(const json& o, std::uint32_t request) {
    if (o["external"] > 0) return {{"unsupported", true}};
    const std::uint32_t new_tokens = o["new_tokens"], lookahead = o["lookahead"];
    std::uint32_t taken = 0;
    const auto came = allocator.allocate(request, new_tokens + lookahead, o["use_lookup"],
                                         o["full_sequence_must_fit"], taken);
    if (came == mine::Allocator::Answer::refused) return {{"out", nullptr}};
    if (came == mine::Allocator::Answer::stale) return {{"out", {{"error", "a stale look-up"}}}};
    const auto& table = allocator.request(request).table;
    const std::vector<std::uint32_t> grown(table.end() - taken, table.end());
    return {{"out", {{"blocks", json::array({grown})}}}};
  }

  json apply(const json& o) {
    const std::string op = o["op"];
    if (op == "arrive") return arrive(o);
    const std::uint32_t request = requests.at(o["req"]);
    if (op == "lookup") return lookup(request);
    if (op == "allocate") return allocate(o, request);
    if (op == "append") {
      const std::vector<std::int32_t> tokens = o["tokens"];
      allocator.append(request, tokens.data(), tokens.size());
    }
    if (op == "advance") allocator.advance(request, o["computed"]);
    if (op == "free") allocator.free(request);
    if (op == "finish") allocator.finish(request), requests.erase(o["req"]);
    return json::object();
  }

  json observe() const {
    json out = {{"free", allocator.num_free()},
                {"ref", json::array()},
                {"queue", json::array()},
                {"tables", json::object()}};
    for (std::uint32_t b = 1; b < allocator.config().num_blocks; ++b) {
      if (allocator.block(b).refs > 0) out["ref"].push_back({b, allocator.block(b).refs});
    }
    for (std::uint32_t b = allocator.block(0).next; b != 0; b = allocator.block(b).next) {
      out["queue"].push_back(b);
    }
    for (const auto& [name, number] : requests) {
      out["tables"][name] = json::array({allocator.request(number).table});
    }
    return out;
  }

  mine::Allocator allocator;
  std::map<std::string, std::uint32_t> requests;
  std::string answer;  // lives until the next call
};

uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }
kvproof_subject* kvproof_subject_create(const char* header, const char** promises) {
  mine::Config config;
  const bool can = read_header(header, config);
  *promises = can ? kPromises : kNothingElse;
  return can ? new kvproof_subject(config) : nullptr;
}
const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) {
  return (subject->answer = subject->apply(json::parse(operation)).dump()).c_str();
}
const char* kvproof_subject_observe(kvproof_subject* subject) {
  return (subject->answer = subject->observe().dump()).c_str();
}
void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }

// ---- the direct section: the allocator and nothing else -----------------------------------------

struct kvproof_direct : mine::Allocator {
  using Allocator::Allocator;
};

uint32_t kvproof_direct_abi() { return KVPROOF_DIRECT_ABI; }
kvproof_direct* kvproof_direct_create(const char* header, uint32_t /*max_requests*/) {
  mine::Config config;
  return read_header(header, config) ? new kvproof_direct(config) : nullptr;
}
void kvproof_direct_destroy(kvproof_direct* subject) { delete subject; }
kvproof_direct_request kvproof_direct_arrive(kvproof_direct* subject, const int32_t* tokens,
                                             uint32_t num_tokens) {
  return subject->arrive(tokens, num_tokens);
}
void kvproof_direct_append(kvproof_direct* subject, kvproof_direct_request request,
                           const int32_t* tokens, uint32_t num_tokens) {
  subject->append(request, tokens, num_tokens);
}
void kvproof_direct_advance(kvproof_direct* subject, kvproof_direct_request request,
                            uint32_t computed) {
  subject->advance(request, computed);
}
uint32_t kvproof_direct_lookup(kvproof_direct* subject, kvproof_direct_request request) {
  return subject->lookup(request);
}
int64_t kvproof_direct_allocate(kvproof_direct* subject, kvproof_direct_request request,
                                const kvproof_direct_allocation* arguments) {
  uint32_t taken = 0;
  const auto answer =
      subject->allocate(request, arguments->new_tokens, arguments->use_lookup != 0, false, taken);
  return answer == mine::Allocator::Answer::granted ? int64_t{taken} : -1;
}
void kvproof_direct_free(kvproof_direct* subject, kvproof_direct_request request) {
  subject->free(request);
}
void kvproof_direct_finish(kvproof_direct* subject, kvproof_direct_request request) {
  subject->finish(request);
}
