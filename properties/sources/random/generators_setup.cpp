// SPDX-License-Identifier: Apache-2.0
// Decodes a choice into the manager of a run and the kinds of operations that it performs.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "properties/sources/random/generators.h"
#include "reference/layer_rules.h"
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

bool draws_batches(const Swarm& swarm) { return swarm.of(Kind::decode) > 0; }

namespace {

constexpr auto kDrawn = static_cast<std::size_t>(Kind::decode);
constexpr std::array<std::uint8_t, kDrawn> kUsual = {7, 7, 12, 9, 6, 5, 3, 2, 1, 1, 1, 1,
                                                     1, 2, 2,  3, 2, 3, 2, 2, 2, 6, 8, 6};

}  // namespace

Swarm usual_swarm() {
  Swarm out;
  std::ranges::copy(kUsual, out.weight.begin());
  out.of(Kind::wrong) = 0;
  return out;
}

Swarm draw_swarm(const Configuration& configuration, Choice choice) {
  Draws draws(choice);
  Swarm swarm;
  for (std::size_t k = 0; k < kDrawn; ++k) {
    const std::uint32_t draw =
        draws.below(6);  // 0, 1: off unless needed; 2..4: usual; 5: three times
    const bool needed = k <= static_cast<std::size_t>(Kind::finish);
    swarm.weight[k] = static_cast<std::uint8_t>(draw == 5             ? 3 * kUsual[k]
                                                : draw >= 2 || needed ? kUsual[k]
                                                                      : 0);
  }
  const auto off_unless = [&](bool on, Kind first, Kind last) {
    for (auto k = static_cast<std::size_t>(first); !on && k <= static_cast<std::size_t>(last); ++k)
      swarm.weight[k] = 0;
  };
  off_unless(configuration.can_fork(), Kind::fork, Kind::fork);
  off_unless(configuration.sharing, Kind::truncate, Kind::unpin);
  off_unless(configuration.host_tier, Kind::swap_out, Kind::complete);
  // Every kind that begins something needs the kind that ends it.
  if (swarm.of(Kind::pin) > 0)
    swarm.of(Kind::unpin) = std::max<std::uint8_t>(swarm.of(Kind::unpin), 2);
  if (swarm.of(Kind::swap_out) > 0) {
    swarm.of(Kind::swap_in) = std::max<std::uint8_t>(swarm.of(Kind::swap_in), 4);
    swarm.of(Kind::complete) = std::max<std::uint8_t>(swarm.of(Kind::complete), 5);
  }
  if (configuration.has(LayerKind::mamba)) swarm.of(Kind::step) = 4;  // states keep for a step
  if (configuration.within != nullptr) swarm.calls = *configuration.within;
  // Every second swarm decodes in batches; the others make the same calls one by one. This is drawn
  // apart, so that those draw what they always did.
  if (swarm.calls.batches && mix64(choice) % 2 == 0) swarm.of(Kind::decode) = 9;
  if (choice == 0) return swarm;
  constexpr std::uint32_t kOneIn[] = {0, 2, 5, 10};
  swarm.extra_one_in = kOneIn[draws.below(4)];
  swarm.external_one_in = kOneIn[draws.below(4)];
  swarm.draft_one_in = kOneIn[draws.below(4)];
  return swarm;
}

std::vector<std::uint32_t> units_within(const Configuration& configuration) {
  std::vector<std::uint32_t> out;
  if (configuration.within == nullptr) return out;
  for (const std::uint32_t size : configuration.within->block_sizes) {
    const std::uint32_t unit = size / configuration.groups.begin()->units;
    const bool fits = std::ranges::all_of(configuration.groups, [&](const GroupShape& shape) {
      return unit > 0 && configuration.within->has_size(unit * shape.units);
    });
    const bool asked = configuration.unit_tokens == 0 || configuration.unit_tokens == unit;
    if (fits && asked) out.push_back(unit);
  }
  return out;
}

