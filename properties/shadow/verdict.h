// SPDX-License-Identifier: Apache-2.0
// A run judged from its lines, and the verdict as a word with a reason, and as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "properties/shadow/judge.h"

namespace kvproof::live {

/// Judges a recorded run, plain or compressed. Of a pipe the last line may be broken off: then the
/// run is judged up to there. @param found is told each finding as it comes @param knows which of
/// them are known @throws InputError
[[nodiscard]] Judge judge_file(const std::string& path,
                               const std::function<void(const Found&, const Judge&)>& found = {},
                               Knows knows = {});
/// @return whether it is read as it is written: standard input or a pipe
[[nodiscard]] bool is_stream(const std::string& path);

/// holds, broken, known or cannot_tell: a word of bench/results/verdict.h.
[[nodiscard]] std::string_view verdict_of(const Judge& judge);
/// Which law was broken first, why it cannot be told, and where the judgement ended; or empty.
[[nodiscard]] std::string reason_of(const Judge& judge);
[[nodiscard]] std::uint64_t laws_evaluated(const Judge& judge);
[[nodiscard]] std::string in_words(const Found& found, const Judge& judge);
[[nodiscard]] nlohmann::json verdict_json(const Judge& judge);

}  // namespace kvproof::live
