// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a recorded run: strictly, because a word that is not understood may be the
// one that matters.
//
// Refuses: an unknown operation or member, a value out of its range or of another kind, with a
//          TextError that names the field. Nothing is allocated by a number that a line claims but
//          the tiers of the header, whose slots are bounded.
#pragma once

#include <string_view>

#include "properties/live/events.h"

namespace kvproof::live {

/// @throws TextError
[[nodiscard]] Header parse_run_header(std::string_view line);
[[nodiscard]] Event parse_event(std::string_view line, const Header& header, Names& names);

}  // namespace kvproof::live
