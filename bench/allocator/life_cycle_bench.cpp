// SPDX-License-Identifier: Apache-2.0
// The suite life_cycle. One result per case (hash function, pool size): "ns_per_block",
// "ns_per_decode_token", "instructions_per_block" (where valgrind is installed), "bytes_per_block",
// counts and a checksum.
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/allocator/life_cycle.h"
#include "bench/allocator/life_cycle_driver.h"
#include "bench/instruments/callgrind.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

struct Case {
  const char* name;
  const char* hash;
  LifeCycleShape shape;
};

constexpr LifeCycleShape kSmokeShape{.num_blocks = 4096, .live_requests = 8, .num_prefixes = 12};

// The case of the speed floor comes first, so that a script that reads one result reads that one.
constexpr Case kCases[] = {
    {"xxh3_64k", "xxh3-128", {}},
    {"three_calls_64k", "xxh3-128", {.three_calls = true}},
    {"sha256_64k", "sha256", {}},
    // Half the prefixes: two groups take twice the blocks between two uses of one.
    {"hybrid_64k", "xxh3-128", {.num_prefixes = 96, .window = 256}},
    {"hybrid_boundaries_64k",
     "xxh3-128",
     {.num_prefixes = 96, .window = 256, .profile = "vllm-0.33", .retention = 0}},
    {"residency_64k", "xxh3-128", {.residency = true}},
    {"exact_hits_64k", "xxh3-128", {.exact_hits = true}},
    {"xxh3_1m", "xxh3-128", {.num_blocks = 1'048'576}},
};
constexpr Case kSmokeCases[] = {{"xxh3_smoke", "xxh3-128", kSmokeShape},
                                {"sha256_smoke", "sha256", kSmokeShape}};

std::span<const Case> cases_of(const BenchOptions& options) {
  return options.smoke ? std::span<const Case>(kSmokeCases) : std::span<const Case>(kCases);
}

std::string name_of(const Case& c) { return "life_cycle/" + std::string(c.name); }

Metric spread_of(std::vector<double> samples, const char* unit) {
  std::ranges::sort(samples);
  return {samples[samples.size() / 2], unit, samples[samples.size() / 10],
          samples[samples.size() - 1 - samples.size() / 10]};
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("life cycle: " + what);
}

template <class Digest>
void warm_up(LifeCycle<Digest>& life, const LifeCycleShape& shape) {
  for (std::uint32_t done = 0; done < shape.warm_up(); done += LifeCycleShape::kBatch) {
    life.prepare();
    life.run_batch();
  }
  life.reset_counts();
}

/// The counts of a warm pool are known: half of each prompt hits, and each taken block evicts one,
/// unless windows give back blocks without content.
/// @param evicted blocks that lost their content @param grown blocks that have gained one
void check_counts(const LifeCycleShape& shape, const LifeCycleCounts& c, std::uint64_t evicted,
                  std::uint64_t grown) {
  const std::uint64_t prefix_blocks = LifeCycleShape::kPrefixTokens / LifeCycleShape::kBlockSize;
  const std::uint64_t computed = c.requests * LifeCycleShape::kBlocks - c.hit_blocks;
  require(c.hit_blocks <= c.requests * prefix_blocks, "more hits than there are shared blocks");
  require(c.hit_blocks * 100 >= c.requests * prefix_blocks * 98,
          "fewer than 98 % of the prefixes hit");
  require(c.taken == shape.num_groups() * computed, "blocks taken and blocks computed differ");
  if (shape.retention) {
    // The window before the end of each prompt, and where prompts part the one that reads it.
    const std::uint64_t kept = c.requests * (shape.window / LifeCycleShape::kBlockSize);
    const std::uint64_t published = evicted + grown - computed;
    require(kept <= published && published * 50 <= kept * 51, "other windows published than kept");
  } else {
    require(evicted + grown == c.taken, "blocks taken and blocks published differ");
    require(evicted == c.taken, "a warm pool evicts one block for each that it hands out");
  }
  require(c.revived * 10 >= c.hit_blocks, "fewer than a tenth of the hits were revived");
}

