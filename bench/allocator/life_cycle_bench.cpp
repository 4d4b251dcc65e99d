// SPDX-License-Identifier: Apache-2.0
// The life of a request through the whole cache manager: what one block costs from arrival to
// release.
//
// Workload: 1,024 prompt tokens of which a shared prefix of 512 is cached, 256 tokens decoded one
//           at a time, block size 16, 128 live requests, a warm and full pool. Timed through the
//           calls that replay makes: arrive, lookup, allocate, 256 times (append, allocate,
//           advance), finish. The divisor is the 80 blocks of a request, whether they were hit or
//           taken.
//
// The suite life_cycle. One result per case (hash function, pool size): "ns_per_block",
// "ns_per_decode_token", "instructions_per_block" (where valgrind is installed), "bytes_per_block",
// counts and a checksum. The cases are interleaved, so that what else the machine does meets
// all of them; "ratio_to_first_case" is of turns that lie side by side.
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/allocator/life_cycle_driver.h"
#include "bench/instruments/callgrind.h"
#include "bench/instruments/latency.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

using Clock = std::chrono::steady_clock;

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

/// How many batches of a case one turn plays. The first ones are not timed: in them a pool of 64k
/// blocks comes back into the caches.
struct Turn {
  std::uint32_t untimed;
  std::uint32_t timed;
  std::uint32_t phases;  // timed phase by phase
};
constexpr Turn kTurn = {20, 40, 10};
constexpr Turn kSmokeTurn = {1, 4, 1};
constexpr int kTurns = 10;
constexpr int kSmokeTurns = 2;

/// A case between its turns.
class TimedCase {
 public:
  virtual ~TimedCase() = default;
  virtual void take_turn(const Turn& turn) = 0;
  /// Nanoseconds per block. shape [turns]: the median of each
  [[nodiscard]] const std::vector<double>& turns() const { return turns_; }
  virtual Result result() = 0;

 protected:
  std::vector<double> turns_;
};

template <class Digest>
class Timed final : public TimedCase {
 public:
  Timed(const Case& c, std::uint64_t seed) : case_(c), life_(c.shape, seed) {
    warm_up(life_, c.shape);
    if (c.shape.retention) {
      LifeCycleShape dense = c.shape;
      dense.retention.reset();
      warm_up(dense_.emplace(dense, seed), dense);
    }
    hashed_before_ = life_.num_hashed();
    evictions_before_ = life_.manager().counters().evictions;
  }

  void take_turn(const Turn& turn) override {
    for (std::uint32_t batch = 0; batch < turn.untimed; ++batch) {
      life_.prepare();
      life_.run_batch();
      if (!dense_) continue;
      dense_->prepare();
      dense_->run_batch();
    }
    const auto first = static_cast<std::ptrdiff_t>(per_block_.size());
    for (std::uint32_t batch = 0; batch < turn.timed; ++batch) time_batch();
    for (std::uint32_t batch = 0; batch < turn.phases; ++batch) time_phases();
    turns_.push_back(median({per_block_.begin() + first, per_block_.end()}));
  }

  Result result() override;

 private:
  void time_batch();
  void time_phases();

  const Case& case_;
  LifeCycle<Digest> life_;
  std::optional<LifeCycle<Digest>> dense_;  // of a case with retention: keeps every window
  std::uint64_t hashed_before_ = 0;
  std::uint64_t evictions_before_ = 0;
  std::uint64_t hash_checksum_ = 0;
  std::vector<double> per_block_, hash_alone_, above_hash_, ratio_, ratio_to_dense_;
  std::vector<double> admit_, decode_, finish_;  // [ns] per request, token, request
};

/// A batch, its hashes alone, and the same batch of the manager that keeps all.
template <class Digest>
void Timed<Digest>::time_batch() {
  constexpr double kBatchBlocks = double{LifeCycleShape::kBatch} * LifeCycleShape::kBlocks;
  life_.prepare();
  const auto start = Clock::now();
  life_.run_batch();
  const auto lived = Clock::now();
  hash_checksum_ += life_.hash_batch();
  const auto hashed = Clock::now();
  per_block_.push_back(nanoseconds(start, lived) / kBatchBlocks);
  hash_alone_.push_back(nanoseconds(lived, hashed) / kBatchBlocks);
  above_hash_.push_back(per_block_.back() - hash_alone_.back());
  ratio_.push_back(per_block_.back() / hash_alone_.back());
  if (!dense_) return;
  dense_->prepare();
  const auto dense_start = Clock::now();
  dense_->run_batch();
  ratio_to_dense_.push_back(nanoseconds(start, lived) / nanoseconds(dense_start, Clock::now()));
}

