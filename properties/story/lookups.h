// SPDX-License-Identifier: Apache-2.0
// Explains each lookup of a history, from the frames of operations or of events.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "properties/story/frame.h"
#include "reference/subject.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

enum class FramesOf : std::uint8_t { operations, events };

class LookupExplainer {
 public:
  /// The states of the frames must show keys, and the hashes of requests.
  LookupExplainer(const CacheConfig& config, FramesOf source);

  void take(const Frame& frame);

  std::vector<Explained> explained;  // in the order of the lookups; may be taken

 private:
  struct Known {                           // of a request
    std::vector<ContentId> contents = {};  // one per complete hash unit
    std::uint32_t computed = 0;            // [tokens]
  };

  void learn(const RequestState& state, const FrameRequest& request);
  void explain(Lookup lookup, const Frame& frame);
  void follow_index(const Frame& frame);
  [[nodiscard]] std::string computing(const Frame& frame, GroupId group, std::uint64_t end,
                                      ContentId content) const;
  std::uint32_t number_of(const std::string& name);

  CacheConfig config_;
  FramesOf source_;
  IndexHistory history_;
  Explainer explainer_;
  Moment now_;
  std::map<std::string, Known> requests_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> names_;
};

/// The lookups of a history.
struct Explanations {
  std::vector<Explained> lookups;
  std::string ends;  // why it goes no further; empty if it went to the end
};

/// Explains one trace of a file after the other. @param open the subject of a trace, or nullptr
/// @param take is given each trace with its header @throws InputError
void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& take);

/// Explains the admissions of a recorded run. A hit may be shorter than its blocks allow, by rules
/// of the engine. @throws InputError
[[nodiscard]] Explanations explain_run(const std::string& path);

}  // namespace kvproof::properties
