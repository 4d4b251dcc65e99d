// SPDX-License-Identifier: Apache-2.0
#include "properties/live/verdict.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <ostream>

#include "reference/support/line_reader.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::live {

using nlohmann::json;

namespace {

std::size_t laws_spoke(const json& spoke) {
  return static_cast<std::size_t>(
      std::ranges::count_if(spoke, [](const json& n) { return n > 0; }));
}

}  // namespace

bool is_stream(const std::string& path) {
  std::error_code unknown;
  return !std::filesystem::is_regular_file(path, unknown);
}

Judge judge_file(const std::string& path,
                 const std::function<void(const Found&, const Judge&)>& found) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) reader.fail("", "the header of a run, found an empty file");
  try {
    Judge judge(parse_run_header(line));
    std::size_t told = 0;
    while (reader.next(line)) {
      if (!reader.line_ended() && is_stream(path) && !json::accept(line)) {
        judge.tear();
        break;
      }
      judge.take_line(line);
      while (found && told < judge.findings().size()) found(judge.findings()[told++], judge);
    }
    return judge;
  } catch (const TextError& error) {
    reader.fail(error.field(), error.expected());
  }
}

std::string verdict_line(const Judge& judge) {
  std::string out = judge.ran() ? "holds" : "cannot tell, because no step ran";
  if (!judge.lost().empty()) out = judge.lost();
  if (!judge.findings().empty()) {
    const RunLaw& law = kRunLaws[judge.findings().front().law];
    out = say("BROKEN: ", law.id, " (", law.name, ") first");
    if (!judge.lost().empty()) out += ", " + judge.lost();
  }
  if (judge.torn()) return out + ", judged up to its last line, which is broken off";
  if (!judge.ended() && judge.lost().empty()) out += ", judged up to where it was cut off";
  return out;
}

std::string in_words(const Found& found, const Judge& judge) {
  const RunLaw& law = kRunLaws[found.law];
  std::string out = say(law.id, " ", law.name, ", line ", found.event);
  if (found.step) out += say(", step ", *found.step);
  if (!found.req.empty()) out += ", request " + found.req;
  if (found.position) out += say(", position ", *found.position);
  if (found.place) {
    out += say(", block ", found.place->block, " of tier ",
               judge.header().tiers[found.place->tier].name);
  }
  out += ": " + found.what;
  if (!found.wrote.empty()) out += " (" + found.wrote + ")";
  return out;
}

void print_finding(std::ostream& out, const Found& found, const Judge& judge) {
  out << in_words(found, judge) << "\n  law: " << kRunLaws[found.law].sentence << '\n';
  for (const std::string& line : found.before) out << "  the block before: " << line << '\n';
}

void print_verdict(std::ostream& out, std::string_view file, const Judge& judge) {
  out << file << ": " << verdict_line(judge) << " (" << judge.steps() << " steps, "
      << judge.requests() << " requests, " << judge.events() << " lines)\n";
  for (std::size_t i = 0; i < kNumLaws; ++i) {
    const auto law = static_cast<LawId>(i);
    out << "  " << std::left << std::setw(4) << kRunLaws[i].id << std::setw(12) << kRunLaws[i].name
        << std::right << std::setw(10) << judge.spoke(law);
    if (judge.found(law) > 0) out << "  broken " << judge.found(law) << " times";
    out << '\n';
  }
}

json verdict_json(const Judge& judge) {
  json out = {{"holds", judge.can_tell() && judge.findings().empty()},
              {"ended", judge.ended()},
              {"verdict", verdict_line(judge)},
              {"steps", judge.steps()},
              {"requests", judge.requests()},
              {"events", judge.events()},
              {"dropped", judge.dropped()}};
  for (std::size_t i = 0; i < kNumLaws; ++i) {
    out["spoke"][std::string(kRunLaws[i].id)] = judge.spoke(static_cast<LawId>(i));
  }
  out["laws_spoke"] = laws_spoke(out["spoke"]);
  out["findings"] = json::array();
  for (const Found& found : judge.findings()) {
    json one = {{"law", kRunLaws[found.law].id},
                {"sentence", kRunLaws[found.law].sentence},
                {"event", found.event},
                {"what", found.what}};
    if (!found.req.empty()) one["req"] = found.req;
    if (found.position) one["position"] = *found.position;
    if (found.place) one["block"] = {found.place->tier, found.place->block};
    if (!found.wrote.empty()) one["wrote"] = found.wrote;
    if (found.step) one["step"] = *found.step;
    one["before"] = found.before;
    out["findings"].push_back(std::move(one));
  }
  return out;
}

void add_run(json& all, const std::string& file, const Judge& judge) {
  json run = verdict_json(judge);
  run["file"] = file;
  json& total = all["total"];
  if (total.is_null()) total = {{"spoke", json::object()}, {"findings", json::array()}};
  for (const char* count : {"steps", "requests", "dropped"}) {
    total[count] = total.value(count, std::uint64_t{0}) + run[count].get<std::uint64_t>();
  }
  for (const auto& [law, times] : run["spoke"].items()) {
    total["spoke"][law] = total["spoke"].value(law, std::uint64_t{0}) + times.get<std::uint64_t>();
  }
  total["laws_spoke"] = laws_spoke(total["spoke"]);
  for (json found : run["findings"]) {
    found["file"] = file;
    total["findings"].push_back(std::move(found));
  }
  all["runs"].push_back(std::move(run));
}

}  // namespace kvproof::live
