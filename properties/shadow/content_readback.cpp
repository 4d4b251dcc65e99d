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

void ContentReadback::follow(const Operation& operation, const Result& result) {
  if (is_undone(result)) return;
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    requests_[arrive->req] = {arrive->tokens, arrive->tokens.size()};
  } else if (const auto* append = std::get_if<op::Append>(&operation)) {
    std::vector<TokenId>& tokens = requests_[append->req].tokens;
    tokens.insert(tokens.end(), append->tokens.begin(), append->tokens.end());
  } else if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    requests_[fork->child] = requests_[fork->req];
  } else if (const auto* finish = std::get_if<op::Finish>(&operation)) {
    requests_.erase(finish->req);
  }
}

Finding ContentReadback::read(const Snapshot& state) {
  static const std::vector<ReadBack> kNothing;
  const auto& all = state.contents.of;
  for (const RequestState& r : state.requests) {
    const auto at = all.find(r.name);
    if (Finding finding = read(r, at != all.end() ? at->second : kNothing)) return finding;
  }
  for (const auto& [name, contents] : all) {
    if (contents.empty() || state.find(name) != nullptr) continue;
    return say("contents of ", name, " are shown, and there is no such request");
  }
  return std::nullopt;
}

Finding ContentReadback::read(const RequestState& r, const std::vector<ReadBack>& contents) {
  const std::uint64_t expected = without_blocks(r) ? 0 : r.computed;
  if (contents.size() != expected) {
    return say("request ", r.name, " shows the contents of ", contents.size(), " positions; ",
               without_blocks(r) ? "it holds no blocks" : say(expected, " are computed"));
  }
  const auto known = requests_.find(r.name);
  if (known == requests_.end()) return std::nullopt;
  const std::uint64_t end = std::min<std::uint64_t>(expected, known->second.tokens.size());
  for (std::uint64_t i = 0; i < end; ++i) {
    const ReadBack& read = contents[i];
    const std::int64_t token{known->second.tokens[i]};
    const bool right = read.kept ? read.token == token && std::cmp_equal(read.position, i)
                                 : may_skip(known->second, i, expected);
    if (right) {
      compared_ += read.kept ? 1 : 0;
      continue;
    }
    const bool torn = read.kept && (read.token == -1 || read.position == -1);
    return say("request ", r.name, " reads ", words_of(read), " at position ", i,
               " of the tensors, expected ", words_of({true, token, std::int64_t(i)}),
               torn ? "; -1: its elements do not agree" : "");
  }
  return std::nullopt;
}

bool ContentReadback::may_skip(const Request& r, std::uint64_t position,
                               std::uint64_t computed) const {
  const Progress now{computed, computed, r.prompt_tokens, 0,
                     std::min<std::uint64_t>(sinks_, computed)};
  return std::ranges::all_of(config_.groups, [&](const GroupConfig& group) {
    return !is_written_again(group.kind) || !reads_of(group, now).has(position);
  });
}

}  // namespace kvproof::properties
