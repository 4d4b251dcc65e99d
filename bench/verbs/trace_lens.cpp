// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/trace_lens.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "properties/audit/shrink.h"
#include "properties/check/audited_subject.h"
#include "properties/selftest/candidate_or_mutant.h"
#include "properties/story/beside.h"
#include "properties/story/state_difference.h"
#include "reference/contiguous_cache.h"
#include "reference/recordings/golden.h"
#include "reference/support/command_words.h"
#include "reference/support/line_reader.h"
#include "reference/support/say.h"
#include "reference/trace_fields.h"

namespace kvproof::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace properties;

/// Of a list what the other side's lacks: of pairs those that are not there, of ids those between
/// what both begin and end with.
std::string unlike(const json& list, const json& other) {
  const auto [from, tail] = common_ends(list, other);
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& e = list[i];
    const bool there = e.is_array() && std::ranges::find(other, e) != other.end();
    if (i < from || i + tail >= list.size() || there) {
      if (!out.ends_with(" ... ")) out += " ... ";
      continue;
    }
    const bool table = e.is_array() && e.size() > 2 && i < other.size();
    out += out.empty() || out.ends_with(' ') ? "" : ", ";
    out += table ? "[" + unlike(e, other[i]) + "]" : e.dump();
  }
  return out;
}

/// Of a text with a quantity a line, the lines that the other text lacks, and of a long list only
/// the part that differs.
std::string unlike_lines(const std::string& text, const std::string& other) {
  constexpr std::size_t kLong = 200;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (other.find(line + "\n") != std::string::npos) continue;
    const std::size_t list = line.find('[');
    const std::size_t same = other.find(line.substr(0, list));
    if (line.size() > kLong && same != std::string::npos) {
      const std::string value = other.substr(same + list, other.find('\n', same) - same - list);
      line.replace(list, std::string::npos,
                   unlike(json::parse(line.substr(list)), json::parse(value)));
    }
    out += line + "\n";
  }
  return out;
}

/// Runs the traces of a file until one is found that is to be shown.
class TraceLens {
 public:
  TraceLens(const std::string& path, const LensOptions& options)
      : path_(path), options_(options), reader_(path) {}

  /// Is told each operation when its step has been added.
  std::function<void(Story&, const Operation&)> on_step;

  std::shared_ptr<Story> run() {
    std::shared_ptr<Story> shown;
    std::string skipped;
    while (!differs_ && traces_ <= options_.trace_index.value_or(traces_) && next(skipped)) {
      if (shown == nullptr || differs_) shown = story_;
      story_ = nullptr;
      ++traces_;
    }
    if (shown != nullptr) return shown;
    if (traces_ == 0) throw InputError(path_, 0, "", "at least one trace, found an empty file");
    if (traces_ <= options_.trace_index.value_or(0)) {
      throw InputError(path_, 0, "",
                       say("a trace of the index ", *options_.trace_index, ", found ", traces_,
                           traces_ == 1 ? " trace" : " traces"));
    }
    throw InputError(path_, 0, "", "a trace that can be shown; this one is not: " + skipped);
  }

 private:
  /// @return false at the end of the file
  bool next(std::string& skipped) {
    try {
      const auto verdict = reader_.next(
          [this](const TraceHeader& header) { return make(header); },
          [this](const TraceLine& line, const TraceVerdict& so_far) { watch(line, so_far); });
      if (verdict) skipped = verdict->skipped;
      return verdict.has_value();
    } catch (const Violation& violation) {
      story_->add_verdicts(violation);
      differs_ = true;
      return true;
    }
  }

  std::unique_ptr<Subject> make(const TraceHeader& header) {
    if (options_.trace_index && *options_.trace_index != traces_) return nullptr;
    SubjectOptions own = options_.subject;
    if (!own.given()) own.subject = header.subject;
    if (!own.given()) own.subject = optimized::subject_of(optimized::Role::standard).name;
    candidate_ = find_candidate_or_mutant(own);
    Opened opened = candidate_.open(header.config);
    if (opened.subject == nullptr) return nullptr;
    const bool by_model = oracles_for(header.config, opened.demands).model;
    opened.subject = with_story(
        header.config, {std::move(opened.subject), opened.demands.shown, by_model}, story_);
    TraceHeader named = header;
    named.subject = candidate_.name;
    std::string option = options_.subject.given() ? candidate_.option : "";
    if (options_.subject.given() && option.empty()) option = "--subject=" + candidate_.name;
    story_->describe(named, fs::path(path_).filename().string(), opened.demands.shown,
                     replay_command(path_, option));
    const bool failure = header.recorded_from == "kvproof";
    if (!failure) return std::move(opened.subject);
    return audited(header.config, std::move(opened), candidate_);
  }

