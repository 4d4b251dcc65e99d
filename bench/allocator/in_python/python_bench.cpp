// SPDX-License-Identifier: Apache-2.0
// The allocator beside the same structure in Python: the same requests, in turn, in one run.
//
// Both make the same decisions: their hits, tables and checksums are compared in every round. Whole
// lives are measured in processor time, so that other work on the machine does not count; parts and
// single operations are the median of many calls. "pickle" compares the hash that engines in Python
// use with XXH3-128 here; "bytes" is SHA-256 of the same bytes on both sides.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/allocator/in_python/worker.h"
#include "bench/allocator/life_cycle_driver.h"
#include "bench/instruments/latency.h"
#include "bench/results/progress.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

using Shape = LifeCycleShape;
using Clock = std::chrono::steady_clock;

constexpr Shape kSmokeShape{.num_blocks = 4096, .live_requests = 8, .num_prefixes = 12};
constexpr std::uint32_t kPoolBlocks = 64;

/// Beside the program, in the build and where it is installed.
std::filesystem::path textbook_script(const std::filesystem::path& self) {
  return self.parent_path() / "in_python" / "worker.py";
}

/// Times of one operation, ours and those of Python, taken in turn.
struct Pairs {
  std::vector<double> ours, textbook;

  void add(double ns, double textbook_ns) {
    ours.push_back(ns);
    textbook.push_back(textbook_ns);
  }
};

Metric spread(std::vector<double> values, const char* unit) {
  std::ranges::sort(values);
  return {values[values.size() / 2], unit, values.front(), values.back()};
}

/// @param parts the times are divided by this number of blocks, tokens or requests
Result result(const char* operation, const char* hash, double parts, const Pairs& pairs,
              std::uint64_t checksum) {
  std::vector<double> ours, textbook, ratios;
  for (std::size_t i = 0; i < pairs.ours.size(); ++i) {
    ours.push_back(pairs.ours[i] / parts);
    textbook.push_back(pairs.textbook[i] / parts);
    ratios.push_back(pairs.textbook[i] / pairs.ours[i]);
  }
  return {"textbook",
          {{"operation", std::string(operation)}, {"hash", std::string(hash)}},
          {{"ratio", spread(ratios, "ratio")},
           {"ns", spread(ours, "ns")},
           {"textbook_ns", spread(textbook, "ns")},
           {"checksum", count(checksum & 0xffffffffU)}}};
}

void agree(const TextbookAnswer& answer, const char* name, std::uint64_t ours) {
  const std::uint64_t theirs = number(answer, name);
  if (theirs == ours) return;
  throw std::logic_error("textbook: the allocators differ in " + std::string(name) + ": " +
                         std::to_string(ours) + ", in Python " + std::to_string(theirs));
}

/// The same lives of requests on both sides.
template <class Digest>
class Lives {
 public:
  Lives(const Shape& shape, const char* hash, const BenchOptions& options)
      : life_(shape, options.seed), textbook_(textbook_script(options.self)) {
    textbook_.ask(std::string("start ") + hash + " " + std::to_string(shape.num_blocks) + " " +
                  std::to_string(shape.live_requests) + " " + std::to_string(options.seed));
    for (std::uint32_t done = 0; done < shape.warm_up(); done += Shape::kBatch) whole();
  }

  Pairs wholes;
  std::map<std::string, Pairs> parts;

  /// Plays a batch, and the same batch in Python. @return the result, which is the same for both
  std::uint64_t whole() {
    const std::string tokens = next_batch();
    const double start = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    life_.run_batch();
    const double ns = 1e9 * (processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - start);
    const TextbookAnswer answer = textbook_.ask("batch " + tokens);
    wholes.add(ns, static_cast<double>(number(answer, "ns")));
    return check(answer);
  }

  std::uint64_t in_parts() {
    const std::string tokens = next_batch();
    std::map<std::string, std::vector<double>> times;
    for (std::uint32_t i = 0; i < Shape::kBatch; ++i) {
      const auto phases = life_.time_phases(i);
      times["admission"].push_back(phases[0]);
      times["decode"].push_back(phases[1]);
      times["finish"].push_back(phases[2]);
    }
    const TextbookAnswer answer = textbook_.ask("phases " + tokens);
    for (const auto& [part, ns] : times) {
      parts[part].add(median(ns), static_cast<double>(number(answer, part)));
    }
    return check(answer);
  }

 private:
  std::string next_batch() {
    life_.prepare();
    life_.reset_counts();
    return std::to_string(Shape::kPromptTokens) + " " + std::to_string(Shape::kDecodeTokens) + " " +
           hex_of(life_.prompts()) + " " + hex_of(life_.outputs());
  }

  std::uint64_t check(const TextbookAnswer& answer) const {
    agree(answer, "hits", life_.counts().hit_blocks);
    agree(answer, "taken", life_.counts().taken);
    agree(answer, "free", life_.manager().pool().num_free());
    agree(answer, "checksum", life_.counts().checksum);
    return life_.counts().checksum;
  }

  LifeCycle<Digest> life_;
  TextbookProcess textbook_;
};

