// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/kill_matrix.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <stdexcept>

#include "properties/audit/shrink.h"
#include "properties/selftest/forked.h"
#include "properties/selftest/mutants.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using Clock = std::chrono::steady_clock;

const Oracles kLawsAlone{true, false, false};
const Oracles kModelAlone{false, true, false};
const Oracles kContentAlone{false, false, true};
constexpr std::size_t kLongestCase = 200;  // [operations]

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A process sends the finding of each oracle as a line of words, as soon as it is known, because a
// mutant that one oracle stops in time may crash under the next.
void write(std::ostream& out, const Kill& kill) {
  out << kill.killed << ' ' << kill.operations << ' ' << kill.seconds << ' '
      << kill.trace_operations << ' ' << kill.breaches.size();
  for (const std::string& breach : kill.breaches) out << ' ' << breach;
  out << '\n';
}

bool read(std::istream& in, Kill& kill) {
  std::size_t breaches = 0;
  in >> kill.killed >> kill.operations >> kill.seconds >> kill.trace_operations >> breaches;
  for (std::size_t i = 0; in && i < breaches; ++i) in >> kill.breaches.emplace_back();
  return static_cast<bool>(in);
}

void hunt_all(const Seeded& mutant, const MatrixOptions& options, int pipe) {
  bool killed = false;
  for (const Oracles& oracles : {kLawsAlone, kModelAlone, kContentAlone}) {
    if (options.laws_only && killed) break;
    alarm(static_cast<unsigned>(options.most_seconds) + 1);
    std::ostringstream line;
    const Kill kill = hunt(mutant, oracles, options);
    write(line, kill);
    killed = killed || kill.killed;
    const std::string bytes = line.str();
    if (::write(pipe, bytes.data(), bytes.size()) < 0) _exit(1);
  }
}

MatrixRow row_of(const Ended& ended) {
  MatrixRow row;
  row.seconds = ended.seconds;
  std::istringstream in(ended.bytes);
  for (Kill* kill : {&row.laws, &row.model, &row.content}) {
    if (!read(in, *kill)) break;
  }
  const bool hung = WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGALRM;
  const bool crashed = ended.status != 0;
  if (row.killed()) {
    row.fate = Fate::noticed;
  } else {
    row.fate = hung ? Fate::hung : crashed ? Fate::crashed : Fate::survived;
  }
  return row;
}

/// Where a bug of the museum was made first.
std::string_view file_of(std::string_view id) {
  const std::vector<Patch>& rows = patched_folder("reference").rows;
  const auto at = std::ranges::find(rows, id, &Patch::id);
  if (at == rows.end()) throw std::invalid_argument(say(id, ": no source patch has that id"));
  return at->file;
}

}  // namespace

Kill hunt(const Seeded& mutant, Oracles oracles, const MatrixOptions& options) {
  if (mutant.hunt) return oracles.laws ? mutant.hunt(options) : Kill{};
  const Configuration* configuration = find_configuration(mutant.configuration);
  if (configuration == nullptr) throw std::invalid_argument(mutant.configuration);
  const bool decodes = mutant.law == "C15";
  const Configuration row = decodes ? *configuration : without_batches(*configuration);
  const Clock::time_point start = Clock::now();
  ChoiceStream stream(options.seed);
  Counts counts;
  Kill out;
  while (counts.operations < options.most_operations &&
         seconds_since(start) < options.most_seconds / 2) {
    const auto failure = run_case(mutant.make, *mutant.profile, row,
                                  draw_case(stream, kLongestCase), oracles, counts);
    if (!failure) continue;
    out.killed = true;
    out.breaches = failure->breaches;
    out.seconds = seconds_since(start);
    out.trace_operations =
        static_cast<std::uint32_t>(shrink(mutant.make, *failure, oracles).trace.size());
    break;
  }
  out.operations = counts.operations;
  if (!out.killed) out.seconds = seconds_since(start);
  return out;
}

std::vector<MatrixRow> run_matrix(
    const std::vector<Seeded>& mutants, const MatrixOptions& options,
    const std::function<void(std::size_t index, const MatrixRow& row)>& done) {
  std::vector<MatrixRow> rows(mutants.size());
  run_forked(
      mutants.size(), options.processes,
      [&](std::size_t index, int pipe) { hunt_all(mutants[index], options, pipe); },
      [&](std::size_t index, const Ended& ended) {
        rows[index] = row_of(ended);
        done(index, rows[index]);
      });
  return rows;
}

std::vector<Seeded> museum_mutants() {
  std::vector<Seeded> out;
  for (const Mutant& row : kMutants) {
    Seeded& mutant = out.emplace_back();
    mutant.id = row.id;
    mutant.family = row.family;
    mutant.where = say("reference/", file_of(row.id));
    mutant.sentence = row.sentence;
    mutant.law = row.law;
    mutant.configuration = row.configuration;
    mutant.make = [&row](const CacheConfig& config) { return make_museum(row.id, config); };
  }
  return out;
}

std::vector<Seeded> all_mutants() {
  std::vector<Seeded> out = museum_mutants();
  for (const Patch& row : all_patches()) {
    Seeded& mutant = out.emplace_back();
    mutant.id = row.id;
    mutant.family = "P";
    mutant.where = "optimized/" + row.file;
    mutant.sentence = row.sentence;
    mutant.law = row.law;
    mutant.configuration = row.configuration;
    mutant.profile = find_profile(row.profile);
    mutant.make = [&row](const CacheConfig& config) { return make_patched(&row, config); };
  }
  return out;
}

}  // namespace kvproof::properties
