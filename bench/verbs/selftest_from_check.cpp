// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/selftest_from_check.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvproof::bench {
namespace {

/// Of a mutation score --mutants was how many are drawn, and meant nothing without a number.
std::vector<std::string> with_draw(std::vector<std::string> words) {
  const auto at = std::ranges::find_if(
      words, [](const std::string& word) { return (word + '=').starts_with("--mutants="); });
  if (at == words.end()) return words;
  const bool counts =
      at->find('=') != std::string::npos || (at + 1 != words.end() && !(at + 1)->starts_with('-'));
  if (counts) {
    at->replace(0, at->find('='), "--draw");
  } else {
    words.erase(at);
  }
  return words;
}

}  // namespace

void become_selftest(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string modes[] = {"--mutation-score", "--mutants", "--liars"};
  const auto* const mode = std::ranges::find_if(modes, [&](const std::string& option) {
    return std::ranges::find(words, option) != words.end();
  });
  if (mode == std::end(modes)) return;
  std::cerr << "kvproof: check " << *mode << " is selftest " << *mode << " from now on\n";
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string program = bin / "kvproof-selftest";
  if (mode == std::begin(modes)) {
    words = with_draw(std::move(words));
    const std::string with_mutants = bin / "kvproof-mutation_score";
    if (std::filesystem::exists(with_mutants)) program = with_mutants;
  }
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  throw std::runtime_error(program + " cannot be run");
}

}  // namespace kvproof::bench
