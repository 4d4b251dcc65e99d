// SPDX-License-Identifier: Apache-2.0
// Part of the build: patch_sources FOLDER FROM TO FILE... writes the patched copy of each file of a
// patched folder, which lies at FROM, into TO, and does not touch files that are there already.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "properties/mutants/active_patch.h"
#include "properties/mutants/patch_text.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::invalid_argument(say(path.string(), ": expected a file"));
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes under another name first, so that there is never half a file.
void write(const fs::path& path, const std::string& text) {
  if (fs::exists(path) && read(path) == text) return;
  const fs::path half = path.string() + ".half";
  std::ofstream out(half, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::invalid_argument(say(half.string(), ": cannot be written"));
  fs::rename(half, path);
}

// Different ids must have different numbers: the copy asks for these.
void expect_distinct(const PatchedFolder& folder) {
  std::map<std::uint32_t, std::string_view> ids;
  for (const Patch& row : folder.rows) {
    const auto [at, is_new] = ids.emplace(patched::PatchId(row.id).number, row.id);
    if (is_new || at->second == row.id) continue;
    throw std::invalid_argument(say("patch ", row.id, " has the number of ", at->second));
  }
}

PatchedFolder patched_folder(std::string_view name) {
  for (const PatchedFolder& folder : {patched_folder_of_optimized(), patched_folder_of_kernels(),
                                      patched_folder_of_reference(), patched_folder_of_serving()}) {
    if (folder.name == name) return folder;
  }
  throw std::invalid_argument(say(name, ": no folder with source patches"));
}

void patch_sources(const PatchedFolder& folder, const fs::path& from, const fs::path& to,
                   const std::vector<std::string>& files) {
  expect_distinct(folder);
  fs::create_directories(to);
  for (const Patch& row : folder.rows) {
    if (std::ranges::count(files, row.file) == 1) continue;
    throw std::invalid_argument(say("patch ", row.id, " of ", folder.name, "/", row.file,
                                    ": there is no such file, expected one of those copied"));
  }
  for (const std::string& file : files) {
    fs::create_directories((to / file).parent_path());
    write(to / file, patched_text(folder, file, read(from / file), files));
  }
}

}  // namespace
}  // namespace kvproof::properties

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: patch_sources FOLDER FROM TO FILE...\n";
    return 2;
  }
  try {
    using namespace kvproof::properties;
    patch_sources(patched_folder(argv[1]), argv[2], argv[3], {argv + 4, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
