// SPDX-License-Identifier: Apache-2.0
// A run judged from its lines, and the verdict in words and as JSON.
#pragma once

#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "properties/live/judge.h"

namespace kvproof::live {

/// Judges a recorded run, plain or compressed. Of a pipe the last line may be broken off: then the
/// run is judged up to there. @param found is told each finding as it comes @throws InputError
[[nodiscard]] Judge judge_file(const std::string& path,
                               const std::function<void(const Found&, const Judge&)>& found = {});
/// @return whether it is read as it is written: standard input or a pipe
[[nodiscard]] bool is_stream(const std::string& path);

/// "holds", "BROKEN: S1 (content) first" or "cannot tell", and whether the run was cut off.
[[nodiscard]] std::string verdict_line(const Judge& judge);
[[nodiscard]] std::string in_words(const Found& found, const Judge& judge);
void print_finding(std::ostream& out, const Found& found, const Judge& judge);
/// Prints the verdict, and how often each law was evaluated.
void print_verdict(std::ostream& out, std::string_view file, const Judge& judge);
[[nodiscard]] nlohmann::json verdict_json(const Judge& judge);
/// Puts a run among those judged before: {"runs":[...],"total":{...}}.
void add_run(nlohmann::json& all, const std::string& file, const Judge& judge);

}  // namespace kvproof::live
