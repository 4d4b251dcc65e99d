// SPDX-License-Identifier: Apache-2.0
// Another revision of this checkout as a library: its optimized manager behind the direct section.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace kvproof::bench {

/// Where this program was built. Empty folders when it is installed.
struct Checkout {
  std::filesystem::path sources;
  std::filesystem::path build;  // with the CMakeCache.txt whose compiler and flags are used
};

[[nodiscard]] Checkout find_checkout();

/// @return the commit of that name, or "" where there is none
[[nodiscard]] std::string find_revision(const Checkout& checkout, const std::string& name);

/// Builds the manager as it was in that commit, or as the checkout is now, with the compiler and
/// the flags of this build. Everything lies below `folder`.
/// @param commit of find_revision(); empty: the files of the checkout as they are
/// @param digest "Xxh3Digest" or "Sha256Digest" @return the path of the library
/// @param on_progress is told the fraction that is built, 0 to 1
/// @throws std::invalid_argument in one line when it cannot be built
[[nodiscard]] std::filesystem::path build_revision(const Checkout& checkout,
                                                   const std::string& commit,
                                                   const std::string& digest,
                                                   const std::filesystem::path& folder,
                                                   const std::function<void(double)>& on_progress);

}  // namespace kvproof::bench
