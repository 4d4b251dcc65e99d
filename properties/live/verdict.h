// SPDX-License-Identifier: Apache-2.0
// A run judged from its lines, and the verdict in words and as JSON.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "properties/live/judge.h"

namespace kvproof::live {

/// Judges a recorded run, plain or compressed. @throws InputError
[[nodiscard]] Judge judge_file(const std::string& path);

/// "holds" or "broken by S1 (content)", and whether the run was cut off.
[[nodiscard]] std::string verdict_line(const Judge& judge);
[[nodiscard]] std::string in_words(const Found& found, const Judge& judge);
void print_verdict(std::ostream& out, std::string_view file, const Judge& judge);
[[nodiscard]] std::string verdict_json(const Judge& judge);

}  // namespace kvproof::live
