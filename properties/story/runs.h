// SPDX-License-Identifier: Apache-2.0
// Explains the admissions of a recorded run of a whole engine (properties/shadow/README.md).
//
// Model:   a request is looked up when the run claims a hit of it, or else when its first row
//          starts at 0, after it has arrived, was preempted or has its next turn. The index is what
//          publications in tier 0 claim; what a hit brings from elsewhere is taken as it is said.
// Leaves out: for whom a block was withdrawn, which no event says; keys that do not end with a
//          block, and the rules of the engine: a hit may be shorter than its blocks allow.
#pragma once

#include <string>

#include "properties/story/operations.h"

namespace kvproof::live {

/// @return whether the first line of the file is the header of a run
[[nodiscard]] bool is_run(const std::string& path);

/// @throws InputError
[[nodiscard]] properties::Explanations explain_run(const std::string& path);

}  // namespace kvproof::live
