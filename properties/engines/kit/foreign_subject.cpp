// SPDX-License-Identifier: Apache-2.0
#include "properties/engines/kit/foreign_subject.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "properties/engines/kit/engine_book.h"
#include "properties/engines/kit/foreign_state.h"
#include "reference/operations.h"
#include "reference/recordings/newer_policies.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSoonestSeconds = 0.1;      // in a hurry, an answer gets at least this time
constexpr double kPatience = 20;             // and at least so many times the longest answer so far
constexpr std::size_t kMostTracebacks = 20;  // that are shown of a program
constexpr std::size_t kShownBytes = 160;     // a message shows so much of an operation or an answer

bool wants_answer(const Operation& operation) {
  return only_asks(operation) || std::holds_alternative<op::Allocate>(operation) ||
         std::holds_alternative<op::Take>(operation) ||
         std::holds_alternative<op::SwapOut>(operation) ||
         std::holds_alternative<op::SwapIn>(operation) ||
         std::holds_alternative<op::Reset>(operation) ||
         std::holds_alternative<op::Decode>(operation);
}

class ForeignSubject final : public Subject {
 public:
  ForeignSubject(ForeignProgram& program, std::shared_ptr<ForeignProgram::Child> child,
                 const CacheConfig& config, const Promises& promises,
                 std::optional<Violation> trouble = {})
      : program_(program),
        child_(std::move(child)),
        promises_(promises),
        book_(config, promises.traits),
        state_(config),
        trouble_(std::move(trouble)) {
    if (child_->engine) {
      engine_.emplace(config, promises_, book_,
                      [this](const std::string& line) { return ask(line); });
    }
  }

  /// Has the engine made. @throws Violation
  void build() {
    reading([&] {
      const auto state = engine_->build();
      if (!state) throw TextError("state", "the state of a new engine, found none");
      state_.read(*state, promises_, book_);
    });
  }

  /// Finds out which parts the subject shows. A failure is reported at the first operation.
  Parts probe() {
    if (!engine_) probe_by_a_request();
    const Parts ids = promises_.block_ids ? Parts{kIds} : Parts{0};
    const Parts events = promises_.events || lists_events_ ? Parts{kEvents} : Parts{0};
    const Parts without_ids = kUsage | kEvents | kHost | kContents;
    const Parts shown = state_.shown() & ~Parts{kIds | kEvents};
    return (promises_.block_ids ? shown : shown & without_ids) | ids | events;
  }

  Outcome apply(const Operation& operation) override {
    if (trouble_) throw Violation(*trouble_);
    if (auto answer = answer_unasked(operation, promises_, book_, state_.snapshot()))
      return *std::move(answer);
    try {
      return perform(operation);
    } catch (const Violation& violation) {
      trouble_ = violation;
      throw;
    }
  }

  void observe(Snapshot& snapshot) const override { snapshot = state_.snapshot(); }

 private:
  void probe_by_a_request() {
    try {
      static_cast<void>(perform(op::Arrive{.req = "kvproof-probe", .tokens = {}, .extra = {}}));
      static_cast<void>(perform(op::Finish{"kvproof-probe"}));
    } catch (const Violation& violation) {
      trouble_ = violation;
    }
  }

  std::string_view ask(const std::string& line) {
    asked_ = line;
    answer_ = program_.ask(*child_, line, program_.limits().answer_seconds);
    return answer_;
  }

  /// Reads answers. @throws Violation for what cannot be read
  template <class Read>
  auto reading(const Read& read) -> decltype(read()) {
    try {
      return read();
    } catch (const TextError& error) {
      child_->process.reset();
      throw Violation("nonsense", say("to ", printable(asked_, kShownBytes), " it answered ",
                                      printable(answer_, kShownBytes), ": ", error.what()));
    }
  }

  Outcome perform(const Operation& operation) {
    return reading([&]() -> Outcome {
      TraceLine read =
          engine_ ? engine_->perform(operation) : parse_answer(operation, ask(to_json(operation)));
      if (!read.unsupported.empty()) return {Declined{read.unsupported}, {}};
      if (!read.state) throw TextError("state", "the state after the operation, found none");
      if (!read.result && wants_answer(operation)) {
        throw TextError("out", "the answer to the operation, found none");
      }
      lists_events_ = lists_events_ || read.lists_events;
      Outcome outcome{read.result ? std::move(*read.result) : Result(),
                      read.events ? std::move(*read.events) : std::vector<Event>()};
      if (std::holds_alternative<Rejected>(outcome.result)) program_.show_traceback(*child_);
      state_.check(outcome);
      book_.fold(operation, outcome.result);
      state_.read(*read.state, promises_, book_);
      program_.record(*child_, operation, outcome, state_.snapshot());
      return outcome;
    });
  }

  ForeignProgram& program_;
  std::shared_ptr<ForeignProgram::Child> child_;
  Promises promises_;
  CallerBook book_;
  ForeignState state_;
  std::optional<EngineBook> engine_;  // of an adapter of that level
  std::string asked_, answer_;        // the last line
  bool lists_events_ = false;
  std::optional<Violation> trouble_;
};

