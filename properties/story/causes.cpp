// SPDX-License-Identifier: Apache-2.0
#include "properties/story/causes.h"

#include <algorithm>
#include <utility>

#include "reference/prefix_search.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// What differs between the extra keys of two units; empty: nothing.
std::string differing_extra(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"salt:", "salt"},      {"lora:", "adapter"},         {"path:", "adapter"},
      {"mm:", "image"},       {"embeds:", "embedded rows"}, {"layout:", "layout"},
      {"keys:", "extra key"},
  };
  for (const auto& [prefix, words] : kKinds) {
    const auto of = [&prefix = prefix](const std::vector<std::string>& keys) {
      std::string out;
      for (const std::string& key : keys) out += key.starts_with(prefix) ? key + '\n' : "";
      return out;
    };
    if (of(a) != of(b)) return std::string(words);
  }
  return "";
}

}  // namespace

Explainer::Explainer(const CacheConfig& config, const IndexHistory& history, ExplainWords words,
                     std::uint64_t pool_blocks)
    : config_(with_eagle_kin(config)),
      history_(history),
      words_(std::move(words)),
      pool_blocks_(pool_blocks) {
  for (const GroupConfig& group : config_.groups) leads_.push_back(reads_all(group.kind));
  const auto first = std::ranges::find_if(
      config_.groups, [](const GroupConfig& group) { return is_cacheable(group.kind); });
  if (std::ranges::find(leads_, true) == leads_.end() && first != config_.groups.end()) {
    leads_[static_cast<std::size_t>(first - config_.groups.begin())] = true;
  }
}

std::uint64_t Explainer::search(const Lookup& lookup, const Cached& cached) const {
  const std::uint64_t hashed = lookup.contents.size() * std::uint64_t{config_.hash_block_size};
  const Cached known = [&](GroupId g, std::uint64_t tokens) {
    return tokens <= hashed && cached(g, tokens);
  };
  if (lookup.tokens == 0) return 0;
  if (config_.groups.size() > 1) {
    return reference::longest_common_hit(config_, lookup.limit, hashed, known).tokens;
  }
  const GroupConfig& only = config_.groups.front();
  return reference::longest_hit(only, {lookup.limit, only.block_size, only.eagle},
                                [&](std::uint64_t tokens) { return known(0, tokens); })
      .tokens;
}

Explained Explainer::explain(const Lookup& lookup) const {
  Explained out{.request = lookup.request,
                .operation = lookup.now.operation,
                .tokens = lookup.tokens,
                .hit = lookup.hit};
  if (lookup.off) {
    out.cause = Cause::caching_off;
    return out;
  }
  const auto content = [&](std::uint64_t tokens) {
    return lookup.contents[tokens / config_.hash_block_size - 1];
  };
  const Cached there = [&](GroupId g, std::uint64_t tokens) {
    return (lookup.may_know_more && tokens <= lookup.hit) || history_.holds(content(tokens), g);
  };
  out.most = search(lookup, [](GroupId, std::uint64_t) { return true; });
  const std::uint64_t found = search(lookup, there);
  if (found > lookup.hit || (found < lookup.hit && !lookup.may_know_more)) {
    out.why = say("the index held ", found, " tokens of it");
    return out;
  }
  if (lookup.hit >= out.most) {
    out.cause = Cause::last_token;
    out.why = say("no more than ", out.most, " tokens may hit");
    return out;
  }
  const std::uint64_t longest = search(
      lookup, [&](GroupId g, std::uint64_t tokens) { return !leads_[g] || there(g, tokens); });
  if (longest > lookup.hit) {
    explain_group(lookup, there, longest, out);
  } else {
    explain_block(lookup, there, out);
  }
  if (pool_blocks_ == 0) return out;
  const std::uint64_t by_twice = search(lookup, [&](GroupId g, std::uint64_t tokens) {
    if (there(g, tokens)) return true;
    const Stay& stay = history_.stay(content(tokens), g);
    return stay.ever && stay.for_room && lookup.now.taken - stay.left.taken < pool_blocks_;
  });
  out.kept_by_twice = by_twice > lookup.hit ? by_twice - lookup.hit : 0;
  return out;
}

// The groups that read everything have more than was hit, so that another one has cut it short.
void Explainer::explain_group(const Lookup& lookup, const Cached& there, std::uint64_t longest,
                              Explained& out) const {
  out.cause = Cause::no_state;
  std::string whose;
  for (GroupId g = 0; g < config_.groups.size(); ++g) {
    const std::uint64_t with = search(lookup, [&](GroupId other, std::uint64_t tokens) {
      return (!leads_[other] && other != g) || there(other, tokens);
    });
    if (leads_[g] || with >= longest) continue;
    whose += say("; group ", g, " (", kKindNames[static_cast<std::size_t>(config_.groups[g].kind)],
                 ") does not");
    const std::uint64_t end = longest / config_.groups[g].block_size * config_.groups[g].block_size;
    if (end == 0 || there(g, end)) continue;
    const Stay& stay = history_.stay(lookup.contents[end / config_.hash_block_size - 1], g);
    whose += stay.ever ? ": its block was evicted" + left(stay) : ": it kept no block there";
  }
  out.why = say("full attention has ", longest, " tokens",
                whose.empty() ? "; the others do not have them together" : whose);
}