namespace {

// Windows from one token to three blocks and one token: shorter than, equal to and longer than
// their blocks, and no multiple of them. A chunk is whole blocks; otherwise it could start inside
// of a block that a hit counts without having it.
GroupConfig draw_group(const GroupShape& shape, const Abilities* within, std::uint32_t unit,
                       Draws& draws) {
  GroupConfig out;
  const auto has = [&](LayerKind kind) {
    return within == nullptr || within->kinds.test(static_cast<std::size_t>(kind));
  };
  out.kind = shape.kind;
  if (shape.kind == LayerKind::full) {
    const bool mla = draws.one_in(4) ? has(LayerKind::mla) : !has(LayerKind::full);
    if (mla) out.kind = LayerKind::mla;
  }
  out.block_size = shape.units * unit;
  out.eagle = shape.eagle;
  if (out.kind == LayerKind::sliding_window) {
    const bool drawn = shape.window == WindowLength::drawn;
    out.window = drawn                                 ? 1 + draws.below(3 * out.block_size + 1)
                 : shape.window == WindowLength::block ? out.block_size
                                                       : std::max(out.block_size / 3, 1U);
  }
  if (out.kind == LayerKind::chunked_local) out.chunk = (1 + draws.below(3)) * out.block_size;
  if (out.kind == LayerKind::mamba) {
    out.mode = shape.mode;
    out.speculative_blocks = shape.speculative_blocks;
  }
  return out;
}

// What managers have since vllm-0.33: retention, keys that cover tokens behind their unit,
// checkpoints of prefills, R-SWA, a ring beside the other groups.
void draw_sparse(CacheConfig& config, const Abilities* within, Draws& draws) {
  const auto has = [&](LayerKind kind) {
    return within == nullptr || within->kinds.test(static_cast<std::size_t>(kind));
  };
  for (GroupConfig& group : config.groups) {
    if (group.mode == MambaMode::all && config.enable_caching) group.mode = MambaMode::align;
    if (moves_state(group) && config.num_host_blocks == 0 && draws.one_in(2)) {
      group.checkpoint_alignment = 1 + draws.below(config.hash_block_size);
    }
    if (group.kind == LayerKind::full && draws.one_in(6) && has(LayerKind::rswa)) {
      group.kind = LayerKind::rswa;
      group.window = 1 + draws.below(3 * group.block_size);
    }
  }
  const bool has_room = within == nullptr || config.groups.size() < within->groups;
  if (draws.one_in(6) && has(LayerKind::ring) && has_room) {
    config.groups.push_back({.kind = LayerKind::ring, .block_size = config.groups[0].block_size});
  }
  const bool forgets = std::ranges::any_of(config.groups, [](const GroupConfig& g) {
    return g.kind == LayerKind::sliding_window || g.kind == LayerKind::mamba;
  });
  const auto align = static_cast<std::uint32_t>(alignment(config));
  if (draws.below(3) > 0) config.retention = forgets ? draws.below(3) * align : 0;
  if (config.enable_caching && draws.one_in(3)) config.hash_lookahead = 1 + draws.below(2);
}

}  // namespace

CacheConfig draw_config(const Profile& profile, const Configuration& configuration, Choice choice) {
  Draws draws(choice);
  const auto num_groups = static_cast<std::uint32_t>(configuration.groups.size());
  CacheConfig config;
  config.profile = profile;
  config.enable_caching = configuration.caching;
  config.num_blocks = configuration.pool == PoolSize::usual   ? 4 + draws.below(10 * num_groups)
                      : configuration.pool == PoolSize::tight ? 4 + draws.below(2)
                                                              : 100 + draws.below(50);
  const Abilities* within = configuration.within;
  if (within != nullptr) {
    config.num_blocks = std::clamp(config.num_blocks, within->least_blocks, within->most_blocks);
  }
  const std::vector<std::uint32_t> units = units_within(configuration);
  const bool given = configuration.unit_tokens > 0;
  const std::uint32_t unit = !units.empty()
                                 ? units[draws.below(static_cast<std::uint32_t>(units.size()))]
                             : given ? configuration.unit_tokens
                                     : 1 + draws.below(4);
  for (const GroupShape& shape : configuration.groups) {
    config.groups.push_back(shape.twin ? config.groups.back()
                                       : draw_group(shape, within, unit, draws));
    config.groups.back().eagle = shape.eagle;
  }
  const bool partial = within != nullptr && within->partial_keys && configuration.caching;
  config.hash_block_size = partial ? 1 : unit;
  if (configuration.tail_keys && !profile.sparse) {
    config.profile.prompt_tail = PromptTail::complete;
  }
  constexpr double kWatermarks[] = {0.0, 0.1, 0.25};
  config.watermark = profile.admission_gates ? kWatermarks[draws.below(3)] : 0.0;
  if (within != nullptr && !within->watermark) config.watermark = 0.0;
  // Long enough for all requests, or so short that some reach the limit.
  const auto length = static_cast<std::uint32_t>(alignment(config));
  config.max_model_len = draws.one_in(3) ? 2 * length + 1 + draws.below(8) : 16 * length;
  if (draws.one_in(2)) config.max_in_flight_tokens = 1 + draws.below(4 * length);
  if (configuration.host_tier) config.num_host_blocks = 3 + draws.below(config.num_blocks);
  if (profile.sparse) draw_sparse(config, within, draws);
  for (const NewerPolicy& newer : kNewerPolicies) {
    const bool may = !profile.sparse && profile.admission_gates && newer.name != "prompt_tail_keys";
    if (may && draws.one_in(4)) newer.apply(config.profile);
  }
  return config;
}

