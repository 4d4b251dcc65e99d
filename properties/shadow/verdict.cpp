// SPDX-License-Identifier: Apache-2.0
#include "properties/shadow/verdict.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "reference/support/line_reader.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::live {

using nlohmann::json;

bool is_stream(const std::string& path) {
  std::error_code unknown;
  return !std::filesystem::is_regular_file(path, unknown);
}

Judge judge_file(const std::string& path,
                 const std::function<void(const Found&, const Judge&)>& found, Knows knows) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) reader.fail("", "the header of a run, found an empty file");
  try {
    Judge judge(parse_run_header(line), std::move(knows));
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

std::string_view verdict_of(const Judge& judge) {
  const auto& findings = judge.findings();
  const bool all_known =
      std::ranges::all_of(findings, [](const Found& f) { return !f.known.empty(); });
  if (!all_known) return "broken";
  return !judge.can_tell() ? "cannot_tell" : findings.empty() ? "holds" : "known";
}

std::string reason_of(const Judge& judge) {
  std::string out = judge.ran() ? "" : "no step ran";
  if (!judge.lost().empty()) out = judge.lost();
  if (!judge.findings().empty()) {
    const Law& law = kRunLaws[judge.findings().front().law];
    out = say(law.id, " (", law.name, ") first");
    if (!judge.lost().empty()) out += ", " + judge.lost();
  }
  const char* between = out.empty() ? "" : ", ";
  if (judge.torn()) return say(out, between, "judged up to its last line, which is broken off");
  const bool cut = !judge.ended() && judge.lost().empty();
  return cut ? say(out, between, "judged up to where it was cut off") : out;
}

std::uint64_t laws_evaluated(const Judge& judge) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kRunLaws.size(); ++i) out += judge.count(i).evaluated > 0 ? 1 : 0;
  return out;
}

std::string in_words(const Found& found, const Judge& judge) {
  const Law& law = kRunLaws[found.law];
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

json verdict_json(const Judge& judge) {
  json out = {{"holds", judge.can_tell() && judge.findings().empty()},
              {"ended", judge.ended()},
              {"verdict", verdict_of(judge)},
              {"reason", reason_of(judge)},
              {"laws_evaluated", laws_evaluated(judge)},
              {"steps", judge.steps()},
              {"requests", judge.requests()},
              {"events", judge.events()},
              {"dropped", judge.dropped()}};
  for (std::size_t i = 0; i < kRunLaws.size(); ++i) {
    out["evaluated"][std::string(kRunLaws[i].id)] = judge.count(i).evaluated;
  }
  out["findings"] = json::array();
  for (const Found& found : judge.findings()) {
    json one = {{"law", kRunLaws[found.law].id},
                {"sentence", kRunLaws[found.law].sentence},
                {"event", found.event},
                {"reason", found.what}};
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

}  // namespace kvproof::live