/// The three phases, each between two readings of the clock. [ns per request]
template <class Digest>
void time_phases(LifeCycle<Digest>& life, std::uint32_t batches, Metrics& metrics) {
  std::vector<double> admit, decode, finish;
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    life.prepare();
    double sums[3] = {};
    for (std::uint32_t i = 0; i < LifeCycleShape::kBatch; ++i) {
      const auto start = Clock::now();
      const RequestId id = life.admit(i);
      const auto admitted = Clock::now();
      life.decode(id, i);
      const auto decoded = Clock::now();
      life.finish_oldest(id);
      sums[0] += nanoseconds(start, admitted);
      sums[1] += nanoseconds(admitted, decoded);
      sums[2] += nanoseconds(decoded, Clock::now());
    }
    admit.push_back(sums[0] / LifeCycleShape::kBatch);
    decode.push_back(sums[1] / LifeCycleShape::kBatch / LifeCycleShape::kDecodeTokens);
    finish.push_back(sums[2] / LifeCycleShape::kBatch);
  }
  metrics.emplace_back("ns_per_admission", spread_of(admit, "ns"));
  metrics.emplace_back("ns_per_decode_token", spread_of(decode, "ns"));
  metrics.emplace_back("ns_per_finish", spread_of(finish, "ns"));
}

/// Batches in turns with a manager that keeps every window.
template <class Digest>
Metric ratio_to_dense(LifeCycle<Digest>& life, LifeCycleShape shape, std::uint64_t seed,
                      std::uint32_t batches) {
  shape.retention.reset();
  LifeCycle<Digest> dense(shape, seed);
  warm_up(dense, shape);
  std::vector<double> ratio;
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    life.prepare();
    dense.prepare();
    const auto start = Clock::now();
    life.run_batch();
    const auto between = Clock::now();
    dense.run_batch();
    ratio.push_back(nanoseconds(start, between) / nanoseconds(between, Clock::now()));
  }
  return spread_of(ratio, "ratio");
}

Result named(const Case& c) {
  Result out;
  out.experiment = "life_cycle";
  out.parameters = {{"case", std::string(c.name)},
                    {"hash", std::string(c.hash)},
                    {"profile", std::string(c.shape.profile)},
                    {"num_blocks", std::int64_t{c.shape.num_blocks}},
                    {"live_requests", std::int64_t{c.shape.live_requests}},
                    {"block_size", std::int64_t{LifeCycleShape::kBlockSize}}};
  return out;
}

template <class Digest>
Result measure(const Case& c, std::uint64_t seed, std::uint32_t batches) {
  LifeCycle<Digest> life(c.shape, seed);
  warm_up(life, c.shape);
  const std::uint64_t hashed_before = life.num_hashed();
  const std::uint64_t evictions_before = life.manager().counters().evictions;
  constexpr double kBatchBlocks = double{LifeCycleShape::kBatch} * LifeCycleShape::kBlocks;
  std::vector<double> per_block, hash_alone, above_hash, ratio;
  std::uint64_t hash_checksum = 0;
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    life.prepare();
    const auto start = Clock::now();
    life.run_batch();
    const auto lived = Clock::now();
    hash_checksum += life.hash_batch();
    per_block.push_back(nanoseconds(start, lived) / kBatchBlocks);
    hash_alone.push_back(nanoseconds(lived, Clock::now()) / kBatchBlocks);
    above_hash.push_back(per_block.back() - hash_alone.back());
    ratio.push_back(per_block.back() / hash_alone.back());
  }
  const LifeCycleCounts counts = life.counts();
  const std::uint64_t evicted = life.manager().counters().evictions - evictions_before;
  check_counts(c.shape, counts, evicted, life.num_hashed() - hashed_before);

  Result out = named(c);
  const auto requests = static_cast<double>(counts.requests);
  const auto per_request = [requests](std::uint64_t n) {
    return static_cast<double>(n) / requests;
  };
  out.metrics.emplace_back("ns_per_block", spread_of(per_block, "ns"));
  out.metrics.emplace_back("hash_alone_ns_per_block", spread_of(hash_alone, "ns"));
  out.metrics.emplace_back("ns_above_hash_per_block", spread_of(above_hash, "ns"));
  out.metrics.emplace_back("ratio_to_hash_alone", spread_of(ratio, "ratio"));
  if (c.shape.retention) {
    out.metrics.emplace_back("ratio_to_dense", ratio_to_dense(life, c.shape, seed, batches));
  }
  time_phases(life, std::max(batches / 4, 1U), out.metrics);
  const double pool_bytes = static_cast<double>(life.manager().pool().bytes());
  out.metrics.emplace_back("bytes_per_block",
                           Metric{pool_bytes / c.shape.num_blocks, "bytes", {}, {}});
  out.metrics.emplace_back(
      "bytes_per_request",
      Metric{static_cast<double>(life.manager().request_bytes()) / (c.shape.live_requests + 1),
             "bytes",
             {},
             {}});
  out.metrics.emplace_back("hit_blocks_per_request",
                           Metric{per_request(counts.hit_blocks), "blocks", {}, {}});
  out.metrics.emplace_back("evictions_per_request", Metric{per_request(evicted), "blocks", {}, {}});
  out.metrics.emplace_back("revivals_per_request",
                           Metric{per_request(counts.revived), "blocks", {}, {}});
  out.metrics.emplace_back("requests", Metric{requests, "count", {}, {}});
  out.metrics.emplace_back(
      "checksum",
      Metric{
          static_cast<double>((counts.checksum + hash_checksum) & 0xffffffffU), "count", {}, {}});
  life.drain();
  return out;
}

