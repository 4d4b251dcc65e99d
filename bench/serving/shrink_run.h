// SPDX-License-Identifier: Apache-2.0
// For tests: makes a random run that breaks a law short, and keeps it.
//
// Model:   fewer requests, then shorter ones, which have fewer steps, then without aborts, drafts,
//          deferred frees and steps in flight, then with other draws, until nothing can be left
//          out; the run ends with the event that breaks the law. properties/audit/shrink.h does so
//          with operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "bench/serving/random_runs.h"

namespace kvproof::bench {

using WriteRun = std::function<WrittenRun(const RunSetup&)>;

/// @return the lines up to the event that breaks a law first
inline std::string up_to_finding(const std::string& lines) {
  const nlohmann::json verdict = judge_run(lines);
  if (broken_first(verdict).empty() || verdict.contains("error")) return lines;
  std::istringstream in(lines);
  std::string line, out;
  for (auto left = verdict["findings"][0]["event"].get<std::uint32_t>(); left > 0; --left) {
    std::getline(in, line);
    out += line + "\n";
  }
  return out;
}

class RunShrinker {
 public:
  RunShrinker(RunSetup failing, const WriteRun& write)
      : setup_(std::move(failing)), write_(write), law_(law_of(setup_)) {}

  /// @return the shortest setup found that breaks the same law first
  const RunSetup& shrink() {
    while (drop_requests() || shorten_requests() || simplify() || draw_others()) {
    }
    return setup_;
  }

 private:
  [[nodiscard]] std::string law_of(const RunSetup& setup) const {
    return broken_first(judge_run(write_(setup).lines));
  }
  bool attempt(const std::function<void(RunSetup&)>& change) {
    RunSetup smaller = setup_;
    change(smaller);
    if (law_of(smaller) != law_) return false;
    setup_ = std::move(smaller);
    return true;
  }

  bool drop_requests() {
    bool any = false;
    for (std::size_t i = setup_.requests.size(); i-- > 0;) {
      any |= attempt([i](RunSetup& s) {
        s.requests.erase(s.requests.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
    return any;
  }
  bool shorten_requests() {
    bool any = false;
    for (std::size_t i = 0; i < setup_.requests.size(); ++i) {
      for (std::int64_t Request::*tokens : {&Request::output_tokens, &Request::input_tokens}) {
        for (const std::int64_t less : {setup_.requests[i].*tokens / 2, std::int64_t{1}}) {
          if (less == 0 || setup_.requests[i].*tokens <= less) continue;
          any |= attempt([=](RunSetup& s) {
            Request& request = s.requests[i];
            request.*tokens -= less;
            request.block_ids.resize(static_cast<std::size_t>(request.input_tokens + 15) / 16);
          });
        }
      }
    }
    return any;
  }
  bool simplify() {
    bool any = false;
    if (setup_.aborts > 0) any |= attempt([](RunSetup& s) { s.aborts = 0; });
    if (setup_.drafts > 0) any |= attempt([](RunSetup& s) { --s.drafts; });
    if (setup_.defer_frees) any |= attempt([](RunSetup& s) { s.defer_frees = false; });
    if (setup_.steps_in_flight > 0) {
      any |= attempt([](RunSetup& s) { s.steps_in_flight = 0, s.defer_frees = false; });
    }
    return any;
  }

  /// Other drafts and aborts, if the law breaks earlier with them.
  bool draw_others() {
    constexpr std::uint64_t kOthers = 32;
    const auto length = [this](const RunSetup& s) { return up_to_finding(write_(s).lines).size(); };
    const std::size_t before = length(setup_);
    for (std::uint64_t seed = 0; seed < kOthers; ++seed) {
      RunSetup other = setup_;
      other.seed = seed;
      if (length(other) >= before) continue;
      if (attempt([seed](RunSetup& s) { s.seed = seed; })) return true;
    }
    return false;
  }

  RunSetup setup_;
  const WriteRun& write_;
  std::string law_;
};

/// Shrinks a failing run and writes it to the folder. @return its path
inline std::filesystem::path keep_failing_run(const RunSetup& failing, const WriteRun& write,
                                              const std::filesystem::path& folder) {
  const std::filesystem::path path =
      folder / ("kvproof-run-" + std::to_string(failing.seed) + ".jsonl");
  std::ofstream(path) << up_to_finding(write(RunShrinker(failing, write).shrink()).lines);
  return path;
}

}  // namespace kvproof::bench
