// SPDX-License-Identifier: Apache-2.0
// What a lens shows: the frames of a history as differences of states, in the lines that
// page/lens.js reads, and the page around them.
//
// Format:  README.md. A line of a step holds what the operation changed; before every kFrame-th
//          step stands the whole state as what changed from none, so that any step is near to one.
// Memory:  of a long run the last kMostSteps steps are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "properties/caller/promises.h"
#include "properties/laws/violation.h"
#include "properties/story/frame.h"
#include "properties/story/key_numbers.h"
#include "properties/story/lookups.h"
#include "properties/story/state_difference.h"
#include "reference/config.h"
#include "reference/snapshot.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// A law that broke, or another oracle's objection.
struct LensVerdict {
  std::string law;
  std::string says = {};
  Topic about = {};
  std::string expected = {};  // what a slot should have held, in words
  std::string found = {};     // and who wrote what it held
};

class Story {
 public:
  static constexpr std::uint64_t kFrame = 1000;         // [steps]
  static constexpr std::uint64_t kMostSteps = 200'000;  // that are shown

  /// @param first the state before the first step
  /// @param lookups what explains them; null: the states show too little
  Story(const CacheConfig& config, Snapshot first, std::unique_ptr<LookupExplainer> lookups = {});

  void add(const Frame& frame);

  /// Says in the head what it is of. @param command runs the trace again; empty: there is none
  void describe(const TraceHeader& header, const std::string& source, Parts shown,
                const std::string& command);

  /// Adds a member to the line of the last step. @param value JSON
  void amend(const std::string& member, const std::string& value);
  /// The same for what lasts until it is set again, as the transfers in flight do ("t").
  void set(const std::string& member, const std::string& value);
  /// Of the last step, or of an earlier one.
  void add_verdict(const LensVerdict& verdict, std::optional<std::uint64_t> step = {});
  /// A verdict for each oracle that objected to the last step.
  void add_verdicts(const Broken& broken);

  [[nodiscard]] const Snapshot& last() const { return now_; }  // state
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

  void see_keys(const PoolState& pool, const PoolDifference& changed, const Frame& frame);
  void see_key(std::uint64_t key, GroupId group, std::uint32_t tokens, const Frame& frame);
  [[nodiscard]] std::string flags_of(const Frame& frame, const StateDifference& changed) const;
  [[nodiscard]] std::string members_of(const Frame& frame, const StateDifference& changed);
  [[nodiscard]] std::string row(const PoolState& pool, BlockId block) const;
  [[nodiscard]] std::string frame() const;
  void add_pool(std::string& out, const std::string& tier, const PoolState& was,
                const PoolState& now, const PoolDifference& changed) const;
  [[nodiscard]] std::string changes(const Snapshot& was, const Snapshot& now,
                                    const StateDifference& changed) const;
  [[nodiscard]] nlohmann::ordered_json whole_head() const;

  CacheConfig config_;
  Snapshot now_;
  KeyNumbers keys_;
  std::unique_ptr<LookupExplainer> lookups_;
  std::shared_ptr<const reference::CacheManager> model_;  // null: it is not known what is right
  std::vector<KeyFacts> facts_;                           // of each key, by its number - 1
  std::unordered_map<std::string, std::uint32_t> hits_;   // of the last lookup [tokens]
  std::map<std::string, std::string> set_;                // what lasts
  std::deque<std::string> chunks_;  // lines of kFrame steps, each behind its frame
  std::string line_;                // the last step, without its end
  std::uint64_t steps_ = 0;
  std::uint64_t dropped_ = 0;  // of these
  nlohmann::ordered_json verdicts_ = nlohmann::ordered_json::array();
};

/// The page: one file that needs nothing else. It unpacks the lines of the story itself.
[[nodiscard]] std::string lens_page(const Story& story);

}  // namespace kvproof::properties
