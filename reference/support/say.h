// SPDX-License-Identifier: Apache-2.0
// Builds the one sentence of a finding out of its parts, and keeps the parts that it is about as
// values; called only when something is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

/// What a sentence is about, in the order in which it names them.
struct Topic {
  std::vector<BlockId> blocks;       // of the device
  std::vector<BlockId> host_blocks;  // of the host tier
  std::vector<std::string> requests;
  std::optional<std::uint64_t> entry;     // of a table [blocks]
  std::optional<std::uint64_t> position;  // [tokens]

  void note(BlockId block) { blocks.push_back(block); }
  /// Most parts of a sentence are words and counts.
  template <class Part>
  void note(const Part& part) {
    if constexpr (requires { part.note(*this); }) part.note(*this);
  }
};

// Parts of a sentence that are printed as their values, and that it is about.
struct Named {
  std::string_view value;
  void note(Topic& topic) const { topic.requests.emplace_back(value); }
};
struct TierBlock {
  BlockId value;
  bool host;
  void note(Topic& topic) const { (host ? topic.host_blocks : topic.blocks).push_back(value); }
};
struct TableEntry {
  std::uint64_t value;
  void note(Topic& topic) const { topic.entry = value; }
};
struct TokenPosition {
  std::uint64_t value;
  void note(Topic& topic) const { topic.position = value; }
};
template <class Part>
requires requires(const Part& part, Topic& topic) { part.note(topic); }
std::ostream& operator<<(std::ostream& out, const Part& part) { return out << part.value; }

/// A text that knows what it is about.
struct Sentence : std::string {
  Topic about = {};

  using std::string::string;
  Sentence(std::string text) : std::string(std::move(text)) {}  // NOLINT: implicit
};

/// What an oracle found wrong; nullopt when nothing is.
using Finding = std::optional<Sentence>;

/// The same finding, of a pool that is the host tier.
[[nodiscard]] inline Finding on_host(Finding finding) {
  if (finding) finding->about.blocks.swap(finding->about.host_blocks);
  return finding;
}

template <class... Parts>
[[nodiscard]] Sentence say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  Sentence sentence(out.str());
  (sentence.about.note(parts), ...);
  return sentence;
}

/// Words with something between them.
[[nodiscard]] std::string joined(const auto& words, std::string_view between) {
  std::string out;
  for (const auto& word : words) out.append(out.empty() ? "" : between).append(word);
  return out;
}

/// Block ids as "[3, 1, 2]".
[[nodiscard]] inline std::string list_of(std::span<const BlockId> blocks) {
  std::ostringstream out;
  for (std::size_t i = 0; i < blocks.size(); ++i) out << (i == 0 ? "[" : ", ") << blocks[i];
  return blocks.empty() ? "[]" : out.str() + "]";
}

/// One list per group.
[[nodiscard]] inline std::string lists_of(const std::vector<std::vector<BlockId>>& lists) {
  std::string out;
  for (const auto& list : lists) out += (out.empty() ? "" : " ") + list_of(list);
  return out.empty() ? "absent" : out;
}

}  // namespace kvproof
