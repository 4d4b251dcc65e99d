// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/run_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace kvproof::bench {
namespace {

using nlohmann::json;

std::string name_of(std::uint64_t request) { return std::to_string(request); }

}  // namespace

RunWriter::RunWriter(std::ostream& out, const RunHeader& header) : out_(&out), header_(header) {
  const json tier = {{"name", "device"}, {"blocks", header.blocks}};
  const json group = {{"block_size", header.block_size}};
  write(json({{"kvproof_run", 1},
              {"engine", "kvproof serving simulation"},
              {"tiers", json::array({tier})},
              {"groups", json::array({group})},
              {"null_block", true},
              {"depth", header.depth},
              {"patience", header.patience},
              {"seed", std::to_string(header.seed)}})
            .dump());
}

void RunWriter::write(const std::string& line) {
  if (retiring_) {
    taken_ += line + '\n';
  } else if (steps_.size() > 1) {
    held_ += line + '\n';
  } else {
    *out_ << line << '\n';
  }
}

void RunWriter::arrive(std::uint64_t request, std::span<const TokenId> prompt) {
  if (out_ == nullptr) return;
  Asked& asked = asked_[request];
  asked.tokens.assign(prompt.begin(), prompt.end());
  write(json({{"op", "request"}, {"req", name_of(request)}, {"tokens", asked.tokens}}).dump());
}

void RunWriter::hit(std::uint64_t request, std::uint32_t tokens) {
  if (out_ == nullptr || tokens == 0) return;
  write(json({{"op", "hit"}, {"req", name_of(request)}, {"tokens", tokens}}).dump());
}

void RunWriter::grant(const Row& row, std::span<const BlockId> table) {
  if (out_ == nullptr) return;
  Asked& asked = asked_.at(row.request);
  const bool longer = asked.told.size() <= table.size() &&
                      std::equal(asked.told.begin(), asked.told.end(), table.begin());
  Granted granted;
  granted.row = row;
  granted.again = longer && !asked.told.empty();
  const auto told = static_cast<std::ptrdiff_t>(longer ? asked.told.size() : 0);
  granted.table.assign(table.begin() + told, table.end());
  asked.told.assign(table.begin(), table.end());
  ++asked.rows;
  rows_.push_back(std::move(granted));
}

void RunWriter::dispatch() {
  if (out_ == nullptr) return;
  Step step{num_granted_++, {}};
  step.rows.swap(rows_);
  if (steps_.empty()) write_dispatch(step);
  steps_.push_back(std::move(step));
}

void RunWriter::write_dispatch(const Step& step) {
  json rows = json::array();
  for (const Granted& granted : step.rows) {
    const Row& row = granted.row;
    json one = {
        {"req", name_of(row.request)}, {"start", row.start}, {"n", row.tokens + row.drafts}};
    const std::vector<std::uint32_t> ids(granted.table.begin(), granted.table.end());
    if (!granted.again || !ids.empty()) {
      one[granted.again ? "more" : "tables"] = json::array({ids});
    }
    if (row.drafts > 0) one["drafts"] = row.drafts;
    rows.push_back(std::move(one));
  }
  *out_ << json({{"op", "dispatch"}, {"step", step.number}, {"rows", rows}}).dump() << '\n';
}

void RunWriter::leave(std::string_view way, std::uint64_t request) {
  if (out_ == nullptr) return;
  write(json({{"op", way}, {"req", name_of(request)}}).dump());
  Asked& asked = asked_.at(request);
  asked.told.clear();
  if (way == "preempt") return;
  asked.gone = true;
  if (asked.rows == 0) asked_.erase(request);
}

void RunWriter::quiet() {
  if (out_ != nullptr) write(R"({"op":"quiet"})");
}

void RunWriter::raised(std::string_view what) {
  if (out_ != nullptr) *out_ << json({{"op", "raised"}, {"what", what}}).dump() << '\n';
}

void RunWriter::end(std::uint64_t free_tokens) {
  if (out_ == nullptr) return;
  const json free = json::array({free_tokens / header_.block_size});
  write(json({{"op", "end"}, {"free", free}, {"unfinished", json::array()}}).dump());
}

void RunWriter::begin_retire() {
  if (out_ == nullptr) return;
  retiring_ = true;
  for (Granted& granted : steps_.front().rows) {
    const Asked& asked = asked_.at(granted.row.request);
    granted.known = asked.tokens.size();
    granted.gone = asked.gone;
  }
}

void RunWriter::sample(std::uint64_t request, std::uint32_t accepted_drafts) {
  if (out_ == nullptr) return;
  for (Granted& granted : steps_.front().rows) {
    if (granted.row.request != request) continue;
    granted.accepted = accepted_drafts;
    granted.sampled = true;
  }
}

void RunWriter::take(std::uint64_t request, std::span<const TokenId> tokens) {
  if (out_ == nullptr || tokens.empty()) return;
  const std::vector<TokenId> taken(tokens.begin(), tokens.end());
  write(json({{"op", "tokens"}, {"req", name_of(request)}, {"append", taken}}).dump());
  std::vector<TokenId>& known = asked_[request].tokens;
  known.insert(known.end(), taken.begin(), taken.end());
}

/// The rows of the next step begin where the drafts of this one have ended.
void RunWriter::settle_drafts() {
  for (Granted& next : steps_[1].rows) {
    for (const Granted& granted : steps_[0].rows) {
      if (granted.row.request != next.row.request) continue;
      next.row.start -= granted.row.drafts - granted.accepted;
    }
  }
}

/// What is fed to a row that computes more than the engine knew: drafts, or tokens of a request
/// that has ended. Empty: its own tokens.
std::vector<TokenId> RunWriter::inputs_of(const Granted& granted) const {
  const Row& row = granted.row;
  const bool known = granted.end() <= granted.known;
  if (known ? row.drafts == 0 : !granted.gone) return {};
  const std::vector<TokenId>& tokens = asked_.at(row.request).tokens;
  std::vector<TokenId> out;
  for (std::uint32_t p = row.start; p < granted.end() + row.drafts; ++p) {
    const bool rejected = p >= granted.end() + granted.accepted;
    const bool own = p < granted.end() && p < granted.known;
    out.push_back(own ? tokens[p] : answer_token(row.request, rejected ? p + 1 : p));
  }
  return out;
}

void RunWriter::end_retire() {
  retiring_ = false;
  if (out_ == nullptr) return;
  if (steps_.size() > 1) {
    settle_drafts();
    write_dispatch(steps_[1]);
  }
  *out_ << held_;
  held_.clear();
  write_retired(steps_.front());
  steps_.pop_front();
  *out_ << taken_;
  taken_.clear();
}

void RunWriter::write_retired(const Step& step) {
  json run = {{"op", "run"}, {"step", step.number}};
  json retire = {{"op", "retire"}, {"step", step.number}};
  for (const Granted& granted : step.rows) {
    const std::string name = name_of(granted.row.request);
    if (auto inputs = inputs_of(granted); !inputs.empty()) run["inputs"][name] = inputs;
    if (granted.row.answers) {
      for (std::uint32_t i = 0; i <= granted.accepted; ++i) {
        retire["sampled"][name].push_back(answer_token(granted.row.request, granted.end() + i));
      }
      if (!granted.sampled) retire["discarded"].push_back(name);
    }
    Asked& asked = asked_.at(granted.row.request);
    if (--asked.rows == 0 && asked.gone) asked_.erase(granted.row.request);
  }
  *out_ << run.dump() << '\n' << retire.dump() << '\n';
}

}  // namespace kvproof::bench