/// The three phases, each between two readings of the clock.
template <class Digest>
void Timed<Digest>::time_phases() {
  life_.prepare();
  double sums[3] = {};
  for (std::uint32_t i = 0; i < LifeCycleShape::kBatch; ++i) {
    const auto phases = life_.time_phases(i);
    for (std::size_t phase = 0; phase < 3; ++phase) sums[phase] += phases[phase];
  }
  admit_.push_back(sums[0] / LifeCycleShape::kBatch);
  decode_.push_back(sums[1] / LifeCycleShape::kBatch / LifeCycleShape::kDecodeTokens);
  finish_.push_back(sums[2] / LifeCycleShape::kBatch);
}

template <class Digest>
Result Timed<Digest>::result() {
  const LifeCycleCounts counts = life_.counts();
  const std::uint64_t evicted = life_.manager().counters().evictions - evictions_before_;
  check_counts(case_.shape, counts, evicted, life_.num_hashed() - hashed_before_);

  Result out = named(case_);
  out.metrics.emplace_back("ns_per_block", metric_of(per_block_, "ns"));
  out.metrics.emplace_back("hash_alone_ns_per_block", metric_of(hash_alone_, "ns"));
  out.metrics.emplace_back("ns_above_hash_per_block", metric_of(above_hash_, "ns"));
  out.metrics.emplace_back("ratio_to_hash_alone", metric_of(ratio_, "ratio"));
  if (dense_) out.metrics.emplace_back("ratio_to_dense", metric_of(ratio_to_dense_, "ratio"));
  out.metrics.emplace_back("ns_per_admission", metric_of(admit_, "ns"));
  out.metrics.emplace_back("ns_per_decode_token", metric_of(decode_, "ns"));
  out.metrics.emplace_back("ns_per_finish", metric_of(finish_, "ns"));
  const auto exactly = [&](const char* name, double value, const char* unit) {
    out.metrics.emplace_back(name, metric(value, unit));
  };
  const auto requests = static_cast<double>(counts.requests);
  const auto per_request = [&](const char* name, std::uint64_t n) {
    exactly(name, static_cast<double>(n) / requests, "blocks");
  };
  exactly("bytes_per_block",
          static_cast<double>(life_.manager().pool().bytes()) / case_.shape.num_blocks, "bytes");
  exactly("bytes_per_request",
          static_cast<double>(life_.manager().request_bytes()) / (case_.shape.live_requests + 1),
          "bytes");
  per_request("hit_blocks_per_request", counts.hit_blocks);
  per_request("evictions_per_request", evicted);
  per_request("revivals_per_request", counts.revived);
  exactly("requests", requests, "count");
  exactly("checksum", static_cast<double>((counts.checksum + hash_checksum_) & 0xffffffffU),
          "count");
  life_.drain();
  return out;
}

/// How many times as long as the first case, turn by turn.
Metric ratio_to_first(const TimedCase& timed, const TimedCase& first) {
  return metric_of(ratios(timed.turns(), first.turns()), "ratio");
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
  std::vector<const Case*> cases;
  std::vector<std::unique_ptr<TimedCase>> timed;
  for (const Case& c : cases_of(options)) {
    if (std::ranges::find(selected, name_of(c)) == selected.end()) continue;
    cases.push_back(&c);
    timed.push_back(with_digest(c, [&](auto digest) -> std::unique_ptr<TimedCase> {
      return std::make_unique<Timed<decltype(digest)>>(c, options.seed);
    }));
  }
  const int turns = options.smoke ? kSmokeTurns : kTurns;
  for (int turn = 0; turn < turns; ++turn) {
    options.progress->update(0.2 * turn / turns, "life_cycle, interleaved");
    for (const auto& one : timed) one->take_turn(options.smoke ? kSmokeTurn : kTurn);
  }
  std::vector<Result> out;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(timed.size());
    options.progress->update(0.2 + 0.8 * share, name_of(*cases[i]));
    out.push_back(timed[i]->result());
    if (i > 0 && cases.front() == cases_of(options).data()) {
      out.back().metrics.emplace_back("ratio_to_first_case",
                                      ratio_to_first(*timed[i], *timed.front()));
    }
    if (options.smoke) continue;
    if (const auto count = instructions_per_block(*cases[i], options)) {
      out.back().metrics.emplace_back("instructions_per_block", metric(*count, "instructions"));
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
