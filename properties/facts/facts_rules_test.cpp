// SPDX-License-Identifier: Apache-2.0
// The formulas and the limits behind the facts, as numbers: the model, the laws and the product all
// call reference/layer_rules.h and config.h, so that none of them notices a mistake there.
#include <gtest/gtest.h>

#include <functional>

#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

constexpr const Profile& k24 = kProfiles[0];
constexpr const Profile& k22 = kProfiles[1];
constexpr const Profile& k33 = kProfiles[2];

GroupConfig of(LayerKind kind, std::uint32_t block_size = 4) {
  return {.kind = kind, .block_size = block_size};
}
GroupConfig window_of(std::uint32_t window, std::uint32_t block_size = 4) {
  return {.kind = LayerKind::sliding_window, .block_size = block_size, .window = window};
}
GroupConfig chunk_of(std::uint32_t chunk, std::uint32_t block_size = 4) {
  return {.kind = LayerKind::chunked_local, .block_size = block_size, .chunk = chunk};
}
GroupConfig states_of(MambaMode mode, std::uint32_t drafts = 0, std::uint32_t block_size = 4) {
  return {.kind = LayerKind::mamba,
          .block_size = block_size,
          .mode = mode,
          .speculative_blocks = drafts};
}
GroupConfig eagle(GroupConfig group) {
  group.eagle = true;
  return group;
}
GroupConfig checkpoints(GroupConfig group) {
  group.checkpoint_alignment = 1;
  return group;
}

CacheConfig cache(std::vector<GroupConfig> groups, const Profile& profile = k33,
                  std::uint32_t unit = 4) {
  CacheConfig out;
  out.profile = profile;
  out.num_blocks = 2;
  out.max_model_len = 1;
  out.hash_block_size = unit;
  out.groups = std::move(groups);
  return out;
}
CacheConfig with(CacheConfig config, const std::function<void(CacheConfig&)>& change) {
  change(config);
  return config;
}

std::string why(const CacheConfig& config) { return std::string(unsupported(config).value_or("")); }
std::string why(std::vector<GroupConfig> groups, const Profile& profile = k33,
                std::uint32_t unit = 4) {
  return why(cache(std::move(groups), profile, unit));
}

const GroupConfig kFull = of(LayerKind::full), kRing = of(LayerKind::ring);
const GroupConfig kAligned = states_of(MambaMode::align);

TEST(Limits, OfAGroup) {
  EXPECT_EQ(why({of(LayerKind::full, 0)}), "a block size of zero");
  EXPECT_EQ(why({window_of(0)}), "a window of zero");
  EXPECT_EQ(why({chunk_of(0)}), "a chunk of zero");
  EXPECT_EQ(why({chunk_of(1, 1)}, k33, 1), "");
  EXPECT_EQ(why({chunk_of(6)}), "a chunk that is not whole blocks");
  EXPECT_EQ(why({with(cache({kFull}), [](CacheConfig& c) { c.groups[0].chunk = 3; }).groups[0]}),
            "");
  GroupConfig rswa = of(LayerKind::rswa);
  EXPECT_EQ(why({rswa}), "a window of zero");
  rswa.window = 1;
  EXPECT_EQ(why({rswa}), "");
  EXPECT_EQ(why({rswa}, k24), "R-SWA and ring groups before vllm-0.33");
  EXPECT_EQ(why({kFull, kRing}, k24), "R-SWA and ring groups before vllm-0.33");
  EXPECT_EQ(why({chunk_of(4), of(LayerKind::full, 8)}),
            "chunked local attention with a block size below the alignment");
  EXPECT_EQ(why({eagle(chunk_of(4))}), "the EAGLE last-block drop of chunked local attention");
  EXPECT_EQ(why({kFull, states_of(MambaMode::all)}),
            "a prefix cache of Mamba in mode all since vllm-0.33");
  EXPECT_EQ(why({kFull, states_of(MambaMode::all)}, k24), "");
  GroupConfig odd = kFull;
  odd.mode = MambaMode::all;  // of a kind that has no mode
  EXPECT_EQ(why({odd}), "");
  EXPECT_EQ(why({of(LayerKind::cross)}), "a prefix cache of cross attention");
}

