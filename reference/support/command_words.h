// SPDX-License-Identifier: Apache-2.0
// Commands and addresses that a reader can use from where he is, as they are printed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvproof {

/// One word for the shell: in quotes, if it would be read otherwise without them.
[[nodiscard]] std::string shell_word(std::string_view text);

/// "./kvproof replay a.jsonl" of "replay a.jsonl": the launcher as it was called, which says so in
/// KVPROOF_CALLED. If these words start a program of the user's, as --subject-command does, and
/// PYTHONPATH is set, that comes first.
[[nodiscard]] std::string kvproof_command(const std::string& words);

/// "file:///home/a%20b/lens.html": what a browser and a terminal can open.
[[nodiscard]] std::string file_address(const std::filesystem::path& file);

}  // namespace kvproof
