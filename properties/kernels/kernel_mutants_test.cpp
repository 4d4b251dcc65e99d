// SPDX-License-Identifier: Apache-2.0
// Every row of kernel_mutants.h must be noticed by the checks of its operation, within a bounded
// number of seeds; with no fault switched on nothing is noticed.
//
// Each mutant is hunted in a process of its own: one that reads or writes where it must not may end
// it, and is noticed by that. Rows that only read too far must not be noticed so: the same source,
// compiled under AddressSanitizer, hunts these and no others.
#include "properties/kernels/kernel_mutants.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>

#include "kernels/kernels.h"
#include "properties/kernels/armed_fault.h"
#include "properties/kernels/attention_checks.h"
#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

constexpr int kSize = 12;
constexpr int kMovementSize = 60;
constexpr unsigned kMostSeconds = 120;

/// How many seeds of each kind a hunt may take.
struct Seeds {
  std::uint64_t attention;
  std::uint64_t movement;
};
constexpr Seeds kAll = kAddressesAreChecked ? Seeds{24, 80} : Seeds{12, 80};  // 9 and 73 are needed
constexpr Seeds kFew{4, 25};  // where it should notice nothing

/// Every check of an attention operation on these of its rows, until one of them objects.
Finding hunt_attention(std::string_view operation, std::string_view prefix, std::uint64_t seeds) {
  std::vector<AttentionRow> rows = attention_rows(prefix);
  std::erase_if(rows, [&](const AttentionRow& row) { return row.operation != operation; });
  AttentionTally tally;
  if (auto wrong = check_attention_refusals(operation)) return wrong;
  if (auto wrong = check_attention_grid(rows, tally)) return wrong;
  if (prefix == "cuda/wgmma") {
    if (auto wrong = check_long_prefills(rows, tally)) return wrong;
    if (auto wrong = check_latent_pieces(rows, tally)) return wrong;
  }
  if (auto wrong = check_attention_tiles(rows, tally)) return wrong;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    if (auto wrong = attention_round(seed, kSize, rows, tally)) return wrong;
  }
  return {};
}

/// The same of an operation that moves data.
Finding hunt_movement(std::string_view operation, std::uint64_t seeds) {
  MovementTally tally;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    if (auto wrong = movement_round(seed, kMovementSize, operation, tally)) return wrong;
  }
  return {};
}

Finding hunt(std::string_view operation, std::string_view rows, Seeds seeds) {
  if (operation.ends_with("decode") || operation.ends_with("prefill")) {
    return hunt_attention(operation, rows, seeds.attention);
  }
  return hunt_movement(operation, seeds.movement);
}

struct Hunted {
  bool noticed = false;
  std::string by;
};

/// The kind of error in the output of AddressSanitizer; otherwise the output.
std::string shortened(const std::string& output) {
  for (const std::string_view mark : {"ERROR: AddressSanitizer: ", "runtime error: "}) {
    const std::size_t at = output.find(mark);
    if (at != std::string::npos) return output.substr(at, output.find('\n', at) - at);
  }
  return output;
}

/// hunt() in a child, with the fault on.
Hunted hunt_apart(std::string_view operation, std::string_view rows, int fault, Seeds seeds) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {false, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (kAddressesAreChecked) dup2(ends[1], STDERR_FILENO);
    alarm(kMostSeconds);
    if (fault != 0) fault_to_arm = patched::PatchId(std::to_string(fault));
    const Finding found = hunt(operation, rows, seeds);
    const std::string text = found.value_or("");
    const bool written = write(ends[1], text.data(), text.size()) >= 0;
    _exit(written && !found ? 0 : 1);
  }
  close(ends[1]);
  Hunted out;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    out.by.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  out.by = shortened(out.by);
  int status = 0;
  waitpid(child, &status, 0);
  out.noticed = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (WIFSIGNALED(status)) out.by = say("ended by signal ", WTERMSIG(status));
  // Time that runs out shows nothing.
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) out = {false, "ran out of time"};
  return out;
}

TEST(KernelMutants, AreAllNoticed) {
  for (const KernelMutant& mutant : kKernelMutants) {
    const bool anywhere = mutant.noticed_by == NoticedBy::both;
    if (kAddressesAreChecked && anywhere) continue;
    const bool expected = kAddressesAreChecked || anywhere;
    const auto start = std::chrono::steady_clock::now();
    const Hunted hunted =
        hunt_apart(mutant.operation(), mutant.rows(), mutant.fault, expected ? kAll : kFew);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-24s %5.1f s  %s\n", std::string(mutant.name).c_str(), seconds,
                expected ? hunted.by.c_str() : "left to AddressSanitizer");
    EXPECT_EQ(hunted.noticed, expected) << mutant.name << ": " << mutant.sentence << "\n"
                                        << hunted.by;
  }
}

TEST(KernelMutants, AreNotNoticedWhenNoneIsOn) {
  kernels::for_each_kernel([](const auto& row) {
    // Under AddressSanitizer sanitized_kernels.cpp plays the sound ones, too.
    const Hunted hunted = hunt_apart(row.name, "cuda/", 0, kAddressesAreChecked ? kFew : kAll);
    EXPECT_FALSE(hunted.noticed) << row.name << ": " << hunted.by;
  });
}

TEST(KernelMutants, HaveNamesAndOperationsOfTheirOwn) {
  std::set<std::string_view> names;
  for (const KernelMutant& mutant : kKernelMutants) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name;
    bool known = false;
    kernels::for_each_kernel([&](const auto& row) {
      EXPECT_TRUE(row.implementations().front().name.starts_with("reference/")) << row.name;
      known = known || row.name == mutant.operation();
    });
    EXPECT_TRUE(known) << mutant.name;
    EXPECT_EQ(mutant.name.substr(0, mutant.name.find(' ')),
              say(mutant.report.empty() ? "M" : "B", mutant.fault));
  }
  for (const KernelNotApplicable& row : kKernelNotApplicable) {
    EXPECT_TRUE(names.insert(row.id).second) << row.id;
  }
}

}  // namespace
}  // namespace kvproof::properties
