// SPDX-License-Identifier: Apache-2.0
// What a story says of itself, which laws broke in it, and the page that shows it.
#pragma once

#include <string>

#include "properties/caller/promises.h"
#include "properties/laws/violation.h"
#include "properties/story/story.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// Says in the head of a story what it is of.
/// @param command runs the trace again; empty: there is none
void tell_head(Story& story, const TraceHeader& header, const std::string& source, Parts shown,
               const std::string& command);

/// Adds a verdict for each oracle that objected to the last step.
void add_verdicts(Story& story, const Broken& broken);

/// The page: one file that needs nothing else. It unpacks the lines of the story itself.
[[nodiscard]] std::string lens_page(const Story& story);

}  // namespace kvproof::properties