/// What a subject says of itself, with its name unless that says it.
std::string named(const std::string& name, const std::string& text) {
  const std::string plain = printable(text, 300);
  return plain.starts_with(name) ? plain : say(name, ": ", plain);
}

std::string header_line(const CacheConfig& config) {
  TraceHeader header;
  header.recorded_from = "kvproof";
  header.family = "check";
  header.newer_policies = newer_policies_of(config.profile);
  header.config = config;
  return to_json(header);
}

}  // namespace

ForeignProgram::ForeignProgram(std::string name, std::vector<std::string> argv, AnswerLimits limits)
    : name_(std::move(name)), argv_(std::move(argv)), limits_(limits) {}

ChildCommand ForeignProgram::command() const {
  return {.argv = argv_, .memory_bytes = static_cast<std::uint64_t>(limits_.memory_gib * 0x1p30)};
}

std::shared_ptr<ForeignProgram::Child> ForeignProgram::idle_child() {
  for (const auto& child : children_) {
    if (child.use_count() == 1) return child;
  }
  return children_.emplace_back(std::make_shared<Child>());
}

std::string_view ForeignProgram::ask(Child& child, const std::string& line, double limit_seconds) {
  try {
    const auto start = Clock::now();
    const bool started = child.process != nullptr;
    if (!started) child.process = std::make_unique<ChildProcess>(command());
    const double soon = std::max(kSoonestSeconds, kPatience * longest_answer_seconds_);
    const double limit = started && hurries_ ? std::min(limit_seconds, soon) : limit_seconds;
    const std::string_view answer = child.process->ask(line, limit, limits_.answer_bytes);
    const std::chrono::duration<double> taken = Clock::now() - start;
    if (started) longest_answer_seconds_ = std::max(longest_answer_seconds_, taken.count());
    return answer;
  } catch (const ChildTrouble& trouble) {
    child.process.reset();
    throw Violation(trouble.kind(),
                    say("asked ", printable(line, kShownBytes), ": ", trouble.what()));
  }
}

void ForeignProgram::record(Child& child, const CacheConfig& config) {
  const char* folder = std::getenv("KVPROOF_RECORDINGS");
  if (folder == nullptr) return;
  if (!child.recording.is_open()) {
    child.recording.open(say(folder, '/', getpid(), '-', ++recordings_, ".jsonl"));
  }
  child.recording << header_line(config) << '\n';
}

void ForeignProgram::record(Child& child, const Operation& operation, const Outcome& outcome,
                            const Snapshot& state) const {
  if (!child.recording.is_open()) return;
  std::string line = to_json(operation);
  line.back() = ',';
  child.recording << line << to_json(outcome, state).substr(1) << '\n' << std::flush;
}

void ForeignProgram::show_traceback(const Child& child) {
  const std::string& said = child.process->said_lately();
  const std::size_t begin = said.find("Traceback (most recent call last):");
  if (begin == std::string::npos || shown_.size() == kMostTracebacks) return;
  const std::string text = said.substr(begin);
  const std::size_t last_line = text.rfind('\n', text.find_last_not_of('\n'));
  if (shown_.insert(text.substr(0, last_line)).second) std::cerr << '\n' << text << std::flush;
}

Promises ForeignProgram::greet(Child& child, const CacheConfig& config) {
  const double limit = child.process ? limits_.answer_seconds : limits_.start_seconds;
  const std::string_view answer = ask(child, header_line(config), limit);
  const std::string said(answer);
  try {
    Promises out = parse_promises(said);
    child.engine = is_of_level_engine(said);
    out.valid_calls_only = true;
    if (supposed_) out.traits = *supposed_;
    if (out.error.empty()) return out;
    if (!has_promised_) throw UnusableSubject(named(name_, out.error));
    throw TextError("promises", "the same as before, found an error");
  } catch (const TextError& error) {
    child.process.reset();
    throw Violation("nonsense", say("to a header it answered ", printable(said, kShownBytes), ": ",
                                    error.what()));
  }
}

ForeignProgram::Opening ForeignProgram::open(const CacheConfig& config) {
  const std::shared_ptr<Child> child = idle_child();
  try {
    Opening out;
    out.promises = greet(*child, config);
    if (child->engine && out.promises.unsupported.empty()) {
      out.promises.unsupported = EngineBook::why_not(config, out.promises);
    }
    has_promised_ = has_promised_ || !child->engine;
    if (!out.promises.unsupported.empty()) return out;
    record(*child, config);
    auto subject = std::make_unique<ForeignSubject>(*this, child, config, out.promises);
    if (child->engine) subject->build();
    has_promised_ = true;
    out.shown = subject->probe();
    out.subject = std::move(subject);
    return out;
  } catch (const Violation& violation) {
    if (!has_promised_) throw UnusableSubject(say(name_, ": ", violation.what()));
    Opening out;  // a manager that fails at once
    out.subject = std::make_unique<ForeignSubject>(*this, child, config, out.promises, violation);
    return out;
  }
}

std::vector<std::string> command_argv(const std::string& command) {
  return {"/bin/sh", "-c", command};
}

std::vector<std::string> plugin_argv(const std::string& path) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return {(self.parent_path() / "kvproof-check").string(), "--serve=" + path};
}

}  // namespace kvproof::properties
