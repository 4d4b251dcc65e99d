// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bytes become a run of a small engine that does anything at any time, and the judge
// of runs gets it line by line. Whatever it finds, it must say the same again; a line that it
// cannot read must be one line of complaint, after which it refuses all others.
#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/shadow/kvproof_live.h"
#include "properties/sources/fuzz/fuzz_target.h"

namespace kvproof::properties {
namespace {

using nlohmann::json;

constexpr std::uint32_t kHostBlocks = 4;

class RunInput {
 public:
  explicit RunInput(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::vector<std::string> lines() {
    std::vector<std::string> out = {header().dump()};
    while (!bytes_.empty()) {
      const std::optional<json> event = next();
      if (event) out.push_back(event->dump());
    }
    return out;
  }

 private:
  struct Step {
    std::uint32_t number = 0;
    struct Row {
      std::string name;
      std::uint32_t n = 0, start = 0;
    };
    std::vector<Row> rows;
    bool ran = false;
  };

  std::uint32_t draw(std::uint32_t limit) {
    if (bytes_.empty()) return 0;
    const std::uint32_t out = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return out % limit;
  }
  std::vector<std::uint32_t> draws(std::uint32_t count, std::uint32_t limit) {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < count; ++i) out.push_back(draw(limit));
    return out;
  }
  template <class T>
  std::string one_of(const T& names) {
    return names[draw(static_cast<std::uint32_t>(std::min<std::size_t>(names.size(), 256)))];
  }
  std::uint32_t block() { return draw(blocks_); }
  json place(std::uint32_t tier) { return {tier, draw(tier == 0 ? blocks_ : kHostBlocks)}; }
  json tables() {
    json out = json::array();
    for (std::uint32_t g = 0; g < groups_; ++g) out.push_back(draws(draw(5), blocks_));
    return out;
  }

  json header() {
    blocks_ = 2 + draw(16);
    groups_ = 1 + draw(2);
    json groups = json::array();
    for (std::uint32_t g = 0; g < groups_; ++g) {
      const std::uint32_t kind = draw(4);
      groups.push_back(
          {{"block_size", 1 + draw(4)}, {"window", kind == 1 ? draw(8) : 0}, {"state", kind == 2}});
      groups.back()["in_place"] = kind == 2 && groups.back()["block_size"] == 4;
    }
    const json device = {{"name", "device"}, {"blocks", blocks_}};
    const json host = {{"name", "host"}, {"blocks", kHostBlocks}};
    return {{"kvproof_run", 1},     {"tiers", json::array({device, host})},
            {"groups", groups},     {"null_block", draw(2) == 1},
            {"depth", 1 + draw(3)}, {"patience", 1 + draw(4)}};
  }

  std::optional<json> next() {
    const std::uint32_t op = draw(24);
    if (op < 3 || alive_.empty()) return request();
    if (op < 9) return dispatch();
    if (op < 13) return op < 11 ? run() : retire();
    if (op < 15) return tokens();
    if (op < 17) return op == 15 ? start() : moved();
    if (op == 17) return settle();
    if (op == 18) return leave();
    if (op == 19) return json{{"op", "hit"}, {"req", one_of(alive_)}, {"tokens", draw(12)}};
    if (op < 22) return claim(op == 20 ? "publish" : "unpublish");
    if (op == 22) return queue();
    return rare();
  }

