// SPDX-License-Identifier: Apache-2.0
// Explains the lookups of a trace of operations, while a subject performs it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "properties/story/causes.h"
#include "reference/subject.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// What is told of a run.
struct Explanations {
  std::vector<Explained> lookups;
  std::string ends;  // why it goes no further; empty if it went to the end
};

/// Explains the next trace of a file after the other. @param open the subject of a trace, or
/// nullptr; its snapshots must show keys, and the hashes of requests @param told is given each
/// trace with its header @throws InputError
void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& told);

}  // namespace kvproof::properties
