// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/revision.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "reference/support/child_program.h"

namespace kvproof::bench {
namespace {

namespace fs = std::filesystem;

// A checkout may be somebody else's: git would not read it, and only reading is asked of it here.
constexpr const char* kAnyOwner[] = {"-c", "safe.directory=*"};

/// The values of a CMakeCache.txt.
std::map<std::string, std::string> read_cache(const fs::path& build) {
  std::map<std::string, std::string> out;
  std::ifstream file(build / "CMakeCache.txt");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':'), equals = line.find('=');
    if (colon == std::string::npos || equals == std::string::npos || colon > equals) continue;
    out[line.substr(0, colon)] = line.substr(equals + 1);
  }
  return out;
}

/// The first line that a compiler or CMake calls an error.
std::string first_error(const ChildEnd& end) {
  for (const std::string* text : {&end.out, &end.error}) {
    for (const char* word : {" error: ", "CMake Error"}) {
      const std::size_t at = text->find(word);
      if (at == std::string::npos) continue;
      const std::size_t from =
          text->rfind('\n', at) == std::string::npos ? 0 : text->rfind('\n', at) + 1;
      return text->substr(from, text->find('\n', at) - from);
    }
  }
  return end.text();
}

/// The fraction that ninja or make has done, by the last "[3/20]" or "[ 15%]" of its output.
std::optional<double> fraction_built(std::string_view output) {
  const std::size_t at = output.rfind('[');
  if (at == std::string_view::npos) return std::nullopt;
  double done = 0, all = 100;
  char unit = 0;
  const std::string text(output.substr(at, 40));
  if (std::sscanf(text.c_str(), "[%lf %c", &done, &unit) != 2) return std::nullopt;
  if (unit == '/' && std::sscanf(text.c_str(), "[%lf/%lf]", &done, &all) != 2) return std::nullopt;
  if (!(all > 0 && (unit == '/' || unit == '%'))) return std::nullopt;
  return done / all;
}

void run(const std::string& what, std::vector<std::string> argv,
         const std::function<void(std::string_view)>& on_output = {}) {
  const ChildEnd end =
      run_child({.argv = std::move(argv), .limit_seconds = 3600, .on_output = on_output});
  if (!end.ok()) throw std::invalid_argument(what + ": " + first_error(end));
}

/// Copies the gate's own files into a folder that holds no other files of a tree.
fs::path copy_adapter(const Checkout& checkout, const fs::path& folder) {
  const fs::path adapter = folder / "adapter";
  for (const char* file :
       {"bench/gate/direct_manager.h", "bench/gate/revision/revision_plugin.cpp",
        "bench/gate/revision/CMakeLists.txt", "properties/engines/kit/kvproof_subject.h"}) {
    fs::create_directories((adapter / file).parent_path());
    fs::copy_file(checkout.sources / file, adapter / file, fs::copy_options::overwrite_existing);
  }
  return adapter;
}

}  // namespace

Checkout find_checkout() {
  std::error_code error;
  const fs::path build = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const auto cache = read_cache(build);
  const auto home = cache.find("CMAKE_HOME_DIRECTORY");
  if (home == cache.end()) return {};
  return {home->second, build};
}

std::string find_revision(const Checkout& checkout, const std::string& name) {
  if (checkout.sources.empty() || name.empty() || name.front() == '-') return {};
  const ChildEnd end =
      run_child({.argv = {"git", kAnyOwner[0], kAnyOwner[1], "-C", checkout.sources.string(),
                          "rev-parse", "--verify", "--quiet", name + "^{commit}"}});
  return end.ok() ? end.out.substr(0, end.out.find('\n')) : "";
}

fs::path build_revision(const Checkout& checkout, const std::string& commit,
                        const std::string& digest, const fs::path& folder,
                        const std::function<void(double)>& on_progress) {
  fs::create_directories(folder);
  fs::path tree = checkout.sources;
  const std::string what = commit.empty() ? "the checkout" : "revision " + commit.substr(0, 12);
  if (!commit.empty()) {
    tree = folder / "tree";
    fs::create_directories(tree);
    const std::string archive = (folder / "tree.tar").string();
    run(what, {"git", kAnyOwner[0], kAnyOwner[1], "-C", checkout.sources.string(), "archive",
               "--format=tar", "-o", archive, commit});
    run(what, {"cmake", "-E", "chdir", tree.string(), "cmake", "-E", "tar", "xf", archive});
  }
  const fs::path adapter = copy_adapter(checkout, folder);
  const fs::path build = folder / "build";
  std::vector<std::string> configure = {"cmake",
                                        "-S",
                                        (adapter / "bench/gate/revision").string(),
                                        "-B",
                                        build.string(),
                                        "-DKVPROOF_TREE=" + tree.string(),
                                        "-DKVPROOF_ADAPTER=" + adapter.string(),
                                        "-DKVPROOF_DIGEST=" + digest,
                                        "-DKVPROOF_UNITY=ON"};  // the allocator never is a unit
  const auto cache = read_cache(checkout.build);
  if (const auto at = cache.find("CMAKE_GENERATOR"); at != cache.end()) {
    configure.insert(configure.end(), {"-G", at->second});
  }
  for (const char* name :
       {"CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_BUILD_TYPE", "CMAKE_CXX_FLAGS",
        "CMAKE_CXX_FLAGS_RELEASE", "CMAKE_PREFIX_PATH", "KVPROOF_MARCH", "KVPROOF_AUDIT"}) {
    const auto at = cache.find(name);
    if (at != cache.end()) configure.push_back("-D" + at->first + "=" + at->second);
  }
  run(what + " cannot be configured", configure);
  run(what + " does not build with this gate's adapter",
      {"cmake", "--build", build.string(), "--target", "subject"}, [&](std::string_view output) {
        if (const auto fraction = fraction_built(output)) on_progress(*fraction);
      });
  return build / "subject.so";
}

}  // namespace kvproof::bench
