// SPDX-License-Identifier: Apache-2.0
// A recorded run of an engine (live/README.md) as a story: an event a step.
//
// Shows:   the tables that steps are ordered, tokens, the keys that an index publishes, transfers.
// Hides:   the free queue and the references.
#pragma once

#include <memory>
#include <string>

#include "properties/story/story.h"

namespace kvproof::properties {

/// @throws InputError
[[nodiscard]] std::shared_ptr<Story> story_of_run(const std::string& path);

/// Writes the lens of a run beside it, or into the current folder if that cannot be written.
/// @return a line for the report: where to look, or why there is nothing
[[nodiscard]] std::string write_lens_of_run(const std::string& path);

}  // namespace kvproof::properties
