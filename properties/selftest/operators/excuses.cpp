// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/operators/excuses.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::properties {

std::string excuse_key(const OperatorMutant& mutant) {
  std::string out = say(mutant.file, '\t', mutant.function, '\t', mutant.change, '\t', mutant.text);
  if (mutant.ordinal > 1) out += say(" #", mutant.ordinal);
  return out;
}

std::map<std::string, std::string> read_excuses(const std::string& path,
                                                std::span<const OperatorMutant> mutants) {
  std::map<std::string, std::string_view> ids;
  for (const OperatorMutant& mutant : mutants) ids.emplace(excuse_key(mutant), mutant.id);
  std::ifstream in(path);
  if (!in) throw InputError(path, 0, "", "a readable file");
  std::map<std::string, std::string> out;
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t last = line.rfind('\t');
    if (std::ranges::count(line, '\t') != 4 || last + 1 == line.size()) {
      throw InputError(path, number, "",
                       "file, function, change, text and reason, divided by tabs");
    }
    const auto at = ids.find(line.substr(0, last));
    if (at == ids.end()) {
      throw InputError(path, number, "text",
                       "a mutant that there is: none has this file, function, change and text");
    }
    if (!out.emplace(at->second, line.substr(last + 1)).second) {
      throw InputError(path, number, "text", "a mutant that no line above excuses");
    }
  }
  return out;
}

std::vector<std::size_t> draw_mutants(std::span<const OperatorMutant> mutants, std::size_t most,
                                      std::uint64_t seed) {
  std::vector<std::size_t> order(mutants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return mutants[i].id; });
  std::mt19937_64 random(seed);  // its numbers are the same everywhere
  most = std::min(most, order.size());
  for (std::size_t i = 0; i < most; ++i)
    std::swap(order[i], order[i + random() % (order.size() - i)]);
  order.resize(most);
  std::ranges::sort(order);
  return order;
}

}  // namespace kvproof::properties
