// SPDX-License-Identifier: Apache-2.0
#include "properties/check/features.h"

#include <algorithm>

#include "reference/layer_rules.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

template <class Holds>
bool some_group(const DrawnRun& run, const Holds& holds) {
  return std::ranges::any_of(run.config.groups, holds);
}

template <LayerKind kind>
bool has_kind(const DrawnRun& run) {
  return some_group(run, [](const GroupConfig& g) { return g.kind == kind; });
}

template <MambaMode mode>
bool has_states(const DrawnRun& run) {
  return some_group(
      run, [](const GroupConfig& g) { return g.kind == LayerKind::mamba && g.mode == mode; });
}

/// Whether a block of this kind is shorter than the alignment.
template <LayerKind kind>
bool below_alignment(const DrawnRun& run) {
  return some_group(run, [&](const GroupConfig& g) {
    return g.kind == kind && g.block_size < alignment(run.config);
  });
}

template <class Holds>
bool some_window(const DrawnRun& run, const Holds& holds) {
  return some_group(
      run, [&](const GroupConfig& g) { return g.kind == LayerKind::sliding_window && holds(g); });
}

/// Whether some two groups are so.
template <class Holds>
bool some_two(const DrawnRun& run, const Holds& holds) {
  const std::vector<GroupConfig>& groups = run.config.groups;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = a + 1; b < groups.size(); ++b) {
      if (holds(groups[a], groups[b])) return true;
    }
  }
  return false;
}

bool neither_divides(const GroupConfig& a, const GroupConfig& b) {
  return a.block_size % b.block_size != 0 && b.block_size % a.block_size != 0;
}

bool both_drop(const GroupConfig& a, const GroupConfig& b) {
  return a.eagle && b.eagle && a.kind != b.kind;
}

bool is_short(const DrawnRun& run) { return run.config.max_model_len < 8 * alignment(run.config); }

}  // namespace

const std::array<Feature, kNumFeatures> kFeatures = {{
    {"vllm-0.22", [](const DrawnRun& r) { return r.config.profile.name == "vllm-0.22"; }},
    {"vllm-0.24", [](const DrawnRun& r) { return r.config.profile.name == "vllm-0.24"; }},
    {"vllm-0.33", [](const DrawnRun& r) { return r.config.profile.name == "vllm-0.33"; }},
    {"processed_basis",
     [](const DrawnRun& r) { return r.config.profile.draft_states == DraftStates::recycled; }},
    {"watermark", [](const DrawnRun& r) { return r.config.watermark > 0; }},
    {"uncached", [](const DrawnRun& r) { return !r.config.enable_caching; }},
    {"tail_keys",
     [](const DrawnRun& r) {
       return r.config.enable_caching && r.config.profile.prompt_tail != PromptTail::none;
     }},
    {"retention",
     [](const DrawnRun& r) { return r.config.enable_caching && r.config.retention.has_value(); }},
    {"lookahead_hashes", [](const DrawnRun& r) { return r.config.hash_lookahead > 0; }},
    {"hits_inside", [](const DrawnRun& r) { return hits_inside_blocks(r.config); }},
    {"checkpoints",
     [](const DrawnRun& r) {
       return some_group(r, [](const GroupConfig& g) { return g.checkpoint_alignment > 0; });
     }},
    {"rswa", has_kind<LayerKind::rswa>},
    {"ring", has_kind<LayerKind::ring>},
    {"host_tier", [](const DrawnRun& r) { return r.config.num_host_blocks > 0; }},
    {"sharing", [](const DrawnRun& r) { return r.row.sharing; }},
    {"full", has_kind<LayerKind::full>},
    {"mla", has_kind<LayerKind::mla>},
    {"no_full",
     [](const DrawnRun& r) {
       return !some_group(r, [](const GroupConfig& g) { return reads_all(g.kind); });
     }},
    {"chunked", has_kind<LayerKind::chunked_local>},
    {"cross", has_kind<LayerKind::cross>},
    {"mamba_none", has_states<MambaMode::none>},
    {"mamba_all", has_states<MambaMode::all>},
    {"mamba_align", has_states<MambaMode::align>},
    {"mamba_drafts",
     [](const DrawnRun& r) {
       return some_group(r, [](const GroupConfig& g) { return g.speculative_blocks > 0; });
     }},
    {"mamba_below_alignment", below_alignment<LayerKind::mamba>},
    {"window_third",
     [](const DrawnRun& r) {
       return some_window(r, [](const GroupConfig& g) { return 3 * g.window <= g.block_size; });
     }},
    {"window_block",
     [](const DrawnRun& r) {
       return some_window(r, [](const GroupConfig& g) { return g.window == g.block_size; });
     }},
    {"window_long",
     [](const DrawnRun& r) {
       return some_window(r, [](const GroupConfig& g) { return g.window > g.block_size; });
     }},
    {"window_below_alignment", below_alignment<LayerKind::sliding_window>},
    {"one_group", [](const DrawnRun& r) { return r.config.groups.size() == 1; }},
    {"four_groups", [](const DrawnRun& r) { return r.config.groups.size() >= 4; }},
    {"alike_groups",
     [](const DrawnRun& r) {
       return some_two(r, [](const auto& a, const auto& b) { return a.alike(b); });
     }},
    {"neither_divides", [](const DrawnRun& r) { return some_two(r, neither_divides); }},
    {"eagle",
     [](const DrawnRun& r) { return some_group(r, [](const GroupConfig& g) { return g.eagle; }); }},
    {"eagle_of_two_kinds", [](const DrawnRun& r) { return some_two(r, both_drop); }},
    {"unit_1", [](const DrawnRun& r) { return r.config.hash_block_size == 1; }},
    {"unit_16", [](const DrawnRun& r) { return r.config.hash_block_size == 16; }},
    {"tight_pool", [](const DrawnRun& r) { return r.config.num_blocks <= 5; }},
    {"wide_pool", [](const DrawnRun& r) { return r.config.num_blocks >= 100; }},
    {"short_limit", is_short},
    {"step_limit", [](const DrawnRun& r) { return r.config.max_in_flight_tokens.has_value(); }},
    {"extra_keys", [](const DrawnRun& r) { return r.swarm.extra_one_in > 0; }},
    {"loads", [](const DrawnRun& r) { return r.swarm.external_one_in > 0; }},
}};

