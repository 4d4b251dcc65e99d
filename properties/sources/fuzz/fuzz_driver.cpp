// SPDX-License-Identifier: Apache-2.0
// Calls a fuzz target for files when there is no fuzzer: the corpus is a test and a benchmark.
//   usage: fuzz_<target> [--seconds=N] [FILE|FOLDER]...    with N: over and over, for that long
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "properties/sources/fuzz/fuzz_target.h"

namespace {

struct Input {
  std::string path;
  std::vector<char> bytes;
};

const Input* running = nullptr;

extern "C" void tell_which(int signal) {
  std::fprintf(stderr, "input: %s\n", running->path.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// @return whether the path could be read
bool read_path(const std::filesystem::path& path, std::vector<Input>& inputs) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in || std::filesystem::is_directory(file)) {
      std::cerr << file.string() << ": expected a file that can be read\n";
      return false;
    }
    inputs.push_back({file.string(), {std::istreambuf_iterator<char>(in), {}}});
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kSeconds = "--seconds=";
  double seconds = 0;
  std::vector<Input> inputs;
  for (const std::string_view argument : std::vector<std::string_view>(argv + 1, argv + argc)) {
    if (argument.starts_with(kSeconds)) {
      const char* end = argument.data() + argument.size();
      const auto [at, error] = std::from_chars(argument.data() + kSeconds.size(), end, seconds);
      if (error == std::errc() && at == end && seconds > 0) continue;
      std::cerr << argument << ": expected a number of seconds above 0\n";
      return 2;
    }
    if (!read_path(argument, inputs)) return 2;
  }
  if (inputs.empty()) {
    std::cerr << "usage: " << argv[0] << " [--seconds=N] [FILE|FOLDER]...\n";
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, tell_which);
  const double end = seconds * CLOCKS_PER_SEC;  // of processor time: the machine may be shared
  do {
    for (const Input& input : inputs) {
      running = &input;
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.bytes.data()),
                             input.bytes.size());
    }
  } while (static_cast<double>(std::clock()) < end);
  return 0;
}
