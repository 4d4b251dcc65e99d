// SPDX-License-Identifier: Apache-2.0
// The naive cache manager: requests, their block tables, and the rules of admission. Written to be
// read.
//
// Model:   a value. Copy it, apply an operation, compare: a pure step function over operations.h.
// Source:  vLLM v1 kv_cache_manager.py and single_type_kv_cache_manager.py (full attention).
// Refuses: hashes (a key is the content itself), speed, threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/block_pool.h"
#include "reference/config.h"
#include "reference/prefix_cache.h"
#include "reference/subject.h"

namespace kvproof::reference {

class CacheManager final : public Subject {
 public:
  /// @pre unsupported(config) is empty; throws std::invalid_argument with the reason otherwise.
  explicit CacheManager(const CacheConfig& config);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& snapshot) const override;

 private:
  struct Request {
    std::vector<TokenId> tokens;
    ExtraKeys extra;
    std::vector<ContentId> contents;  // of the prefix, per complete hash unit
    bool skip_lookup = false;
    std::uint32_t computed = 0;  // [tokens]
    std::vector<BlockId> table;
    std::optional<std::uint32_t> published;  // leading table positions considered; set = running
    std::vector<BlockId> hit;                // of the last lookup
  };

  Result perform(const op::Arrive& o);
  Result perform(const op::Append& o);
  Result perform(const op::Advance& o);
  Result perform(const op::Lookup& o);
  Result perform(const op::Allocate& o);
  Result perform(const op::Free& o);
  Result perform(const op::Finish& o);
  Result perform(const op::Recycle& o);
  Result perform(const op::Cache& o);
  Result perform(const op::Evict& o);
  Result perform(const op::Reset& o);
  Result perform(const op::CommonPrefix& o);
  Result perform(const op::Step& o);
  Result perform(const op::Take& o);
  Result perform(const op::Touch& o);
  Result perform(const op::Release& o);

  Request& request(const std::string& name);
  [[nodiscard]] std::uint32_t need(const Request& request, std::uint64_t tokens,
                                   const std::vector<BlockId>& hit) const;
  void add_tokens(Request& request, const std::vector<TokenId>& tokens);
  [[nodiscard]] PrefixKey key(const Request& request, std::size_t block) const;
  void publish(Request& request, std::uint64_t tokens);
  void release_table(Request& request);
  void check_hit(const Request& request) const;

  CacheConfig config_;
  std::shared_ptr<ContentBook> book_ = std::make_shared<ContentBook>();
  BlockPool pool_;
  std::map<std::string, Request> requests_;
  std::vector<BlockId> raw_;  // references held by the raw owner
};

}  // namespace kvproof::reference
