// SPDX-License-Identifier: Apache-2.0
// The book of an engine's requests: operations become calls of the engine's hooks, and what the
// hooks say becomes answers and states.
//
// Model:   an adapter of the level "engine" keeps no book. A line calls hooks and states the facts
//          of requests before and after them; README.md has an example.
// Refuses: what the engine's abilities leave out is declined here and never sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/caller/promises.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// Whether the answer to a header says that calls of hooks are answered. @throws TextError
[[nodiscard]] bool is_of_level_engine(std::string_view said);

class EngineBook {
 public:
  /// Sends a line to the adapter. @return its answer, which stays until the next line
  using Ask = std::function<std::string_view(const std::string& line)>;

  /// @param book of the caller, folded after each operation
  EngineBook(const CacheConfig& config, const Promises& promises, const CallerBook& book, Ask ask)
      : config_(config), promises_(promises), book_(book), ask_(std::move(ask)) {}

  /// @return why there is no engine of this configuration; empty if there is
  [[nodiscard]] static std::string why_not(const CacheConfig& config, const Promises& promises);

  /// Has the engine made. @return its first state, if it is shown. @throws TextError
  std::optional<RecordedState> build();

  /// Has an operation performed. @throws TextError
  TraceLine perform(const Operation& operation);

 private:
  using json = nlohmann::json;
  using Blocks = std::vector<BlockId>;

  /// What the caller's book does not know of a request.
  struct Standing {
    std::uint64_t room = 0;   // [tokens] for which it has room
    std::uint64_t ahead = 0;  // [tokens] drafts behind those of its admission
    std::uint64_t told = 0;   // [tokens] that the adapter knows
    bool holds = false;       // blocks
    bool shares = false;      // since a fork: it asks before it writes, even where it has room
    Blocks table = {};        // as it was shown last
  };

  /// A line: hooks that are called in turn with the requests and further arguments. The facts of
  /// `then` become true with a success; a request whose facts are null is forgotten.
  struct Call {
    std::vector<std::string> hooks = {};
    std::vector<std::string> reqs = {};
    json is = json::object();
    json with = json::array();
    json then = json::object();
  };
  struct Said {
    json out = nullptr;
    std::vector<Copy> copies = {};
    TraceLine line = {};

    explicit Said(std::string declined = {}) { line.unsupported = std::move(declined); }
    /// Whether the hooks were performed.
    [[nodiscard]] bool good() const { return line.unsupported.empty() && !line.result; }
  };

  Said call(Call call);
  void note(RecordedState& state);
  [[nodiscard]] std::uint64_t granted(const RequestRecord& r) const;
  [[nodiscard]] Call about(const RequestRecord& r) const;
  [[nodiscard]] std::string why_not_granted(const AllocateArgs& args, const RequestRecord& r,
                                            bool admits, std::uint64_t end);
  Said look_up(const RequestRecord& r);
  Said give_back(const std::string& name, bool finishes);

  Said operator()(const op::Arrive& o);
  Said operator()(const op::Append& o);
  Said operator()(const op::Advance& o);
  Said operator()(const op::Lookup& o) { return look_up(*book_.find(o.req)); }
  Said operator()(const op::Allocate& o);
  Said operator()(const op::Free& o) { return give_back(o.req, false); }
  Said operator()(const op::Finish& o) { return give_back(o.req, true); }
  Said operator()(const op::Fork& o);
  Said operator()(const op::Truncate& o);
  Said operator()(const op::Decode& o);
  Said operator()(const op::Reset& o);

  CacheConfig config_;
  Promises promises_;
  const CallerBook& book_;
  Ask ask_;
  std::map<std::string, Standing> standings_;
  std::map<std::uint64_t, std::uint32_t> lengths_;  // [tokens] of the prefix of each key shown
  std::vector<Event> events_;                       // of all lines of an operation
  std::vector<std::string> restated_;  // requests whose facts a declined call has changed
};

}  // namespace kvproof::properties
