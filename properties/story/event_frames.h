// SPDX-License-Identifier: Apache-2.0
// The frames of a recorded run of a whole engine (shadow/README.md): an event a frame.
//
// Shows:   the tables that steps are ordered, tokens, the keys that an index publishes, transfers.
// Hides:   the free queue and the references; by whose call a key left.
// Model:   a request is looked up when the run claims a hit of it, or else when its first row
//          starts at 0, after it has arrived, was preempted or has its next turn.
#pragma once

#include <functional>
#include <string>

#include "properties/shadow/events.h"
#include "properties/story/frame.h"
#include "reference/config.h"

namespace kvproof::properties {

/// What the header of a run says of its cache.
[[nodiscard]] CacheConfig config_of(const live::Header& header);

/// @return whether the first line of the file is the header of a run
[[nodiscard]] bool is_run(const std::string& path);

/// Reads the frames of a run. @param open is given its header and the state before its first event
/// @return why events are missing from somewhere on; empty: none are @throws InputError
std::string read_run(const std::string& path,
                     const std::function<FrameReader(const live::Header&, const Snapshot&)>& open);

}  // namespace kvproof::properties
