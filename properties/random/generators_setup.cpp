// SPDX-License-Identifier: Apache-2.0
// Decodes a choice into the manager of a run and the kinds of operations that it performs.
#include <algorithm>

#include "properties/random/generators.h"
#include "reference/mix64.h"

namespace kvproof::properties {

std::uint32_t Draws::below(std::uint32_t n) {
  const std::uint32_t wanted = n <= 256 ? 1 : 2;
  if (used_ + wanted > 8) {  // the bytes of the choice are used up: derive further ones
    if (seed_ != 0) bytes_ = next_mix64(seed_);
    used_ = 0;
  }
  const auto value = static_cast<std::uint32_t>(bytes_ & (wanted == 1 ? 0xff : 0xffff));
  bytes_ >>= 8 * wanted;
  used_ += wanted;
  return value % n;
}

Swarm draw_swarm(const Configuration& configuration, Choice choice) {
  Draws draws(choice);
  constexpr std::array<std::uint8_t, kNumKinds> kUsual = {7, 7, 12, 9, 6, 5, 3, 2, 1, 1, 1, 1,
                                                          1, 2, 2,  3, 2, 3, 2, 2, 2, 6, 8, 6};
  Swarm swarm;
  for (std::size_t k = 0; k < kNumKinds; ++k) {
    const std::uint32_t draw =
        draws.below(6);  // 0, 1: off unless needed; 2..4: usual; 5: three times
    const bool needed = k <= static_cast<std::size_t>(Kind::finish);
    swarm.weight[k] = static_cast<std::uint8_t>(draw == 5             ? 3 * kUsual[k]
                                                : draw >= 2 || needed ? kUsual[k]
                                                                      : 0);
  }
  const auto weight = [&](Kind kind) -> std::uint8_t& {
    return swarm.weight[static_cast<std::size_t>(kind)];
  };
  const auto off_unless = [&](bool on, Kind first, Kind last) {
    for (auto k = static_cast<std::size_t>(first); !on && k <= static_cast<std::size_t>(last); ++k)
      swarm.weight[k] = 0;
  };
  off_unless(configuration.can_fork(), Kind::fork, Kind::fork);
  off_unless(configuration.sharing, Kind::truncate, Kind::unpin);
  off_unless(configuration.host_tier, Kind::swap_out, Kind::complete);
  // Every kind that begins something needs the kind that ends it.
  if (weight(Kind::pin) > 0) weight(Kind::unpin) = std::max<std::uint8_t>(weight(Kind::unpin), 2);
  if (weight(Kind::swap_out) > 0) {
    weight(Kind::swap_in) = std::max<std::uint8_t>(weight(Kind::swap_in), 4);
    weight(Kind::complete) = std::max<std::uint8_t>(weight(Kind::complete), 5);
  }
  if (configuration.has(LayerKind::mamba)) weight(Kind::step) = 4;  // states keep for a step
  if (choice == 0) return swarm;
  constexpr std::uint32_t kOneIn[] = {0, 2, 5, 10};
  swarm.extra_one_in = kOneIn[draws.below(4)];
  swarm.external_one_in = kOneIn[draws.below(4)];
  swarm.draft_one_in = kOneIn[draws.below(4)];
  return swarm;
}

namespace {

// Windows from one token to three blocks and one token: shorter than, equal to and longer than
// their blocks, and no multiple of them. A chunk is whole blocks; otherwise it could start inside
// of a block that a hit counts without having it.
GroupConfig draw_group(const GroupShape& shape, std::uint32_t unit, Draws& draws) {
  GroupConfig out;
  out.kind = shape.kind == LayerKind::full && draws.one_in(4) ? LayerKind::mla : shape.kind;
  out.block_size = shape.units * unit;
  out.eagle = shape.eagle;
  if (out.kind == LayerKind::sliding_window) out.window = 1 + draws.below(3 * out.block_size + 1);
  if (out.kind == LayerKind::chunked_local) out.chunk = (1 + draws.below(3)) * out.block_size;
  if (out.kind == LayerKind::mamba) {
    out.mode = shape.mode;
    out.speculative_blocks = shape.speculative_blocks;
  }
  return out;
}

}  // namespace

CacheConfig draw_config(const Profile& profile, const Configuration& configuration, Choice choice) {
  Draws draws(choice);
  const auto num_groups = static_cast<std::uint32_t>(configuration.groups.size());
  CacheConfig config;
  config.profile = profile;
  config.enable_caching = configuration.caching;
  config.num_blocks = 4 + draws.below(10 * num_groups);
  const std::uint32_t unit = 1 + draws.below(4);
  for (const GroupShape& shape : configuration.groups) {
    config.groups.push_back(draw_group(shape, unit, draws));
  }
  config.hash_block_size = unit;
  config.profile.prompt_tail_keys = configuration.tail_keys;
  constexpr double kWatermarks[] = {0.0, 0.1, 0.25};
  config.watermark = profile.admission_gates ? kWatermarks[draws.below(3)] : 0.0;
  // Long enough for all requests, or so short that some reach the limit.
  const auto length = static_cast<std::uint32_t>(alignment(config));
  config.max_model_len = draws.one_in(3) ? 2 * length + 1 + draws.below(8) : 16 * length;
  if (draws.one_in(2)) config.max_in_flight_tokens = 1 + draws.below(4 * length);
  if (configuration.host_tier) config.num_host_blocks = 3 + draws.below(config.num_blocks);
  for (const NewerPolicy& newer : kNewerPolicies) {
    const bool may = profile.admission_gates && newer.name != "prompt_tail_keys";
    if (may && draws.one_in(4)) newer.apply(config.profile);
  }
  return config;
}

}  // namespace kvproof::properties