FeatureSet features_of(const DrawnRun& run) {
  FeatureSet out;
  for (std::size_t i = 0; i < kNumFeatures; ++i) out.set(i, kFeatures[i].present(run));
  return out;
}

namespace {

/// Features that exclude each other, all of the one list all of the other.
struct Apart {
  std::vector<std::string_view> these;
  std::vector<std::string_view> those;
  std::string_view why;
};

const std::vector<Apart>& apart() {
  static const std::vector<Apart> out = {
      {{"vllm-0.22"}, {"vllm-0.24"}, "a manager has one profile"},
      {{"vllm-0.33"}, {"vllm-0.22", "vllm-0.24"}, "a manager has one profile"},
      {{"vllm-0.22", "vllm-0.24"},
       {"retention", "lookahead_hashes", "hits_inside", "checkpoints", "rswa", "ring"},
       "vllm-0.33 is the first to have it"},
      {{"mamba_all"},
       {"vllm-0.33", "retention", "lookahead_hashes", "hits_inside", "checkpoints", "rswa", "ring"},
       "vllm-0.33 has no such mode any more"},
      {{"vllm-0.22"}, {"watermark", "processed_basis"}, "it is newer than the profile"},
      {{"uncached", "mamba_none", "cross"},
       {"tail_keys", "eagle", "eagle_of_two_kinds", "mamba_all", "mamba_align", "retention",
        "lookahead_hashes", "hits_inside", "checkpoints"},
       "it needs a prefix cache, which the other cannot have"},
      {{"mamba_all"}, {"mamba_align"}, "a model keeps its states in one mode"},
      {{"checkpoints"}, {"host_tier"}, "a state in a block of its own is not moved to the host"},
      {{"hits_inside"}, {"chunked"}, "a chunk is as long as the longest state"},
      {{"full", "mla", "rswa"}, {"no_full"}, "one is the absence of the other"},
      {{"one_group"},
       {"four_groups", "alike_groups", "neither_divides", "eagle_of_two_kinds",
        "mamba_below_alignment", "window_below_alignment", "hits_inside", "ring"},
       "it needs several groups"},
      {{"unit_1"}, {"unit_16"}, "a manager has one hash unit"},
      {{"tight_pool"}, {"wide_pool"}, "a manager has one pool"},
  };
  return out;
}

bool lists(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

template <class Visit>
void for_possible_pairs(const Visit& visit) {
  for (std::size_t a = 0; a < kNumFeatures; ++a) {
    for (std::size_t b = a + 1; b < kNumFeatures; ++b) {
      if (why_apart(a, b).empty()) visit(a, b);
    }
  }
}

}  // namespace

std::string_view why_apart(std::size_t a, std::size_t b) {
  const std::string_view one = kFeatures[a].name;
  const std::string_view other = kFeatures[b].name;
  for (const Apart& row : apart()) {
    const bool so = lists(row.these, one) && lists(row.those, other);
    if (so || (lists(row.these, other) && lists(row.those, one))) return row.why;
  }
  return {};
}

void FeaturePairs::add(const FeatureSet& features, std::uint64_t operations) {
  for (std::size_t a = 0; a < kNumFeatures; ++a) {
    for (std::size_t b = a + 1; features[a] && b < kNumFeatures; ++b) {
      if (features[b]) operations_[a][b] += operations;
    }
  }
}

FeaturePairs& FeaturePairs::operator+=(const FeaturePairs& other) {
  for (std::size_t a = 0; a < kNumFeatures; ++a) {
    for (std::size_t b = a + 1; b < kNumFeatures; ++b) operations_[a][b] += other.operations_[a][b];
  }
  return *this;
}

bool FeaturePairs::gains(const FeatureSet& features) const {
  for (std::size_t a = 0; a < kNumFeatures; ++a) {
    for (std::size_t b = a + 1; features[a] && b < kNumFeatures; ++b) {
      if (features[b] && operations_[a][b] == 0) return true;
    }
  }
  return false;
}

std::size_t FeaturePairs::possible() {
  std::size_t out = 0;
  for_possible_pairs([&](std::size_t, std::size_t) { ++out; });
  return out;
}

std::size_t FeaturePairs::reached() const { return possible() - missing().size(); }

std::vector<std::string> FeaturePairs::missing() const {
  std::vector<std::string> out;
  for_possible_pairs([&](std::size_t a, std::size_t b) {
    if (operations_[a][b] == 0) out.push_back(say(kFeatures[a].name, " with ", kFeatures[b].name));
  });
  return out;
}

std::vector<std::uint64_t> FeaturePairs::operations() const {
  std::vector<std::uint64_t> out;
  for_possible_pairs([&](std::size_t a, std::size_t b) { out.push_back(operations_[a][b]); });
  std::ranges::sort(out);
  return out;
}

}  // namespace kvproof::properties
