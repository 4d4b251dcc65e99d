// SPDX-License-Identifier: Apache-2.0
#include "properties/shadow/content_readback.h"

#include <algorithm>
#include <utility>

#include "properties/laws/extent.h"
#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

std::string words_of(const ReadBack& read) {
  return read.kept ? say("[", read.token, ", ", read.position, "]") : "nothing";
}

}  // namespace

Finding ContentReadback::read(const Snapshot& state, const CallerBook& book) {
  static const std::vector<ReadBack> kNothing;
  const auto& all = state.contents.of;
  for (const RequestState& r : state.requests) {
    const auto at = all.find(r.name);
    const auto& contents = at != all.end() ? at->second : kNothing;
    if (Finding finding = read(r, book.find(r.name), contents)) return finding;
  }
  for (const auto& [name, contents] : all) {
    if (contents.empty() || state.find(name) != nullptr) continue;
    return say("contents of ", Named{name}, " are shown, and there is no such request");
  }
  return std::nullopt;
}

Finding ContentReadback::read(const RequestState& r, const RequestRecord* known,
                              const std::vector<ReadBack>& contents) {
  const std::uint64_t expected = without_blocks(r) ? 0 : r.computed;
  if (contents.size() != expected) {
    return say("request ", Named{r.name}, " shows the contents of ", contents.size(),
               " positions; ",
               without_blocks(r) ? "it holds no blocks" : say(expected, " are computed"));
  }
  if (known == nullptr) return std::nullopt;
  const std::vector<TokenId>& tokens = known->sequence->tokens;
  const std::uint64_t end = std::min<std::uint64_t>(expected, tokens.size());
  for (std::uint64_t i = 0; i < end; ++i) {
    const ReadBack& read = contents[i];
    const std::int64_t token{tokens[i]};
    const bool right = read.kept ? read.token == token && std::cmp_equal(read.position, i)
                                 : may_skip(*known, i, expected);
    if (right) {
      compared_ += read.kept ? 1 : 0;
      continue;
    }
    const bool torn = read.kept && (read.token == -1 || read.position == -1);
    return say("request ", Named{r.name}, " reads ", words_of(read), " at position ",
               TokenPosition{i}, " of the tensors, expected ",
               words_of({true, token, std::int64_t(i)}),
               torn ? "; -1: its elements do not agree" : "");
  }
  return std::nullopt;
}

bool ContentReadback::may_skip(const RequestRecord& r, std::uint64_t position,
                               std::uint64_t computed) const {
  const Progress now{computed, computed, r.prompt_tokens, 0,
                     std::min<std::uint64_t>(sinks_, computed)};
  return std::ranges::all_of(config_.groups, [&](const GroupConfig& group) {
    return !is_written_again(group.kind) || !reads_of(group, now).has(position);
  });
}

}  // namespace kvproof::properties
