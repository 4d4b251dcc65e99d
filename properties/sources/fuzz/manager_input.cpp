// SPDX-License-Identifier: Apache-2.0
// Decodes bytes into cases of the random state machine, and failing ones into traces.
#include "properties/sources/fuzz/manager_input.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "optimized/subjects.h"
#include "properties/audit/shrink.h"
#include "properties/sources/fuzz/fuzz_target.h"
#include "properties/sources/random/cases.h"
#include "properties/story/beside.h"
#include "reference/mix64.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

constexpr std::size_t kSetupBytes = 5;
constexpr unsigned kMostTraceSeconds = 300;

bool in_scope(const Configuration& row, FuzzScope scope) {
  const bool one_full_group = row.groups.size() == 1 && row.has(LayerKind::full);
  return one_full_group == (scope == FuzzScope::one_full_group);
}

const Configuration& configuration_of(FuzzScope scope, std::uint32_t number) {
  const auto in = [&](const Configuration& row) { return in_scope(row, scope); };
  auto skip = number % std::ranges::count_if(kConfigurations, in);
  return *std::ranges::find_if(kConfigurations,
                               [&](const auto& x) { return in(x) && skip-- == 0; });
}

/// The given low bits, with bits derived from them above. Zero stays zero, the simplest case.
Choice widen(std::uint64_t low, unsigned bits) { return low == 0 ? 0 : low | mix64(low) << bits; }

/// Writes each operation down before the subject performs it, in case it does not return.
class Recorded final : public Subject {
 public:
  Recorded(std::unique_ptr<Subject> inner, const std::filesystem::path& file)
      : inner_(std::move(inner)), out_(file, std::ios::binary | std::ios::trunc) {}
  Outcome apply(const Operation& operation) override {
    out_ << to_json(operation) << std::endl;
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

 private:
  std::unique_ptr<Subject> inner_;
  std::ofstream out_;
};

std::vector<Operation> read_operations(const std::filesystem::path& file) {
  std::vector<Operation> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) out.push_back(parse_trace_line(line).operation);
  return out;
}

enum ChildEnd : int { kHolds = 0, kWritten = 10 };

/// Runs the input and writes the trace if an oracle objects. @return the child's exit status
int run_in_child(const ManagerInput& input, const FuzzedSubject& subject,
                 const std::filesystem::path& folder, const std::filesystem::path& recording) {
  // A second subject, which performs the calls of batches, is not written down.
  const auto make = [&, first = true](const CacheConfig& config) mutable {
    auto inner = subject.make(config);
    return std::exchange(first, false)
               ? std::unique_ptr<Subject>(std::make_unique<Recorded>(std::move(inner), recording))
               : std::move(inner);
  };
  const FuzzedSubject recorded{subject.name, make};
  Counts counts;
  const auto failure = run_manager_input(input, recorded, counts);
  if (!failure) return kHolds;
  Failure small = shrink(subject.make, *failure, {});
  small.subject = subject.name;
  const auto file = write_failure(small, input.digest, folder);
  const std::string lens = write_lens_beside(file, small, show_all(subject.make));
  std::fputs((describe_failure(small, input.digest, file) + lens).c_str(), stdout);
  std::fflush(stdout);
  return kWritten;
}

}  // namespace

ManagerInput decode_manager_input(std::span<const std::uint8_t> bytes, FuzzScope scope) {
  const auto byte = [&](std::size_t i) -> std::uint32_t { return i < bytes.size() ? bytes[i] : 0; };
  ManagerInput out;
  constexpr auto kNumProfiles = static_cast<std::uint32_t>(std::size(kProfiles));
  out.profile = &kProfiles[byte(0) % kNumProfiles];
  out.configuration = &configuration_of(scope, byte(0) / kNumProfiles);
  out.run.setup = widen(byte(1) | byte(2) << 8 | byte(3) << 16 | byte(4) << 24, 32);
  const std::size_t most = kSetupBytes + 2 * kMostFuzzedOperations;
  for (std::size_t i = kSetupBytes; i < std::min(bytes.size(), most); i += 2) {
    out.run.choices.push_back(widen(byte(i) | byte(i + 1) << 8, 16));
  }
  for (const std::uint8_t b : bytes) out.digest = mix64(out.digest ^ b);
  out.digest >>= 32;
  return out;
}

std::optional<Failure> run_manager_input(const ManagerInput& input, const FuzzedSubject& subject,
                                         Counts& counts) {
  return run_case(subject.make, *input.profile, *input.configuration, input.run, {}, counts);
}

std::optional<std::filesystem::path> write_fuzz_trace(const ManagerInput& input,
                                                      const FuzzedSubject& subject,
                                                      const std::filesystem::path& folder) {
  const auto recording = folder / say("fuzz-recording-", input.digest);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process could be started");
  if (child == 0) {
    alarm(kMostTraceSeconds);
    _exit(run_in_child(input, subject, folder, recording));
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::optional<std::filesystem::path> file;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kWritten) {
    file = folder / say("kvproof-failure-", input.digest, ".jsonl");
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != kHolds) {
    const CacheConfig config = draw_config(*input.profile, *input.configuration, input.run.setup);
    Failure died{{}, config, read_operations(recording), subject.name};
    died.add("died", "", "the process died or hung in the last operation");
    file = write_failure(died, input.digest, folder);
    const std::string lens = write_lens_beside(*file, died, show_all(subject.make));
    std::fputs((describe_failure(died, input.digest, *file) + lens).c_str(), stdout);
  }
  std::filesystem::remove(recording);
  return file;
}

FuzzedSubject fuzzed_optimized() {
  constexpr std::uint32_t kRequests = 64;
  const optimized::SubjectRow& row = optimized::subject_of(optimized::Role::standard);
  return {std::string(row.name),
          [make = row.make_small](const CacheConfig& config) { return make(config, kRequests); }};
}

void fuzz_manager(std::span<const std::uint8_t> bytes, FuzzScope scope,
                  const FuzzedSubject& subject) {
  const ManagerInput input = decode_manager_input(bytes, scope);
  static const char* const kTraceTo = std::getenv("KVPROOF_TRACE_TO");
  if (kTraceTo != nullptr) {
    const auto file = write_fuzz_trace(input, subject, kTraceTo);
    if (file) std::printf("trace: %s\n", file->c_str());
    return;
  }
  Counts counts;
  const auto failure = run_manager_input(input, subject, counts);
  fuzz_meter.add_input(counts.operations);
  if (failure) fuzz_failed(failure->text);
}

}  // namespace kvproof::properties