  void watch(const TraceLine& line, const TraceVerdict& verdict) {
    if (story_ == nullptr || differs_) return;
    differs_ = verdict.difference.has_value();
    if (differs_) {
      const Difference& d = *verdict.difference;
      story_->head["difference"] = {{"step", d.operation},
                                    {"what", d.what},
                                    {"recorded", unlike_lines(d.recorded_state, d.subject_state)},
                                    {"ours", unlike_lines(d.subject_state, d.recorded_state)}};
    }
    if (line.result && differs_) story_->amend("rec", to_json(Outcome{*line.result, {}}));
    if ((line.result || line.state) && !differs_) story_->amend("rec", "1");
    if (!line.raised.empty()) story_->amend("raised", json(line.raised).dump());
    if (on_step) on_step(*story_, line.operation);
  }

  std::string path_;
  LensOptions options_;
  Candidate candidate_;  // of the trace that is read; its subjects need it
  GoldenReader reader_;
  std::uint64_t traces_ = 0;
  std::shared_ptr<Story> story_;
  bool differs_ = false;
};

// ---- scenes ----

json header_of(const std::string& path) {
  LineReader lines(path);
  std::string_view line;
  if (!lines.next(line)) lines.fail("", "the header of a trace, found an empty file");
  return fields::parse_object(line);
}

/// What paging replaced, beside the same requests.
class ContiguousBeside {
 public:
  explicit ContiguousBeside(const json& sizes)
      : longest_(sizes.at("max_length")),
        cache_(sizes.at("capacity"), longest_, reference::Reservation::max_length) {}

  std::string follow(const Operation& operation) {
    if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
      if (cache_.insert(arrive->req, arrive->tokens.size(), longest_)) {
        used_[arrive->req] = arrive->tokens.size();
      }
    } else if (const auto* append = std::get_if<op::Append>(&operation)) {
      const auto at = used_.find(append->req);
      const std::size_t grown = at == used_.end() ? 0 : at->second + append->tokens.size();
      if (at != used_.end() && cache_.extend(append->req, grown)) at->second = grown;
    } else if (const auto* finish = std::get_if<op::Finish>(&operation)) {
      if (used_.erase(finish->req) > 0) cache_.erase(finish->req);
    }
    json runs = json::array();
    for (const auto& [name, used] : used_) {
      const reference::Run run = cache_.find(name).value_or(reference::Run());
      runs.push_back({name, run.offset, run.length, used});
    }
    return json{{"capacity", cache_.usage().capacity}, {"runs", runs}}.dump();
  }

 private:
  std::uint64_t longest_;
  reference::ContiguousCache cache_;
  std::map<std::string, std::size_t> used_;  // [tokens]
};

}  // namespace

std::shared_ptr<Story> lens_of_file(const std::string& path, const LensOptions& options) {
  if (is_run(path)) return story_of_run(path);
  return TraceLens(path, options).run();
}

std::vector<Scene> scenes() {
  std::vector<Scene> out;
  const std::string folder = scenes_folder();
  if (folder.empty()) return out;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".jsonl") continue;
    const std::string path = file.path().string();
    const json header = header_of(path);
    out.push_back(
        {file.path().stem().string(), header.value("about", ""), header.value("order", 0), path});
  }
  std::ranges::sort(out, {}, &Scene::order);
  return out;
}

std::shared_ptr<Story> lens_of_scene(const Scene& scene) {
  TraceLens lens(scene.path, {});
  LineReader lines(scene.path);
  std::string_view line;
  (void)lines.next(line);
  const json header = fields::parse_object(line);
  std::optional<ContiguousBeside> beside;
  if (header.contains("contiguous")) beside.emplace(header["contiguous"]);
  const auto caption = [&](Story& story) {
    if (!lines.next(line)) return;
    const json say = fields::parse_object(line).value("say", json());
    if (say.is_string()) story.amend("say", say.dump());
  };
  lens.on_step = [&](Story& story, const Operation& operation) {
    caption(story);
    if (beside) story.set("c", beside->follow(operation));
  };
  auto story = lens.run();
  caption(*story);  // of an operation that broke a law; else the end line, which has none
  story->head["title"] = scene.about;
  story->head["scene"] = scene.name;
  story->head["command"] = kvproof_command("lens --scene=" + scene.name);
  return story;
}

}  // namespace kvproof::bench
