// SPDX-License-Identifier: Apache-2.0
// `sanitized_kernels [FAULT]`: the CUDA kernels on small cases, in a program that is sanitized.
//
// 0: the checks of kernels on some seeds, which must hold. Any other number: one launch of the
// general attention kernel with that fault, whose result is not checked. Without FAULT, the list of
// these runs for sanitized_runs: barriers removed one at a time are data races, and an element is
// written past the end of shared memory.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "properties/kernels/armed_fault.h"
#include "properties/kernels/attention_checks.h"
#include "properties/kernels/movement_checks.h"
#include "reference/support/sanitizer.h"

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kSeeds = kUnderThreadSanitizer ? 3 : 8;
constexpr int kSize = 4;
constexpr int kMovementSize = 30;

/// Parameters that no row refuses.
AttentionPlan usual_plan(bool latent) {
  kernels::AttentionShape s;
  s.num_heads = 2;
  s.num_kv_heads = 1;
  s.head_size = latent ? 576 : 64;
  s.value_head_size = latent ? 512 : 64;
  AttentionPlan plan = plain_plan(s, 16, 20);
  if (latent) plan.kind = AttentionKind::latent;
  return plan;
}

Finding check_all() {
  AttentionTally tally;
  const std::vector<AttentionRow> rows = attention_rows("cuda/");
  if (auto wrong = check_attention_refusals()) return wrong;
  for (const bool latent : {false, true}) {
    if (auto wrong = check_attention(usual_plan(latent), rows, tally)) return wrong;
  }
  MovementTally moved;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (auto wrong = attention_round(seed, kSize, rows, tally)) return wrong;
    if (auto wrong = movement_round(seed, kMovementSize, "", moved)) return wrong;
  }
  for (const auto& [name, row] : tally.rows) {
    std::printf("%s: ran %d, refused %d\n", name.c_str(), row.ran, row.refused);
    if (row.ran == 0) return say(name, " never ran");
  }
  return {};
}

/// A launch of three tiles, and of more heads than a block serves at a time.
void launch_once() {
  kernels::AttentionShape s;
  s.num_heads = 9;
  s.num_kv_heads = 1;
  s.head_size = s.value_head_size = 32;
  const AttentionProblem problem(plain_plan(s, 16, 70));
  const ArmedFault armed;
  static_cast<void>(kernels::attention_cuda_general(problem.paged(false), {}));
}

}  // namespace
}  // namespace kvproof::properties

int main(int argc, char** argv) {
  using namespace kvproof::properties;
  if (argc == 1) {
    std::printf("0\t\n");
    if (!kvproof::kUnderThreadSanitizer) {
      std::printf("6\theap-buffer-overflow\tpatch_is_on(\"6\")\n");
      return 0;
    }
    for (int fault = 1; fault < 6; ++fault) std::printf("%d\tThreadSanitizer: data race\n", fault);
    return 0;
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: sanitized_kernels [FAULT]\n");
    return 2;
  }
  if (std::atoi(argv[1]) != 0) {
    fault_to_arm = kvproof::patched::PatchId(std::string_view(argv[1]));
    launch_once();
    return 0;
  }
  const kvproof::Finding wrong = check_all();
  if (wrong) std::printf("%s\n", wrong->c_str());
  return wrong ? 1 : 0;
}
