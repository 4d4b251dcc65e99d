// SPDX-License-Identifier: Apache-2.0
// Part of the build: patch_sources FROM TO FILE... writes the patched copy of each file of folder
// FROM into folder TO, and does not touch files that are there already.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

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

void patch_sources(const fs::path& from, const fs::path& to,
                   const std::vector<std::string>& files) {
  fs::create_directories(to);
  for (const Patch& row : all_patches()) {
    if (std::ranges::count(files, row.file) == 1) continue;
    throw std::invalid_argument(say("patch ", row.id, " of optimized/", row.file,
                                    ": there is no such file, expected one of those copied"));
  }
  for (const std::string& file : files) {
    fs::create_directories((to / file).parent_path());
    write(to / file, patched_text(file, read(from / file), all_patches()));
  }
}

}  // namespace
}  // namespace kvproof::properties

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: patch_sources FROM TO FILE...\n";
    return 2;
  }
  try {
    kvproof::properties::patch_sources(argv[1], argv[2], {argv + 3, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
