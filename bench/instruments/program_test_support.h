// SPDX-License-Identifier: Apache-2.0
// For tests that look at a program from outside: they run it in a folder of their own and read what
// it printed and wrote.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "properties/sources/traces/test_files.h"
#include "reference/support/child_program.h"

namespace kvproof::bench {

using nlohmann::json;
using Answer = ChildEnd;

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ProgramTest : public testing::Test {
 protected:
  Answer shell(const std::string& command) {
    return run_child(
        {.argv = {"sh", "-c", command}, .folder = folder_.path(), .limit_seconds = 3600});
  }
  /// @param program the verb @param environment "NAME=value"
  Answer run(const std::string& program, const std::string& arguments,
             const std::string& environment = "") {
    return shell(environment + " " KVPROOF_BINARY_DIR "/bin/kvproof-" + program + " " + arguments);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  static std::string plugin(const std::string& name) {
    return KVPROOF_BINARY_DIR "/plugins/" + name + ".so";
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }

  properties::TemporaryFolder folder_;
};

}  // namespace kvproof::bench
