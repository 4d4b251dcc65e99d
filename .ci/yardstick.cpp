// SPDX-License-Identifier: Apache-2.0
// What CPU-seconds are measured with: how long one compiler on one machine takes for this file. It
// needs the standard headers alone and never changes, or no stored ratio would mean anything.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

template <int N>
struct Key {
  int first = N;
  std::string second;
  bool operator<(const Key& other) const {
    return std::tie(first, second) < std::tie(other.first, other.second);
  }
  bool operator==(const Key& other) const {
    return first == other.first && second == other.second;
  }
};

template <int N>
struct Hash {
  std::size_t operator()(const Key<N>& key) const {
    return std::hash<std::string>()(key.second) * 31 + static_cast<std::size_t>(key.first);
  }
};

template <int N>
std::size_t containers(const std::vector<std::string>& words) {
  std::map<Key<N>, std::vector<std::string>> ordered;
  std::unordered_map<Key<N>, std::set<std::string>, Hash<N>> hashed;
  std::vector<Key<N>> keys;
  for (const std::string& word : words) {
    const Key<N> key{static_cast<int>(word.size()) + N, word};
    ordered[key].push_back(word);
    hashed[key].insert(word);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  std::stable_sort(keys.begin(), keys.end(), [](const Key<N>& left, const Key<N>& right) {
    return left.second.size() < right.second.size();
  });
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::variant<Key<N>, std::string, std::vector<int>> one = keys.empty() ? Key<N>{} : keys.front();
  if (words.size() > N) one = words[N];
  const std::function<std::size_t(const std::string&)> length = [&](const std::string& word) {
    const std::regex pattern(word + "[a-z]*(" + std::to_string(N) + ")?");
    return static_cast<std::size_t>(std::regex_match(word, pattern)) + hashed.size();
  };
  std::size_t sum = ordered.size() + keys.size() + one.index();
  for (const auto& [key, list] : ordered) {
    for (const std::string& word : list) sum += length(word + key.second);
  }
  return sum;
}

template <std::size_t... N>
std::size_t all(const std::vector<std::string>& words, std::index_sequence<N...>) {
  return (containers<static_cast<int>(N)>(words) + ... + 0);
}

}  // namespace

std::size_t yardstick(const std::vector<std::string>& words) {
  return all(words, std::make_index_sequence<6>());
}
