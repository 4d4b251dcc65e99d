// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/lies/liar_matrix.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "properties/check/check.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// A cell that no caller can notice. An empty field stands for all, a promise for what it includes.
struct Excuse {
  std::string_view operation, lie, level, reason;
};

// Safety leaves to the allocator what it keeps, publishes and finds, and in which order it does so.
// Where it shows numbers only, the caller does not see which entries are null or one block.
constexpr std::string_view kFewStates = "a Mamba state may be kept while there are few (I15)";
constexpr std::string_view kNoNulls = "null entries are not shown";
constexpr std::string_view kNoIds = "which entries are one block is not shown";
constexpr std::string_view kUnpublished = "what is not published is not found, and that is safe";
constexpr Excuse kExcuses[] = {
    {"cache", "does_less", "hits", kUnpublished},
    {"cache", "serves_another", "hits", kUnpublished},
    {"", "turns_the_queue", "hits", "an operation may change the order of the queue"},
    {"recycle", "does_nothing", "policy", kFewStates},
    {"recycle", "does_less", "policy", kFewStates},
    {"recycle", "serves_another", "policy", kFewStates},
    {"recycle", "shows_the_state_before", "policy", kFewStates},
    {"recycle", "does_nothing", "counts_only", kNoNulls},
    {"recycle", "does_less", "counts_only", kNoNulls},
    {"recycle", "serves_another", "counts_only", kNoNulls},
    {"recycle", "shows_the_state_before", "counts_only", kNoNulls},
    {"common_prefix", "serves_another", "counts_only", kNoIds},
    {"common_prefix", "answers_less", "counts_only", kNoIds},
    {"common_prefix", "answers_the_call_before", "counts_only", kNoIds},
};

bool includes(std::string_view level, std::string_view other) {
  const View& wide = *std::ranges::find(kViews, level, &View::name);
  const View& narrow = *std::ranges::find(kViews, other, &View::name);
  return wide.block_ids == narrow.block_ids && narrow.level <= wide.level;
}

std::string_view excuse_of(const LiarCell& cell) {
  for (const Excuse& row : kExcuses) {
    const auto fits = [](std::string_view wanted, std::string_view is) {
      return wanted.empty() || wanted == is;
    };
    if (fits(row.operation, cell.operation) && fits(row.lie, cell.lie) &&
        includes(row.level, cell.level)) {
      return row.reason;
    }
  }
  return {};
}

Telltale run(const Lie& lie, std::size_t operation, const View& view, const Frequency& frequency,
             const LiarOptions& options) {
  Telltale out;
  const Candidate candidate = liar(lie, operation, view, frequency, options.seed, out.told);
  CheckOptions check_options;
  check_options.seed = options.seed;
  check_options.operations = std::max<std::uint64_t>(1, options.operations * frequency.one_in / 50);
  check_options.profiles = {find_profile("vllm-0.24")};
  check_options.shrinks = check_options.waits = false;
  const CheckReport report = check(candidate, check_options);
  out.operations = report.counts.operations;
  const auto idle = report.not_exercised();
  if (report.failure()) {
    out.noticed = true;
    out.by = joined(report.failure()->failure.breaches, " ");
  } else if (std::ranges::count(idle, kOperationNames[operation]) > 0) {
    out.noticed = true;
    out.by = "declined";
  }
  return out;
}

/// The frequencies, the most frequent first: a lie that is never told then is never told at all.
void run(LiarCell& cell, const Lie& lie, std::size_t operation, const View& view,
         const LiarOptions& options) {
  for (std::size_t f = std::size(kFrequencies); f-- > 0;) {
    cell.told[f] = run(lie, operation, view, kFrequencies[f], options);
    if (!cell.occurs()) return;
  }
}

}  // namespace

bool LiarCell::occurs() const {
  return std::ranges::any_of(told, [](const Telltale& t) { return t.told > 0; });
}

bool LiarCell::noticed() const {
  return std::ranges::all_of(told, [](const Telltale& t) { return t.told == 0 || t.noticed; });
}

std::vector<LiarCell> run_liars(const LiarOptions& options,
                                const std::function<void(double share, const LiarCell&)>& done) {
  std::vector<LiarCell> cells;
  for (std::size_t operation = 0; operation < kNumOperations; ++operation) {
    for (const Lie& lie : all_lies()) {
      for (const View& view : kViews) {
        if (!lie.about().test(operation)) continue;
        if (lie.is_a_code && view.level != Level::profile) continue;
        if (!options.lie.empty() && options.lie != lie.name) continue;
        if (!options.operation.empty() && options.operation != kOperationNames[operation]) continue;
        cells.push_back({kOperationNames[operation], lie.name, view.name, {}, {}});
      }
    }
  }
  const std::span<const Lie> lies = all_lies();
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  std::size_t ended = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cells.size(); i = next++) {
      LiarCell& cell = cells[i];
      const auto& lie = *std::ranges::find(lies, cell.lie, &Lie::name);
      const auto& view = *std::ranges::find(kViews, cell.level, &View::name);
      run(cell, lie, operation_index(cell.operation), view, options);
      cell.excuse = excuse_of(cell);
      const std::lock_guard lock(telling);
      done(static_cast<double>(++ended) / static_cast<double>(cells.size()), cell);
    }
  };
  std::vector<std::thread> threads(
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  std::erase_if(cells, [](const LiarCell& cell) { return !cell.occurs(); });
  return cells;
}

}  // namespace kvproof::properties
