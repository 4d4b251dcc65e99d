// SPDX-License-Identifier: Apache-2.0
// For tests of readers: a folder that is removed at the end, files in it, and compressed bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvproof::properties {

/// A fresh folder, removed with everything in it at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes the file `name` in the folder and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string gzip(std::string_view bytes);  // one member
[[nodiscard]] std::string zstd(std::string_view bytes);  // one frame with a checksum

/// Why a test of a public request log is skipped. The logs stay outside for licences and sizes.
inline constexpr const char* kNoPublicLog =
    "public request logs are not in the tree (KVPROOF_SHARED names a folder with traces/)";

/// The path of a file of the folder of public request logs, which is $KVPROOF_SHARED or ../shared
/// beside the repository; empty if there is no such file.
[[nodiscard]] std::string shared_file(std::string_view relative_path);

}  // namespace kvproof::properties
