// SPDX-License-Identifier: Apache-2.0
// Times the judge of a run over decode steps: what a step costs for each token that it schedules,
// and beyond that for each token of context that its rows read.
//
// Workload: 32 requests of one group in blocks of 16; each step computes one token of each, and its
//           answer is taken. Events are given as structs that name requests by number: neither
//           lines of JSON nor names are timed.
// Disturbed: before each step a load writes a block of one request anew, with the same content, so
//           that all rows look at their whole tables again.
// Fit:      a round times short and long contexts in turn. The slope between them is the part of
//           the context, and what the short ones take beyond it is the fixed part.
#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "bench/suites.h"
#include "properties/shadow/judge.h"

namespace kvproof::bench {
namespace {

namespace event = live::event;

constexpr std::uint32_t kRequests = 32;
constexpr std::uint32_t kBlockSize = 16;
constexpr std::uint32_t kSteps = 16;  // of a round, which is over before the core is given away
constexpr std::string_view kCases[] = {"live/undisturbed", "live/disturbed"};
const event::Retire kAnswers = [] {
  event::Retire out;
  for (std::uint32_t r = 0; r < kRequests; ++r) out.sampled.push_back({r, {7}});
  return out;
}();

class Decoding {
 public:
  Decoding(std::uint32_t context, std::uint32_t steps, bool disturbed)
      : context_(context), judge_(header(context + steps)), ended_(kAnswers) {
    const std::uint32_t blocks = judge_.header().tiers[0].blocks / kRequests;
    event::Dispatch prefill;
    event::Dispatch decode;
    for (std::uint32_t r = 0; r < kRequests; ++r) {
      judge_.names().add("r" + std::to_string(r));
      take(event::Request{r, std::vector<TokenId>(context, TokenId(r)), ""});
      event::Row row{r, 0, context, 0, event::Row::Tables::replaced, {{}}};
      for (std::uint32_t b = 0; b < blocks; ++b) row.tables[0].push_back(b * kRequests + r);
      prefill.rows.push_back(std::move(row));
      decode.rows.push_back({r, 0, 1, 0, event::Row::Tables::as_before, {}});
      taken_.emplace_back(event::Tokens{r, {}, {7}});
    }
    given_ = std::move(decode);
    take(prefill);
    take(kAnswers);
    for (const live::Event& event : taken_) take(event);
    take(event::Start{"s", event::Kind::store, {{0, 0}}, {{1, 0}}, 0, 0, {}, {}, 0});
    take(event::Settle{"s", event::Ended::done, {}});
    if (!disturbed) return;
    load_ = {event::Start{"l", event::Kind::load, {{1, 0}}, {{0, 0}}, 0, 0, {}, {}, 0},
             event::Settle{"l", event::Ended::done, {}}};
  }

  /// @return the time of a step for each of its rows [ns]
  double round() {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < kSteps; ++i) step();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (!judge_.findings().empty()) throw std::logic_error("live: " + judge_.findings()[0].what);
    return spent.count() / kSteps / kRequests;
  }

  [[nodiscard]] std::uint32_t length() const { return context_ + step_; }

 private:
  void take(const live::Event& event) { judge_.take(event); }

  static live::Header header(std::uint32_t tokens) {
    live::Header out;
    out.tiers = {{"device", kRequests * (tokens / kBlockSize + 2)}, {"host", 1}};
    out.groups = {{kBlockSize, 0, false}};
    return out;
  }

  void step() {
    auto& rows = std::get<event::Dispatch>(given_);
    for (event::Row& row : rows.rows) row.start = context_ + step_;
    rows.step = std::get<event::Retire>(ended_).step = ++step_;
    for (const live::Event& event : load_) judge_.take(event);
    judge_.take(given_);
    judge_.take(ended_);
    for (const live::Event& event : taken_) judge_.take(event);
  }

  std::uint32_t context_;  // [tokens]
  std::uint32_t step_ = 0;
  live::Judge judge_;
  live::Event given_, ended_;
  std::vector<live::Event> taken_, load_;
};

/// The median of three repetitions, of which each is the median of a third of the rounds.
Metric median(std::vector<double> times) {
  std::array<double, 3> thirds{};
  for (std::size_t i = 0; i < thirds.size(); ++i) {
    const auto begin = times.begin() + static_cast<std::ptrdiff_t>(times.size() * i / 3);
    const auto end = times.begin() + static_cast<std::ptrdiff_t>(times.size() * (i + 1) / 3);
    std::nth_element(begin, begin + (end - begin) / 2, end);
    thirds[i] = begin[(end - begin) / 2];
  }
  std::ranges::sort(thirds);
  return {thirds[1], "ns", thirds[0], thirds[2]};
}

}  // namespace

std::vector<std::string> live_cases(const BenchOptions&) {
  return {std::begin(kCases), std::end(kCases)};
}

std::vector<Result> run_live_suite(std::span<const std::string> selected,
                                   const BenchOptions& options) {
  std::vector<Result> out;
  const std::uint32_t rounds = options.smoke ? 3 : 8 * options.fewest_rounds;
  const std::array<std::uint32_t, 2> contexts = {256, options.smoke ? 512U : 8192U};
  for (const std::string& name : selected) {
    const bool disturbed = name == kCases[1];
    Decoding brief(contexts[0], kSteps * rounds, disturbed);
    Decoding ample(contexts[1], kSteps * rounds, disturbed);
    std::array<std::vector<double>, 4> times;  // short, long, the fixed part, the slope
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const double context = brief.length() + kSteps / 2.0;
      times[0].push_back(brief.round());
      times[1].push_back(ample.round());
      times[3].push_back((times[1].back() - times[0].back()) / (contexts[1] - contexts[0]));
      times[2].push_back(times[0].back() - times[3].back() * context);
    }
    Result result;
    result.experiment = "live";
    result.parameters = {{"requests", std::int64_t{kRequests}},
                         {"disturbed", std::int64_t{disturbed}}};
    result.metrics = {{"ns_per_scheduled_token", median(times[2])},
                      {"ns_per_context_token", median(times[3])},
                      {"ns_of_short_row", median(times[0])},
                      {"ns_of_long_row", median(times[1])}};
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace kvproof::bench
