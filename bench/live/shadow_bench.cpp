// SPDX-License-Identifier: Apache-2.0
// Times the judge of a run over decode steps: what a step costs for each token that it schedules,
// and for each token of context that its rows read.
//
// Workload: 32 requests of one group with 8,192 tokens of context in blocks of 16; each step
//           computes one token of each, and its answer is taken. Parsing lines is not timed.
#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "bench/suites.h"
#include "properties/live/judge.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kRequests = 32;
constexpr std::uint32_t kBlockSize = 16;
constexpr std::uint32_t kSteps = 64;  // of a round

std::string name_of(std::uint32_t context) { return "live/context:" + std::to_string(context); }

live::Judge with_context(std::uint32_t context, std::uint32_t steps) {
  const std::uint32_t blocks = context / kBlockSize + steps / kBlockSize + 2;
  live::Header header;
  header.tiers = {{"device", kRequests * blocks}};
  header.groups = {{kBlockSize, 0, false}};
  header.patience = 1;
  live::Judge judge(header);
  live::event::Dispatch prefill;
  for (std::uint32_t r = 0; r < kRequests; ++r) {
    judge.names().add("r" + std::to_string(r));
    judge.take(live::Event(live::event::Request{r, std::vector<TokenId>(context, TokenId(r)), ""}));
    live::event::Row row{r, 0, context, 0, live::event::Row::Tables::replaced, {{}}};
    for (std::uint32_t b = 0; b < blocks; ++b) row.tables[0].push_back(b * kRequests + r);
    prefill.rows.push_back(std::move(row));
  }
  judge.take(live::Event(prefill));
  live::event::Retire retired;
  for (std::uint32_t r = 0; r < kRequests; ++r) {
    retired.sampled.emplace_back(r, std::vector<TokenId>{7});
  }
  judge.take(live::Event(retired));
  for (const auto& [request, token] : retired.sampled) {
    judge.take(live::Event(live::event::Tokens{request, {}, token}));
  }
  return judge;
}

/// @return the time of a step [ns]
double step_ns(live::Judge& judge, std::uint32_t context, std::uint32_t first,
               std::uint32_t steps) {
  live::event::Dispatch dispatch;
  live::event::Retire retire;
  std::vector<live::Event> taken;
  for (std::uint32_t r = 0; r < kRequests; ++r) {
    dispatch.rows.push_back({r, 0, 1, 0, live::event::Row::Tables::as_before, {}});
    retire.sampled.emplace_back(r, std::vector<TokenId>{7});
    taken.emplace_back(live::event::Tokens{r, {}, {7}});
  }
  live::Event given = std::move(dispatch);
  live::Event ended = std::move(retire);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t step = first; step < first + steps; ++step) {
    auto& rows = std::get<live::event::Dispatch>(given);
    rows.step = std::get<live::event::Retire>(ended).step = step + 1;
    for (live::event::Row& row : rows.rows) row.start = context + step;
    judge.take(given);
    judge.take(ended);
    for (const live::Event& event : taken) judge.take(event);
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / steps;
}

}  // namespace

std::vector<std::string> live_cases(const BenchOptions& options) {
  return options.smoke ? std::vector{name_of(256)} : std::vector{name_of(256), name_of(8192)};
}

std::vector<Result> run_live_suite(std::span<const std::string> selected,
                                   const BenchOptions& options) {
  std::vector<Result> out;
  for (const std::uint32_t context : {256U, 8192U}) {
    if (std::ranges::find(selected, name_of(context)) == selected.end()) continue;
    const std::uint32_t rounds = options.smoke ? 1 : options.fewest_rounds;
    live::Judge judge = with_context(context, kSteps * (rounds + 1));
    std::vector<double> times;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      times.push_back(step_ns(judge, context, round * kSteps, kSteps));
    }
    if (!judge.findings().empty()) throw std::logic_error("live: " + judge.findings()[0].what);
    std::ranges::sort(times);
    const double each = 1.0 / kRequests;
    const auto metric = [&](double of) {
      return Metric{times[times.size() / 2] * of, "ns", times.front() * of, times.back() * of};
    };
    Result result;
    result.experiment = "live";
    result.parameters = {{"requests", std::int64_t{kRequests}}, {"context", std::int64_t{context}}};
    result.metrics = {{"ns_per_scheduled_token", metric(each)},
                      {"ns_per_context_token", metric(each / context)}};
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace kvproof::bench