template <class Run>
auto with_digest(const Case& c, Run&& run) {
  return std::string_view(c.hash) == "sha256" ? run(optimized::Sha256Digest{})
                                              : run(optimized::Xxh3Digest{});
}

// ---- instructions ----

constexpr std::uint32_t kCountedRequests = 512;

/// Instructions of the timed part by callgrind; nullopt where valgrind is not installed.
std::optional<double> instructions_per_block(const Case& c, const BenchOptions& options) {
  std::optional<CallgrindCounts> counts;
  run_callgrind({.argv = {options.self.string(), "--count-life-cycle=" + std::string(c.name),
                          "--seed=" + std::to_string(options.seed)}},
                "*run_batch*", false, temporary_folder(), counts);
  if (!counts) return std::nullopt;
  return static_cast<double>(counts->instructions) / kCountedRequests / LifeCycleShape::kBlocks;
}

}  // namespace

std::vector<std::string> life_cycle_cases(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const Case& c : cases_of(options)) names.push_back(name_of(c));
  return names;
}

std::vector<Result> run_life_cycle_suite(std::span<const std::string> selected,
                                         const BenchOptions& options) {
  std::vector<Result> out;
  for (const Case& c : cases_of(options)) {
    if (std::ranges::find(selected, name_of(c)) == selected.end()) continue;
    options.progress->update(static_cast<double>(out.size()) / static_cast<double>(selected.size()),
                             name_of(c));
    out.push_back(with_digest(c, [&](auto digest) {
      return measure<decltype(digest)>(c, options.seed, options.smoke ? 8 : 200);
    }));
    if (options.smoke) continue;
    if (const auto count = instructions_per_block(c, options)) {
      out.back().metrics.emplace_back("instructions_per_block",
                                      Metric{*count, "instructions", {}, {}});
    }
  }
  return out;
}

int count_life_cycle(const std::string& name, std::uint64_t seed) {
  for (const Case& c : kCases) {
    if (name != c.name) continue;
    with_digest(c, [&](auto digest) {
      LifeCycle<decltype(digest)> life(c.shape, seed);
      // Warmed up through the phases, which callgrind is not told to count.
      for (std::uint32_t done = 0; done < c.shape.warm_up(); ++done) {
        if (done % LifeCycleShape::kBatch == 0) life.prepare();
        const RequestId id = life.admit(done % LifeCycleShape::kBatch);
        life.decode(id, done % LifeCycleShape::kBatch);
        life.finish_oldest(id);
      }
      for (std::uint32_t done = 0; done < kCountedRequests; done += LifeCycleShape::kBatch) {
        life.prepare();
        life.run_batch();
      }
    });
    return 0;
  }
  return 2;
}

}  // namespace kvproof::bench