TEST(Limits, OfHashUnitsAndAlignment) {
  const std::string divides = "a hash unit that does not divide every block size";
  EXPECT_EQ(why({kFull}, k33, 0), divides);
  EXPECT_EQ(why({kFull}, k33, 3), divides);
  EXPECT_EQ(why({kFull, of(LayerKind::full, 6)}), divides);
  EXPECT_EQ(why({kFull, of(LayerKind::ring, 3)}), "");
  EXPECT_EQ(why({of(LayerKind::full, 8)}), "a hash unit that differs from the only block size");
  EXPECT_EQ(why({of(LayerKind::full, 1U << 22)}, k33, 1U << 22), "");
  EXPECT_EQ(why({of(LayerKind::full, 1U << 23)}, k33, 1U << 23),
            "block sizes without a usable common multiple");
}

TEST(Limits, OfCheckpointsAndTheHostTier) {
  const auto hosting = [](CacheConfig config, std::uint32_t blocks) {
    config.num_host_blocks = blocks;
    return why(config);
  };
  const std::string both = "checkpoints of prefills with a host tier";
  EXPECT_EQ(why({kFull, checkpoints(kAligned)}), "");
  EXPECT_EQ(why({kFull, checkpoints(kAligned)}, k24),
            "checkpoints of prefills without Mamba in mode align, or before vllm-0.33");
  EXPECT_EQ(hosting(cache({kFull, checkpoints(kAligned)}), 2), both);
  EXPECT_EQ(hosting(cache({kFull, checkpoints(kAligned)}), 1), both);
  EXPECT_EQ(hosting(cache({kFull, kAligned}), 2), "");
  EXPECT_EQ(hosting(cache({kFull}), 1), "a host tier without a usable block");
}

TEST(Limits, OfRetentionLookaheadAndSizes) {
  const auto retaining = [](CacheConfig config, std::uint32_t interval) {
    config.retention = interval;
    return why(config);
  };
  EXPECT_EQ(retaining(cache({window_of(8)}, k24), 0), "retention before vllm-0.33");
  EXPECT_EQ(retaining(cache({kFull}), 0), "");
  EXPECT_EQ(retaining(cache({of(LayerKind::full, 1)}, k33, 1), 1),
            "a retention interval without sliding windows and Mamba");
  EXPECT_EQ(why(with(cache({kFull}, k24), [](CacheConfig& c) { c.hash_lookahead = 1; })),
            "lookahead hashes before vllm-0.33");
  EXPECT_EQ(why(std::vector<GroupConfig>{}), "no layer group");
  EXPECT_EQ(why({kRing}), "a prefix cache of rings alone");
  EXPECT_EQ(why(with(cache({kRing}), [](CacheConfig& c) { c.enable_caching = false; })), "");
  EXPECT_EQ(why(with(cache({kFull}), [](CacheConfig& c) { c.num_blocks = 1; })),
            "a pool without a usable block");
  EXPECT_EQ(why(with(cache({kFull}), [](CacheConfig& c) { c.max_model_len = 0; })),
            "a token limit of zero");
}

TEST(Formulas, OfWhatIsRead) {
  const auto read_of_nine = [](const GroupConfig& group, std::uint64_t sinks = 0) {
    const kvproof::Progress now{
        .computed = 9, .cached = 9, .prompt = 3, .encoder = 4, .sinks = sinks};
    std::string out;
    for (std::uint64_t p = 0; p < 10; ++p) out += reads_of(group, now).has(p) ? 'r' : '-';
    return out;
  };
  EXPECT_EQ(read_of_nine(kFull), "rrrrrrrrr-");
  EXPECT_EQ(read_of_nine(window_of(3)), "-------rr-");
  EXPECT_EQ(read_of_nine(window_of(3), 2), "rr-----rr-");
  EXPECT_EQ(read_of_nine(chunk_of(4)), "--------r-");
  EXPECT_EQ(read_of_nine(kAligned), "--------r-") << "its last state";
  EXPECT_EQ(read_of_nine({.kind = LayerKind::rswa, .window = 2}), "rrr----rr-") << "and the prompt";
  EXPECT_EQ(read_of_nine(of(LayerKind::cross)), "rrrr------") << "of the encoder";
  EXPECT_EQ(read_of_nine(kRing), "----------") << "by others";
}

