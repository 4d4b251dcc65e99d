// SPDX-License-Identifier: Apache-2.0
// What a lens shows: the states of a run as differences, in the lines that page/lens.js reads.
//
// Format:  README.md. A line of a step holds what the operation changed; before every
//          kFrame-th step stands the whole state, so that any step is near to one.
// Memory:  of a long run the last kMostSteps steps are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "properties/story/key_numbers.h"
#include "properties/story/state_difference.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// A law that broke, or another oracle's objection.
struct LensVerdict {
  std::string law;
  std::string name;
  std::string sentence;
  std::string says;
  Topic about = {};
};

class Story {
 public:
  static constexpr std::uint64_t kFrame = 1000;         // [steps]
  static constexpr std::uint64_t kMostSteps = 200'000;  // that are shown

  /// @param first the state before the first step
  Story(const CacheConfig& config, Snapshot first);

  /// @param after the state then; what is left in its place means nothing
  void add(const Operation& operation, const Outcome& outcome, Snapshot& after);
  /// An operation that was not answered.
  void add_unanswered(const Operation& operation, std::string_view why);
  /// A step as text: members of its line, without what changed.
  void add_line(std::string members, Snapshot& after);

  /// Adds a member to the line of the last step. @param value JSON
  void amend(const std::string& member, const std::string& value);
  /// The same for what lasts until it is set again, as the transfers in flight do ("t").
  void set(const std::string& member, const std::string& value);
  /// Tokens that follow those of a request, by which its keys are labelled.
  void add_tokens(const std::string& req, const std::vector<TokenId>& tokens);
  void cut_tokens(const std::string& req, std::size_t length) { tokens_[req].resize(length); }

  /// Of the last step, or of an earlier one.
  void add_verdict(const LensVerdict& verdict, std::optional<std::uint64_t> step = {});

  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] std::uint64_t shown() const { return steps_ - dropped_; }  // the last of these

  /// The members of the head that others know: title, source, subject, profile, config, command,
  /// hidden, difference, scene, live.
  nlohmann::ordered_json head = nlohmann::ordered_json::object();

  /// The lines. The page opens where a law broke or the recording differs, else at the start.
  [[nodiscard]] std::string payload() const;

 private:
  struct KeyFacts {
    std::uint64_t parent = 0;  // 0 = unknown
    GroupId group = 0;
    std::uint32_t tokens = 0;
    std::string label;
  };

  void learn(const Operation& operation, const Result& result);
  void learn_transfer(const Operation& operation, const Result& result);
  void see_keys_of(const PoolState& pool, BlockId block, const Snapshot& state);
  void see_key(std::uint64_t key, GroupId group, std::uint32_t tokens, const Snapshot& state);
  [[nodiscard]] std::string flags_of(const Operation& operation, const Result& result,
                                     const StateDifference& changed, const Snapshot& after) const;
  [[nodiscard]] std::string row(const PoolState& pool, BlockId block) const;
  [[nodiscard]] std::string rows(const PoolState& pool) const;
  [[nodiscard]] std::string frame() const;
  [[nodiscard]] std::string pool_changes(const Snapshot& after, const PoolDifference& changed,
                                         bool host);
  [[nodiscard]] std::string changes(const StateDifference& changed, const Snapshot& after);
  void append(std::string members, const StateDifference& changed, Snapshot& after);
  [[nodiscard]] nlohmann::ordered_json whole_head() const;

  CacheConfig config_;
  Snapshot now_;
  KeyNumbers keys_;
  std::vector<KeyFacts> facts_;                                   // of each key, by its number - 1
  std::unordered_map<std::string, std::vector<TokenId>> tokens_;  // of requests
  std::unordered_map<std::string, std::uint32_t> hits_;           // of the last lookup [tokens]
  std::map<std::string, std::string> transfers_;                  // in flight: pairs of blocks
  std::map<std::string, std::string> set_;                        // what lasts
  std::deque<std::string> chunks_;  // lines of kFrame steps, each behind its frame
  std::string line_;                // the last step, without its end
  std::uint64_t steps_ = 0;
  std::uint64_t dropped_ = 0;  // of these
  nlohmann::ordered_json verdicts_ = nlohmann::ordered_json::array();
};

}  // namespace kvproof::properties
