// SPDX-License-Identifier: Apache-2.0
// Explains the lookups of a trace of operations, while a subject performs it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "properties/explain/causes.h"
#include "reference/subject.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// Blocks that are used together, from the first of a prompt on.
struct BlockUse {
  std::vector<std::uint64_t> blocks = {};
  std::uint64_t tokens = 0;  // that a lookup could hit; 0 = no lookup, they were computed
};

/// What is told of a run.
struct Explanations {
  std::vector<Explained> lookups;
  /// Of a cache of one group that reads everything; else empty.
  std::vector<BlockUse> uses;
  std::uint64_t pool_blocks = 0;  // [blocks] usable
  std::uint32_t block_size = 0;   // [tokens]
  std::string ends;               // why it goes no further; empty if it went to the end
};

/// A subject whose index is watched. Its snapshots must show keys, and the hashes of requests.
class WatchedSubject final : public Subject {
 public:
  /// @param out outlives it
  WatchedSubject(const CacheConfig& config, std::unique_ptr<Subject> inner, Explanations& out);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& snapshot) const override { snapshot = state_; }

 private:
  struct Request {
    std::uint32_t number = 0;
    std::vector<TokenId> tokens;
    ExtraKeys extra;
    bool skip_lookup = false;
    std::uint32_t computed = 0;
    std::vector<ContentId> contents = {};  // one per complete hash unit
    std::size_t used = 0;                  // [units] that have been in the index
  };
  struct Entry {  // of the index
    std::uint64_t key = 0;
    GroupId group = 0;
    ContentId content = kNoContent;
    auto operator<=>(const Entry&) const = default;
  };

  void learn_tokens(const Operation& operation);
  void learn_contents(const RequestState& state);
  void explain(const op::Lookup& lookup, const Hit& hit);
  void follow_index(std::uint32_t for_whom, bool for_room);
  void note_use(Request& request);
  void add_use(const Request& r, std::size_t most_units, std::uint64_t tokens);
  [[nodiscard]] std::string computing(GroupId group, std::uint64_t end, ContentId content) const;
  std::uint32_t number_of(const std::string& name);

  CacheConfig config_;
  std::unique_ptr<Subject> inner_;
  Explanations& out_;
  Snapshot state_;
  IndexHistory history_;
  Explainer explainer_;
  Moment now_;
  std::map<std::string, Request> requests_;
  std::vector<Entry> index_;  // as the state has it
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> names_;
};

/// Explains the next trace of a file after the other. @param open the subject of a trace, or
/// nullptr @param told is given each trace with its header @throws InputError
void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& told);

}  // namespace kvproof::properties