TEST(Formulas, OfWhatIsNotReadAgain) {
  for (const LayerKind kind :
       {LayerKind::full, LayerKind::mla, LayerKind::cross, LayerKind::rswa, LayerKind::ring}) {
    EXPECT_EQ(skipped_tokens(of(kind), 99), 0U);
  }
  EXPECT_EQ(skipped_tokens(window_of(8), 7), 0U);
  EXPECT_EQ(skipped_tokens(window_of(8), 8), 1U);
  EXPECT_EQ(skipped_tokens(kAligned, 0), 0U);
  EXPECT_EQ(skipped_tokens(kAligned, 1), 0U);
  EXPECT_EQ(skipped_tokens(kAligned, 9), 8U);
  for (const MambaMode mode : {MambaMode::none, MambaMode::align}) {
    const bool align = mode == MambaMode::align;
    EXPECT_EQ(recycle_basis(k22, states_of(mode, 2), 9), 7U);
    EXPECT_EQ(recycle_basis(k24, states_of(mode, 2), 9), align ? 7U : 9U);
    EXPECT_EQ(recycle_basis(k33, states_of(mode, 2), 9), 9U);
  }
  EXPECT_EQ(recycle_basis(k22, states_of(MambaMode::none, 2), 1), 0U);
  GroupConfig odd = kFull;
  odd.speculative_blocks = 2;  // of a kind without states
  EXPECT_EQ(recycle_basis(k22, odd, 9), 9U);
  EXPECT_EQ(slots_with_drafts(odd, 9), 9U);
}

TEST(Formulas, OfAdmissionAndSearch) {
  const auto cap = [](std::uint32_t in_flight) {
    CacheConfig config = cache({window_of(8)});
    config.max_model_len = 100;
    config.max_in_flight_tokens = in_flight;
    return admission_cap(config, config.groups[0]);
  };
  EXPECT_EQ(cap(1), 3U);  // ceil((8 - 1 + 1) / 4) + 1
  EXPECT_EQ(cap(2), 4U);  // ceil((8 - 1 + 2) / 4) + 1
  EXPECT_EQ(window_run(window_of(9)), 2U);
  const auto inside = [](std::vector<GroupConfig> groups, const Profile& profile) {
    return hits_inside_blocks(cache(std::move(groups), profile));
  };
  const GroupConfig states = states_of(MambaMode::align, 0, 8);
  EXPECT_TRUE(inside({kFull, states, of(LayerKind::ring, 16)}, k33));
  EXPECT_FALSE(inside({kFull, states}, k24));
  EXPECT_EQ(publish_alignment(cache({kFull, states})), 1U);
  CacheConfig ahead = cache({eagle(kFull)});
  EXPECT_TRUE(resumption_of(ahead).drops);
  ahead.hash_lookahead = 1;
  EXPECT_FALSE(resumption_of(ahead).drops);
  EXPECT_EQ(boundaries_of({}, kFull, 9, 1).at[2], 1);
}

TEST(Formulas, OfWhatIsPublished) {
  const GroupConfig state = kAligned, wide = of(LayerKind::full, 8);
  EXPECT_TRUE(cache_mask(cache({wide, state}, k24), state).keeps_all());
  EXPECT_TRUE(cache_mask(cache({window_of(1)}, k22), window_of(1)).keeps_all());
  const CacheMask pairs = cache_mask(cache({window_of(4), wide}, k22), window_of(4));
  EXPECT_FALSE(pairs.keeps(0));
  EXPECT_TRUE(pairs.keeps(1));
  const auto tail = cache_mask(cache({window_of(9), of(LayerKind::full, 16)}, k22), window_of(9));
  EXPECT_EQ(tail.run, 2U);
  EXPECT_EQ(publishable_tokens(k22, eagle(kFull), 8, 15), 8U);
  EXPECT_EQ(publishable_tokens(k24, eagle(kFull), 8, 15), 12U);
  EXPECT_EQ(prompt_tail(PromptTail::before_last, 4, wide, 0, 12), 0U);
  EXPECT_EQ(prompt_tail(PromptTail::complete, 1, wide, 1, 1), 1U);
  EXPECT_EQ(prompt_tail(PromptTail::complete, 4, wide, 12, 12), 12U);
  EXPECT_EQ(prompt_tail(PromptTail::before_last, 4, wide, 12, 12), 0U);
  EXPECT_EQ(state_boundary({.drops = true}, 3, 4), 0U);
  EXPECT_EQ(state_boundary({.drops = true}, 4, 4), 0U);
  EXPECT_EQ(state_boundary({.drops = true}, 9, 4), 4U);
  EXPECT_EQ(state_boundary({}, 0, 4), 0U);
  EXPECT_EQ(state_boundary({}, 4, 4), 0U);
  EXPECT_EQ(state_boundary({.lookahead = 2}, 6, 4), 4U);
}

}  // namespace
}  // namespace kvproof::properties