// Of the groups that lead, the one whose first missing block comes first.
void Explainer::explain_block(const Lookup& lookup, const Cached& there, Explained& out) const {
  const std::uint64_t unit = config_.hash_block_size;
  const std::uint64_t hashed = lookup.contents.size() * unit;
  std::uint64_t end = hashed + 1;
  std::uint64_t block_size = unit;
  GroupId group = 0;
  for (const bool whole : {true, false}) {
    for (GroupId g = 0; g < config_.groups.size() && (whole || end > hashed); ++g) {
      const std::uint64_t step = whole ? config_.groups[g].block_size : unit;
      std::uint64_t at = lookup.hit / step * step + step;
      while (leads_[g] && at < end && there(g, at)) at += step;
      if (!leads_[g] || at >= end) continue;
      end = at;
      group = g;
      block_size = step;
    }
  }
  if (end > hashed) {
    out.why = "every block of it is there";
    return;
  }
  const ContentId content = lookup.contents[end / unit - 1];
  out.why =
      say("block ", end / block_size - 1, " (tokens ", end - block_size, " to ", end - 1, ")");
  const std::string who = lookup.pending ? lookup.pending(group, end, content) : "";
  if (!who.empty()) {
    out.cause = Cause::pending;
    out.why += ", by " + who;
  } else if (history_.stay(content, group).ever) {
    out.cause = Cause::evicted;
    out.why += left(history_.stay(content, group));
  } else if (history_.at(content).computed) {
    out.cause = Cause::no_state;
    out.why += say(" was computed, and group ", group, " kept no block of it");
  } else if (!explain_key(content, group, out)) {
    out.cause = Cause::never_computed;
  }
}

std::string Explainer::left(const Stay& stay) const {
  std::string out = say(" at ", words_.moment, ' ', stay.left.operation);
  if (words_.tells_whom) out += " for " + words_.name(stay.left_for);
  if (stay.left.taken == stay.used.taken) return out;
  return out + say(", ", stay.left.taken - stay.used.taken, " blocks after its last use");
}

// Its parent is there, with a child of the same tokens and other extra keys; or the same tokens
// stand under another parent.
bool Explainer::explain_key(ContentId content, GroupId group, Explained& out) const {
  const Content& missing = history_.at(content);
  ContentId elsewhere = kNoContent;
  for (ContentId c = history_.first_like(content); c != kNoContent; c = history_.at(c).next_same) {
    if (c == content || !history_.holds(c, group)) continue;
    if (history_.at(c).parent == missing.parent) {
      const std::string what = differing_extra(history_.extra(content), history_.extra(c));
      out.cause = Cause::key_differs;
      out.why += say(" is there under another ", what.empty() ? "continuation" : what, ", that of ",
                     words_.name(history_.at(c).request));
      return true;
    }
    elsewhere = c;
  }
  if (elsewhere == kNoContent) return false;
  out.cause = Cause::key_differs;
  out.why +=
      say(" has tokens that stand under another parent, in ",
          words_.name(history_.at(elsewhere).request), ": ", first_difference(content, elsewhere));
  return true;
}

std::string Explainer::first_difference(ContentId a, ContentId b) const {
  const auto up = [this](ContentId& c) { c = history_.at(c).parent; };
  while (history_.at(a).depth > history_.at(b).depth) up(a);
  while (history_.at(b).depth > history_.at(a).depth) up(b);
  if (a == b) return "one prefix begins with the other";
  for (; history_.at(a).parent != history_.at(b).parent; up(b)) up(a);
  const std::uint32_t unit = history_.at(a).depth - 1;
  const std::uint64_t first = unit * std::uint64_t{config_.hash_block_size};
  const std::string extra = differing_extra(history_.extra(a), history_.extra(b));
  if (!extra.empty()) return say("the ", extra, " differs from token ", first, " on");
  const auto tokens = history_.tokens(a);
  if (tokens.empty()) return say("block ", unit, " is the first that differs");
  const auto equal = std::ranges::mismatch(tokens, history_.tokens(b)).in1 - tokens.begin();
  return say("token ", first + static_cast<std::uint64_t>(equal), " is the first that differs");
}

}  // namespace kvproof::properties
