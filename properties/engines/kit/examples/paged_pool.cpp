// SPDX-License-Identifier: Apache-2.0
// An example of a shared library that kvproof can check: a paged allocator without a prefix cache.
//   c++ -std=c++17 -shared -fPIC -I<prefix>/include/kvproof paged_pool.cpp -o libpaged_pool.so
//   kvproof check --subject=./libpaged_pool.so
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "properties/engines/kit/kvproof_subject.h"

using nlohmann::json;

namespace example {

/// The allocator: this is the part that would be yours.
class PagedPool {
 public:
  explicit PagedPool(std::size_t num_blocks) : refs(num_blocks) {
    for (std::size_t block = num_blocks; block-- > 1;) free_blocks.push_back(block);
  }

  /// Grows a table to so many blocks; false when there are not enough, and nothing has changed.
  bool grow(std::vector<std::size_t>& table, std::size_t length) {
    if (length > table.size() + free_blocks.size()) return false;
    for (; table.size() < length; free_blocks.pop_back()) {
      table.push_back(free_blocks.back());
      refs[table.back()] = 1;
    }
    return true;
  }
  void release(std::vector<std::size_t>& table) {
    for (; !table.empty(); table.pop_back()) {
      refs[table.back()] = 0;
      free_blocks.push_back(table.back());
    }
  }

  std::vector<std::size_t> refs, free_blocks;  // of each block; the next one at the back
};

struct Request {
  std::size_t tokens = 0, computed = 0;
  std::vector<std::size_t> table;
};

}  // namespace example

/// What stands between the lines of JSON and the allocator.
struct kvproof_subject {
  explicit kvproof_subject(const json& config)
      : pool(config["num_blocks"]),
        block_size(config["groups"][0]["block_size"]),
        max_tokens(config["max_model_len"]) {}

  json allocate(const json& o, example::Request& r) {
    if (o["external"] > 0) return {{"unsupported", true}};
    const auto blocks = [&](std::size_t tokens) {
      return (std::min(tokens, max_tokens) + block_size - 1) / block_size;
    };
    const std::size_t held = r.table.size();
    const bool whole_fits = blocks(r.tokens) <= held + pool.free_blocks.size();
    const std::size_t new_tokens = o["new_tokens"], lookahead = o["lookahead"];
    const bool may = whole_fits || o["full_sequence_must_fit"] == false;
    if (!may || !pool.grow(r.table, blocks(r.computed + new_tokens + lookahead))) {
      return {{"out", nullptr}};
    }
    const std::vector<std::size_t> grown(r.table.begin() + static_cast<long>(held), r.table.end());
    return {{"out", {{"blocks", json::array({grown})}}}};
  }

  json apply(const json& o) {
    const std::string op = o["op"];
    example::Request& r = requests[o["req"]];
    if (op == "arrive" || op == "append") r.tokens += o["tokens"].size();
    if (op == "advance") r.computed = o["computed"];
    if (op == "allocate") return allocate(o, r);
    if (op == "free" || op == "finish") pool.release(r.table);
    if (op == "free") r.computed = 0;
    if (op == "finish") requests.erase(o["req"]);
    return json::object();
  }

  json observe() const {
    json out = {{"free", pool.free_blocks.size()}, {"ref", json::array()}};
    out["queue"] = std::vector<std::size_t>(pool.free_blocks.rbegin(), pool.free_blocks.rend());
    for (std::size_t b = 1; b < pool.refs.size(); ++b) {
      if (pool.refs[b] > 0) out["ref"].push_back({b, pool.refs[b]});
    }
    out["tables"] = json::object();
    for (const auto& [name, r] : requests) out["tables"][name] = json::array({r.table});
    return out;
  }

  example::PagedPool pool;
  std::size_t block_size, max_tokens;  // [tokens]
  std::map<std::string, example::Request> requests;
  std::string answer;  // lives until the next call
};

uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }
kvproof_subject* kvproof_subject_create(const char* header, const char** promises) {
  const json config = json::parse(header)["config"];
  const json& groups = config["groups"];
  const bool full = groups[0]["kind"] == "full" || groups[0]["kind"] == "mla";
  *promises = R"({"unsupported":true,"reason":"one group of full attention only"})";
  if (groups.size() != 1 || !full) return nullptr;
  *promises = R"({"promises":"safety","block_ids":true,"operations":)"
              R"(["arrive","append","advance","allocate","free","finish"]})";
  return new kvproof_subject(config);
}
const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) {
  return (subject->answer = subject->apply(json::parse(operation)).dump()).c_str();
}
const char* kvproof_subject_observe(kvproof_subject* subject) {
  return (subject->answer = subject->observe().dump()).c_str();
}
void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }
