// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/gate_run.h"

#include <algorithm>

#include "bench/instruments/callgrind.h"
#include "bench/results/environment.h"

namespace kvproof::bench {
namespace {

/// The tools and the processor, which also decide the counts.
std::string counted_with(const MeasureOptions& options) {
  std::string out = options.callgrind ? valgrind_version() : "no valgrind";
  for (const auto& [name, value] : describe_environment(0, nullptr, options.seed)) {
    if (name != "compiler" && name != "flags" && name != "cpu") continue;
    if (const auto* text = std::get_if<std::string>(&value)) out += ", " + *text;
  }
  return out;
}

class Gate {
 public:
  explicit Gate(const GateOptions& options) : o_(options) {}

  GateReport compare_all() {
    choose_way();
    GateReport report;
    report.head = o_.head.shown;
    report.base = o_.base ? o_.base->shown : o_.baseline->subject;
    report.notes = notes_;
    for (std::size_t i = 0; i < std::size(kGateWorkloads); ++i) {
      if (wanted(i)) report.workloads.push_back(compare_one(i));
    }
    return report;
  }

  Recorded record() {
    choose_way();
    Recorded out{.subject = o_.head.shown,
                 .commit = kCommit,
                 .profile = o_.measure.profile,
                 .way = way_,
                 .seed = o_.measure.seed,
                 .counted_with = counted_with(o_.measure),
                 .counts = {}};
    for (std::size_t i = 0; i < std::size(kGateWorkloads); ++i) {
      out.counts.push_back(wanted(i) ? std::optional(count_head(kGateWorkloads[i])) : std::nullopt);
    }
    return out;
  }

 private:
  template <class Call>
  auto of_head(const Call& call) {
    try {
      return call();
    } catch (const MeasuredTrouble& trouble) {
      if (!trouble.usable()) throw;
      throw WrongHead(trouble.what());
    }
  }

  [[nodiscard]] bool wanted(std::size_t workload) const {
    return o_.workloads.empty() ||
           std::ranges::find(o_.workloads, kGateWorkloads[workload].name) != o_.workloads.end();
  }

  void choose_way() {
    for (std::size_t i = 0; o_.baseline && i < std::size(kGateWorkloads); ++i) {
      if (!wanted(i) || o_.baseline->counts[i]) continue;
      throw std::invalid_argument("the baseline has no record of the workload " +
                                  std::string(kGateWorkloads[i].name));
    }
    const bool head = of_head([&] { return probe_direct(o_.head, o_.measure); });
    const bool base = o_.base       ? probe_direct(*o_.base, o_.measure)
                      : o_.baseline ? o_.baseline->way == CallStyle::direct
                                    : head;
    way_ = head && base ? CallStyle::direct : CallStyle::operations;
    if (o_.baseline && o_.baseline->way != way_) {
      throw std::invalid_argument("the baseline was recorded through the direct section, which " +
                                  o_.head.shown + " lacks");
    }
    if (way_ == CallStyle::operations) {
      notes_.push_back((!head ? o_.head.shown : o_.base->shown) +
                       " has no direct section: both are measured call by call through the "
                       "general interface, whose own cost is counted too");
    }
    if (!o_.measure.callgrind) {
      notes_.emplace_back("valgrind does not run here: no instructions and misses are counted");
    }
    if (o_.baseline && o_.baseline->counted_with != counted_with(o_.measure)) {
      notes_.push_back("the baseline was counted with " + o_.baseline->counted_with +
                       "; here: " + counted_with(o_.measure));
    }
  }

  void progress(const char* what, const GateWorkload& w) {
    const double steps = o_.pairs > 0 ? 3.0 : 2.0;
    const auto all = static_cast<double>(std::size(kGateWorkloads)) * steps;
    o_.on_progress(std::min(1.0, done_++ / all), std::string(what) + " " + std::string(w.name));
  }

  Counted count_head(const GateWorkload& w) {
    progress("counting the head,", w);
    Counted out = of_head([&] { return count(o_.head, way_, w, o_.measure); });
    if (way_ == CallStyle::operations && o_.checked.subject == o_.head.subject) return out;
    const std::uint64_t checked =
        of_head([&] { return play_answers(o_.checked, CallStyle::operations, w, o_.measure); });
    if (checked != out.checksum) {
      throw WrongHead(o_.head.shown + ", workload " + std::string(w.name) +
                      ": its direct section answers otherwise than what was checked");
    }
    return out;
  }

  WorkloadReport compare_one(std::size_t i) {
    const GateWorkload& w = kGateWorkloads[i];
    const Counted head = count_head(w);
    Counted base;
    if (o_.base) {
      progress("counting the base,", w);
      base = count(*o_.base, way_, w, o_.measure);
    } else {
      base = *o_.baseline->counts[i];
    }
    WorkloadReport out;
    out.workload = w.name;
    out.counts = compare(base.counts, head.counts, o_.rules);
    const bool counted = base.counts[0] && head.counts[0];  // by callgrind
    if (o_.base && o_.pairs > 0) {
      progress("timing both,", w);
      out.time = time_both(w);
      out.verdict = combine(out.counts, counted, out.time->verdict, out.time->ratio());
      if (decided_by_time(out)) confirm(w, out, counted);
    } else {
      out.verdict = combine(out.counts, counted, std::nullopt, 1);
    }
    return out;
  }

  TimeReport time_both(const GateWorkload& w) {
    TimeReport out;
    out.log_ratios =
        of_head([&] { return time_pairs(*o_.base, o_.head, way_, w, o_.measure, o_.pairs); });
    out.verdict = judge_time(out.log_ratios, o_.rules);
    return out;
  }

  [[nodiscard]] static bool decided_by_time(const WorkloadReport& w) {
    const bool moved = std::ranges::any_of(
        w.counts, [](const Comparison& c) { return c.verdict != Verdict::same; });
    return !moved && (w.verdict.verdict == Verdict::worse || w.verdict.verdict == Verdict::better);
  }

  // A difference in time that no count shows has to be measured twice.
  void confirm(const GateWorkload& w, WorkloadReport& out, bool counted) {
    const TimeReport again = time_both(w);
    if (again.verdict != out.time->verdict) out.time->verdict = Verdict::cannot_tell;
    out.time->log_ratios.insert(out.time->log_ratios.end(), again.log_ratios.begin(),
                                again.log_ratios.end());
    out.verdict = combine(out.counts, counted, out.time->verdict, out.time->ratio());
  }

  const GateOptions& o_;
  CallStyle way_ = CallStyle::direct;
  std::vector<std::string> notes_;
  int done_ = 0;
};

}  // namespace

GateReport run_gate(const GateOptions& options) { return Gate(options).compare_all(); }

Recorded record_head(const GateOptions& options) { return Gate(options).record(); }

}  // namespace kvproof::bench
