// SPDX-License-Identifier: Apache-2.0
// The rules of the source tree itself, as checks over files given by path and text.
//
// Model:   a check maps a set of files to complaints "path:line: what is wrong"; it reads no disk,
//          so that tests can hand it files that must be refused.
// Refuses: to be a formatter or a compiler: each check is a line scanner that knows this project's
//          layout (clang-format's), not C++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvproof::properties::tidy {

struct File {
  std::string path;  // relative to the repository, with forward slashes
  std::string text;
};

using Files = std::vector<File>;
using Complaints = std::vector<std::string>;

/// One list file: adding an allocator, a law, a mutant or a workload is one row in it.
struct List {
  std::string_view path;
  std::string_view may_name_all;  // files that say more of each row, with blanks between them
};

inline constexpr List kLists[] = {
    {"reference/model_presets.h", ""},
    {"optimized/subjects.h", ""},
    {"kernels/kernels.h", ""},
    {"properties/laws.h", "properties/mutants.h properties/check/reach.cpp"},
    {"properties/mutants.h", ""},
    {"properties/mutants/patches.cpp", ""},
    {"properties/kernels/kernel_mutants.h", ""},
    {"properties/configurations.h", ""},
    {"bench/hit_rate/policies.h", ""},
    {"bench/serving/hardware.h", ""},
    {"bench/requests/workloads.h", ""},
    {"bench/studies/studies.h", ""},
    {"bench/gate/gate_workloads.h", ""},
};

/// Every source, script and build file below `root`, build folders left out, sorted by path.
[[nodiscard]] Files read_tree(const std::string& root);

/// A folder includes only itself and folders to its left: reference optimized kernels properties
/// bench reports. Quoted includes are relative to the repository.
[[nodiscard]] Complaints check_layers(const Files& files);

/// Columns <= 100 everywhere; headers <= 200 lines, sources and lists <= 400, functions <= 60.
[[nodiscard]] Complaints check_sizes(const Files& files);

/// The licence line comes first, then a comment that says what the file is; x.cpp may let x.h say
/// it by including that first.
[[nodiscard]] Complaints check_openings(const Files& files);

/// Every translation unit stands in its folder's build files; every header is included and every
/// script named by another file.
[[nodiscard]] Complaints check_no_dead_files(const Files& files);

/// No words of unfinished work.
[[nodiscard]] Complaints check_words(const Files& files);

/// Each of kLists has rows with distinct names; no other file holds a second array of its row type
/// or enumerates its rows; and whatever calls itself THE LIST is one of kLists.
[[nodiscard]] Complaints check_lists(const Files& files);

/// The first string of each row of the array in a list file.
[[nodiscard]] std::vector<std::string> row_names(const std::string& text);

}  // namespace kvproof::properties::tidy