namespace {

/// What the groups of a drawn row have in common: a model has one kind of states.
GroupShape draw_states(bool caching, std::uint32_t most_units, Draws& draws) {
  GroupShape out{.kind = LayerKind::mamba, .units = 1 + draws.below(most_units)};
  if (caching) out.mode = draws.below(2) == 0 ? MambaMode::align : MambaMode::all;
  out.speculative_blocks = draws.below(2) == 0 ? 0 : 1 + draws.below(2);
  return out;
}

GroupShape draw_shape(const Configuration& row, const GroupShape& states, std::uint32_t most_units,
                      Draws& draws) {
  constexpr LayerKind kKinds[] = {
      LayerKind::full,  LayerKind::full,  LayerKind::sliding_window, LayerKind::sliding_window,
      LayerKind::mamba, LayerKind::mamba, LayerKind::chunked_local,  LayerKind::cross};
  GroupShape out{.kind = kKinds[draws.below(row.caching ? 7 : 8)]};
  if (out.kind == LayerKind::mamba) return states;
  out.units = 1 + draws.below(most_units);
  constexpr WindowLength kLengths[] = {WindowLength::drawn, WindowLength::third_of_block,
                                       WindowLength::block};
  if (out.kind == LayerKind::sliding_window) out.window = kLengths[draws.below(3)];
  return out;
}

// One group is as long as the hash unit, and a chunk as the alignment (unsupported() says so).
void make_supported(Configuration& row) {
  std::uint32_t align = 1;
  for (GroupShape& shape : row.groups) {
    if (row.groups.size() == 1) shape.units = 1;
    align = std::lcm(align, shape.units);
  }
  for (GroupShape& shape : row.groups) {
    if (shape.kind != LayerKind::chunked_local) continue;
    shape.units = align;
    shape.eagle = false;
  }
}

}  // namespace

// What was found late, host tiers, states and keys of tails, is drawn more often than it is used.
Configuration draw_row(Choice choice) {
  Draws draws(choice);
  constexpr std::uint32_t kUnits[] = {1, 1, 2, 3, 4, 16};
  constexpr std::uint32_t kNumGroups[] = {1, 1, 2, 2, 3, 3, 4, 6};
  Configuration row{.name = kSwarm.name, .sentence = kSwarm.sentence, .groups = {}};
  row.caching = !draws.one_in(4);
  row.sharing = !draws.one_in(4);
  row.host_tier = draws.below(2) == 1;
  row.tail_keys = row.caching && draws.one_in(3);
  row.pool = draws.one_in(8) ? PoolSize::wide : draws.one_in(8) ? PoolSize::tight : PoolSize::usual;
  row.unit_tokens = kUnits[draws.below(std::size(kUnits))];
  const std::uint32_t most_units = 1 + draws.below(3);
  const GroupShape states = draw_states(row.caching, most_units, draws);
  const std::uint32_t eagle_one_in = row.caching ? 1 + draws.below(3) : 0;  // 1 = never
  const std::uint32_t num_groups = kNumGroups[draws.below(std::size(kNumGroups))];
  for (std::uint32_t g = 0; g < num_groups; ++g) {
    GroupShape shape = draw_shape(row, states, most_units, draws);
    if (g > 0 && draws.one_in(6)) {
      shape = *(row.groups.end() - 1);
      shape.twin = true;
    }
    shape.eagle = eagle_one_in > 1 && draws.one_in(eagle_one_in);
    row.groups.push_back(shape);
  }
  make_supported(row);
  return row;
}

}  // namespace kvproof::properties
