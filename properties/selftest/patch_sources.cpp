// SPDX-License-Identifier: Apache-2.0
// Applies source patches: the build's to the folders that it copies, those of a list to a package.
//
// Usage:   kvproof_patch_sources FOLDER FROM TO FILE... writes the patched copy of each file of a
//          patched folder, which lies at FROM, into TO, and does not touch what is there as it is.
//          --list FILE prints the rows of a list as JSON. --package FROM TO FILE:LINE... makes TO a
//          copy of FROM with the changes of these rows, in which what is unchanged is a link.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "properties/selftest/active_patch.h"
#include "properties/selftest/patch.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path)) {
    throw std::invalid_argument(say(path.string(), ": expected a file"));
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes under another name first, so that there is never half a file.
void write(const fs::path& path, const std::string& text) {
  if (fs::exists(path) && read(path) == text) return;
  const fs::path half = path.string() + ".half";
  fs::remove(half);  // it may be a link to a file of the package
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

void patch_sources(const PatchedFolder& folder, const fs::path& from, const fs::path& to,
                   const std::vector<std::string>& files) {
  expect_distinct(folder);
  fs::create_directories(to);
  for (const Patch& row : folder.rows) {
    if (std::ranges::count(files, row.file) == 1) continue;
    throw std::invalid_argument(say(row.place, ": ", row.id, " of ", row.file,
                                    ": there is no such file, expected one of those copied"));
  }
  for (const std::string& file : files) {
    fs::create_directories((to / file).parent_path());
    write(to / file, patched_text(folder, file, read(from / file), files));
  }
}

PatchedFolder read_list(const std::string& path) { return read_patches(path, read(path)); }

void print_list(const std::string& path) {
  nlohmann::json out = nlohmann::json::array();
  for (const Patch& row : read_list(path).rows) {
    nlohmann::json& object = out.emplace_back();
    for (const auto& [name, column] : kPatchColumns) object[name] = row.*column;
  }
  std::cout << out << std::endl;
  if (!std::cout) throw std::invalid_argument("the standard output: cannot be written");
}

void link_all(const fs::path& from, const fs::path& to) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename(), link = to / name;
    if (name != "__pycache__" && !fs::exists(fs::symlink_status(link)))
      fs::create_symlink(entry.path(), link);
  }
}

// Makes the folders on the way to a file folders of the copy, and the rest of them links.
void open_way(fs::path from, fs::path to, const fs::path& file) {
  for (const fs::path& part : file.parent_path()) {
    link_all(from, to);
    from /= part;
    to /= part;
    if (fs::is_symlink(to)) {
      fs::remove(to);
      fs::create_directory(to);
    }
  }
  link_all(from, to);
}

void patch_package(const fs::path& from, const fs::path& to, std::span<char*> places) {
  std::map<std::string, std::string> texts;
  for (const std::string place : places) {
    const PatchedFolder list = read_list(place.substr(0, place.rfind(':')));
    const auto row = std::ranges::find(list.rows, place, &Patch::place);
    if (row == list.rows.end()) throw std::invalid_argument(say(place, ": expected a patch"));
    const fs::path file = fs::path(row->file).lexically_normal();
    if (file.is_absolute() || *file.begin() == "..") {
      throw std::invalid_argument(say(place, ": expected a file of the package, found ", file));
    }
    const auto [at, is_new] = texts.try_emplace(row->file);
    if (is_new) at->second = read(from / row->file);
    at->second = changed_text(*row, at->second);
  }
  fs::create_directories(to);
  for (const auto& [file, text] : texts) {
    open_way(fs::absolute(from), to, file);
    write(to / file, text);
  }
}

}  // namespace
}  // namespace kvproof::properties

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (argc < 3 || (argc < 4 && what != "--list")) {
    std::cerr << "usage: kvproof_patch_sources FOLDER FROM TO FILE...\n"
                 "       kvproof_patch_sources --list FILE\n"
                 "       kvproof_patch_sources --package FROM TO FILE:LINE...\n";
    return 2;
  }
  try {
    using namespace kvproof::properties;
    if (what == "--list") {
      print_list(argv[2]);
    } else if (what == "--package") {
      patch_package(argv[2], argv[3], std::span(argv, argc).subspan(4));
    } else {
      patch_sources(patched_folder(what), argv[2], argv[3], {argv + 4, argv + argc});
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