  json request() {
    alive_.push_back("r" + std::to_string(requests_++));
    return {{"op", "request"}, {"req", alive_.back()}, {"tokens", draws(1 + draw(9), 3)}};
  }
  json tokens() {
    json out = {{"op", "tokens"}, {"req", one_of(alive_)}, {"append", draws(draw(3), 3)}};
    if (draw(16) == 0) out["length"] = draw(4);
    return out;
  }
  json dispatch() {
    Step step{steps_++, {}, false};
    json rows = json::array(), copies = json::array();
    for (std::uint32_t i = draw(4); i > 0; --i) {
      const std::uint32_t n = draw(8), told = draw(4);
      json row = {{"req", one_of(alive_)}, {"start", draw(12)}, {"n", n}};
      if (told < 3) row[told < 2 ? "tables" : "more"] = tables();
      if (n > 0) row["drafts"] = draw(n);
      step.rows.push_back({row["req"], n, row["start"]});
      rows.push_back(row);
    }
    if (draw(8) == 0) copies.push_back({draw(groups_), block(), block()});
    in_flight_.push_back(step);
    return {{"op", "dispatch"}, {"step", step.number}, {"rows", rows}, {"copies", copies}};
  }
  std::optional<json> run() {
    const auto step = std::ranges::find(in_flight_, false, &Step::ran);
    if (step == in_flight_.end()) return {};
    step->ran = true;
    json inputs = json::object();
    for (const auto& [name, n, start] : step->rows) {
      if (n > 0 && draw(3) == 0) inputs[name] = draws(n, 3);
    }
    json out = {{"op", "run"}, {"step", step->number}, {"inputs", inputs}};
    if (step->rows.empty() || draw(4) > 0) return out;
    const auto& [name, n, start] = step->rows[draw(4) % step->rows.size()];
    if (draw(2) == 0) {
      out["tables"][name] = tables();
    } else {
      const std::uint32_t position = start + draw(n + 1);
      out["slots"][name] = {{draw(groups_), position, block(), 0}};
    }
    return out;
  }
  std::optional<json> retire() {
    if (in_flight_.empty()) return {};
    const Step step = in_flight_.front();
    in_flight_.pop_front();
    json out = {{"op", "retire"}, {"step", step.number}, {"discarded", json::array()}};
    out["sampled"] = json::object();
    for (const auto& [name, n, start] : step.rows) {
      out["sampled"][name] = draws(draw(3), 3);
      if (draw(4) == 0) out["discarded"].push_back(name);
    }
    return out;
  }
  json start() {
    constexpr const char* kKinds[] = {"load", "store", "send", "receive"};
    const std::uint32_t kind = draw(4);
    transfers_.push_back("t" + std::to_string(transfers_.size()));
    json out = {{"op", "start"}, {"transfer", transfers_.back()}, {"kind", kKinds[kind]}};
    out["group"] = draw(groups_);
    json places = json::array();
    for (std::uint32_t i = draw(3); i > 0; --i) {
      json pair = place(kind == 0 ? 1 : 0);
      if (kind < 2) pair.insert(pair.end(), {kind == 0 ? 0 : 1, draw(kind == 0 ? blocks_ : 4)});
      places.push_back(pair);
    }
    out[kind < 2 ? "pairs" : "blocks"] = places;
    if (kind == 3) out["carries"] = {one_of(alive_), draw(4)};
    if (draw(2) == 0) out["req"] = one_of(alive_);
    if (draw(4) == 0) out["after"] = draw(8);
    return out;
  }
  std::optional<json> moved() {
    if (transfers_.empty()) return {};
    return json{{"op", "move"}, {"transfer", one_of(transfers_)}, {"pairs", draws(draw(2), 2)}};
  }
  std::optional<json> settle() {
    if (transfers_.empty()) return {};
    constexpr const char* kOutcomes[] = {"done", "failed", "abandoned"};
    json out = {{"op", "settle"}, {"transfer", one_of(transfers_)}};
    out["outcome"] = kOutcomes[draw(3)];
    if (out["outcome"] == "failed") out["failed"] = draws(draw(2), 2);
    return out;
  }
  json leave() {
    constexpr const char* kWays[] = {"preempt", "finish", "abort"};
    const std::uint32_t way = draw(3);
    const std::string name = one_of(alive_);
    if (way > 0) std::erase(alive_, name);
    return {{"op", kWays[way]}, {"req", name}};
  }
  json claim(const char* op) {
    const json at = place(draw(2));
    return {{"op", op},
            {"tier", at[0]},
            {"block", at[1]},
            {"group", draw(groups_)},
            {"req", "r" + std::to_string(draw(std::min(requests_, 256U)))},
            {"to", 1 + draw(9)}};
  }
  json queue() {
    return {
        {"op", draw(2) == 0 ? "freed" : "taken"}, {"tier", 0}, {"blocks", draws(draw(4), blocks_)}};
  }
  json rare() {
    switch (draw(8)) {
      case 0: return {{"op", "end"}, {"free", {draw(blocks_), draw(kHostBlocks)}}};
      case 1: return {{"op", "raised"}, {"what", "an assertion"}};
      case 2: return {{"op", "reset"}, {"tiers", draws(1, 2)}};
      case 3: return {{"op", "hit"}, {"req", "nobody"}, {"tokens", 1}};
      case 4: return {{"op", "lost"}, {"events", draw(9)}, {"what", "the queue was full"}};
      case 5: return wild();
      default: return {{"op", "quiet"}};
    }
  }

  /// An event of which one number can be none.
  json wild() {
    json event = next().value_or(json{{"op", "quiet"}});
    std::vector<json*> numbers;
    const auto collect = [&](json& value, const auto& again) -> void {
      if (value.is_number_integer()) numbers.push_back(&value);
      for (json& item : value) {
        if (value.is_structured()) again(item, again);
      }
    };
    collect(event, collect);
    const json extremes = {-1, blocks_, 1U << 24U, std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::uint64_t>::max()};
    if (!numbers.empty()) {
      *numbers[draw(256) % numbers.size()] = extremes[draw(5)];
    }
    return event;
  }

  std::span<const std::uint8_t> bytes_;
  std::uint32_t blocks_ = 2, groups_ = 1, requests_ = 0, steps_ = 0;
  std::vector<std::string> alive_, transfers_;
  std::deque<Step> in_flight_;
};

/// @return the verdict, or what could not be read
std::string judged(const std::vector<std::string>& lines) {
  const std::unique_ptr<kvproof_live, void (*)(kvproof_live*)> run(
      kvproof_live_open(lines.front().c_str()), &kvproof_live_close);
  if (kvproof_live_error(run.get()) != nullptr) fuzz_failed(kvproof_live_error(run.get()));
  int before = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const int findings = kvproof_live_event(run.get(), lines[i].c_str());
    if (findings >= 0 && findings < before) fuzz_failed("fewer findings than before");
    if (before < 0 && findings >= 0) fuzz_failed("an event is taken after an error");
    before = findings;
  }
  const char* error = kvproof_live_error(run.get());
  if ((error != nullptr) != (before < 0)) fuzz_failed("an error that is not told");
  const std::string out = error != nullptr ? error : kvproof_live_verdict(run.get());
  if (out.find('\n') != out.npos) fuzz_failed("several lines: " + out);
  return out;
}

}  // namespace
}  // namespace kvproof::properties

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof::properties;
  const std::vector<std::string> lines = RunInput({data, size}).lines();
  const std::string once = judged(lines);
  if (once != judged(lines)) fuzz_failed("another verdict on the same run: " + once);
  fuzz_meter.add_input(lines.size());
  return 0;
}