template <class Digest>
void measure_lives(const char* hash, const BenchOptions& options, std::vector<Result>& results) {
  Lives<Digest> lives(options.smoke ? kSmokeShape : Shape(), hash, options);
  lives.wholes = {};
  std::uint64_t checksum = 0;
  const int rounds = options.smoke ? 2 : 15;
  for (int round = 0; round < rounds; ++round) checksum += lives.whole();
  results.push_back(
      result("life", hash, double{Shape::kBatch} * Shape::kBlocks, lives.wholes, checksum));
  checksum = 0;
  for (int round = 0; round < rounds; ++round) checksum += lives.in_parts();
  results.push_back(result("admission", hash, 1, lives.parts["admission"], checksum));
  results.push_back(
      result("decode_token", hash, Shape::kDecodeTokens, lives.parts["decode"], checksum));
  results.push_back(result("finish", hash, 1, lives.parts["finish"], checksum));
}

/// Single operations on kPoolBlocks blocks with content of a pool of 65,536.
template <class Digest>
class PoolOperations {
 public:
  using Times = std::map<std::string, std::vector<double>>;

  explicit PoolOperations(std::uint64_t seed) : manager_(config(), {.max_requests = 2}, seed) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
    const RequestId id = manager_.arrive({.tokens = tokens_});
    manager_.allocate(id, {.new_tokens = static_cast<std::uint32_t>(tokens_.size())});
    keys_.assign(manager_.hashes(id).begin(), manager_.hashes(id).end());
    manager_.finish(id);
  }

  /// @return of what was found and taken
  std::uint64_t round(Times& times) {
    const auto start = Clock::now();
    const RequestId id = manager_.arrive({.tokens = tokens_});
    const auto hashed = Clock::now();
    for (std::size_t i = 0; i < keys_.size(); ++i)
      found_[i] = manager_.pool().index().find(keys_[i]);
    const auto looked_up = Clock::now();
    manager_.touch(found_);
    manager_.release(found_);
    const auto touched = Clock::now();
    if (!manager_.take(blank_)) throw std::logic_error("textbook: a pool without free blocks");
    manager_.release(blank_);
    const auto taken = Clock::now();
    manager_.finish(id);
    times["hash"].push_back(nanoseconds(start, hashed));
    times["lookup"].push_back(nanoseconds(hashed, looked_up));
    times["touch_release"].push_back(nanoseconds(looked_up, touched));
    times["take_release"].push_back(nanoseconds(touched, taken));
    return std::accumulate(found_.begin(), found_.end(), std::uint64_t{blank_.front()});
  }

 private:
  static CacheConfig config() {
    CacheConfig out;
    out.num_blocks = Shape().num_blocks;
    out.max_model_len = kPoolBlocks * Shape::kBlockSize;
    out.hash_block_size = Shape::kBlockSize;
    out.groups = {{.block_size = Shape::kBlockSize}};
    return out;
  }

  optimized::CacheManager<Digest> manager_;
  std::vector<TokenId> tokens_ = std::vector<TokenId>(kPoolBlocks * Shape::kBlockSize);
  std::vector<typename Digest::Key> keys_;
  std::vector<BlockId> found_ = std::vector<BlockId>(kPoolBlocks);
  std::vector<BlockId> blank_ = std::vector<BlockId>(kPoolBlocks);
};

template <class Digest>
void measure_operations(const char* hash, const BenchOptions& options,
                        std::vector<Result>& results) {
  const int calls = options.smoke ? 5 : 200;
  TextbookProcess textbook(textbook_script(options.self));
  std::map<std::string, Pairs> pairs;
  std::uint64_t checksum = 0;
  for (int round = 0; round < (options.smoke ? 2 : 9); ++round) {
    PoolOperations<Digest> ours(options.seed);
    typename PoolOperations<Digest>::Times times;
    std::uint64_t sum = 0;
    for (int call = 0; call < calls; ++call) sum += ours.round(times);
    textbook.ask(std::string("start ") + hash + " " + std::to_string(Shape().num_blocks) + " 1 " +
                 std::to_string(options.seed));
    const TextbookAnswer answer =
        textbook.ask("pool " + std::to_string(kPoolBlocks) + " " + std::to_string(calls));
    agree(answer, "checksum", sum);
    checksum += sum;
    for (const auto& [operation, ns] : times) {
      pairs[operation].add(median(ns), static_cast<double>(number(answer, operation)));
    }
  }
  for (const auto& [operation, both] : pairs) {
    results.push_back(result(operation.c_str(), hash, kPoolBlocks, both, checksum));
  }
}

}  // namespace

std::vector<std::string> textbook_cases(const BenchOptions& options) {
  const bool python = std::system("command -v python3 >/dev/null 2>&1") == 0;
  if (!python || !std::filesystem::exists(textbook_script(options.self))) return {};
  return {"textbook/pickle", "textbook/bytes"};
}

std::vector<Result> run_textbook_suite(std::span<const std::string> selected,
                                       const BenchOptions& options) {
  std::vector<Result> results;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    options.progress->update(static_cast<double>(i) / static_cast<double>(selected.size()),
                             selected[i]);
    if (selected[i] == "textbook/pickle") {
      measure_lives<optimized::Xxh3Digest>("pickle", options, results);
      measure_operations<optimized::Xxh3Digest>("pickle", options, results);
    } else {
      measure_lives<optimized::Sha256Digest>("bytes", options, results);
      measure_operations<optimized::Sha256Digest>("bytes", options, results);
    }
  }
  return results;
}

}  // namespace kvproof::bench
