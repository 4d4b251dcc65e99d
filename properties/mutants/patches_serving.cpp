// SPDX-License-Identifier: Apache-2.0
// The list of source patches to the simulated engine: faults of schedulers, each of which breaks a
// law of a run (properties/live/run_laws.h) first. bench/serving/scheduler_mutants.cpp runs them.
#include "properties/mutants/patch.h"

namespace kvproof::properties {
namespace {

constexpr const char* kEngine = "engine.cpp";
constexpr const char* kBalance = "`` const auto require = [](bool holds";  // its own checks
constexpr const char* kNoWork =
    "`throw std::logic_error(\"a step of the simulated engine without any work\");`";

// clang-format off
constexpr Patch kServingPatches[] = {
    {"E01", kEngine, "`` release(*victim);", "patched::remember_aborted(*victim);",
     "What was aborted with a step in flight is freed again when that step is over.", "S11"},
    {"E01", kEngine, "`` run_.begin_retire();", "patched::free_again(running_, memory_);"},
    {"E01", kEngine, kBalance, "return;"},

    {"E02", kEngine, "`` Live& victim = running_.back(); run_.leave(",
     "std::swap(running_.front(), running_.back());",
     "A request is preempted that has its row in this very step.", "S11"},
    {"E02", kEngine, kBalance, "return;"},

    {"E03", kEngine, "grow(request.handle, `ask.tokens + ask.drafts + drafts`,", "ask.tokens",
     "Drafts have no room of their own.", "S11"},
    {"E03", kEngine, "ask.tokens + ask.drafts + drafts, `ask.lookahead`,", "0"},

    {"E04", kEngine, "return {`1`, std::min({options_.drafts", "request.expected > 0 ? 2U : 1U",
     "The placeholder of a token that a step in flight brings is computed as a token.", "S1"},
    {"E04", kEngine, "left = `request.known + request.expected - request.computed`;",
     "patched::at_least_one(request.known + request.expected, request.computed)"},
    {"E04", kEngine, kBalance, "return;"},

    {"E05", kEngine, "request.computed -= grant.drafts - accepted;", "",
     "Rejected drafts stay computed.", "S1"},
    {"E05", kEngine, "left = `request.known + request.expected - request.computed`;",
     "patched::at_least_one(request.known + request.expected, request.computed)"},
    {"E05", kEngine, kBalance, "return;"},

    {"E06", kEngine, "`run_.hit(request.index, hit); request.lost = 0; request.computed = hit;`",
     "run_.hit(request.index, hit);"
     " request.computed = std::max(hit, std::min(request.lost, request.known - 1));"
     " request.lost = 0;",
     "A preempted request keeps its computed tokens, and not its blocks.", "S1"},
    {"E06", kEngine, "schedule(request, `tokens`, 0);",
     "std::min(tokens, request.known - request.computed)"},

    {"E07", kEngine, "`` release(*victim);", "patched::remember_aborted(*victim);",
     "An aborted request still gets the answer of its step in flight.", "S14"},
    {"E07", kEngine, "`` std::erase_if(running_, ended(false));",
     "for (const patched::Aborted& each : std::exchange(patched::memory().aborted, {}))"
     " run_.take(each.index, std::vector{answer_token(each.index, each.known)});"},

    {"E08", kEngine, "`` run_.sample(request.index, accepted);",
     "if (preempted) { const std::vector<TokenId> once = tokens_;"
     " tokens_.insert(tokens_.end(), once.begin(), once.end()); request.known += accepted + 1; }",
     "A preempted request gets the answer of its step in flight twice.", "S14"},

    {"E09", kEngine, "`` const bool is_as_then", "if (refused_at_) return;",
     "A refused admission is never tried again.", "L2"},
    {"E09", kEngine, kNoWork, ""},

    {"E10", kEngine, "release(*victim);", "arrivals_.finish(victim->index, now_);",
     "The blocks of an aborted request are never given back.", "L3"},
    {"E10", kEngine, kBalance, "return;"},
    {"E10", kEngine, kNoWork, ""},
    {"E10", kEngine, "`` const ServingTotals& totals = recorder_.totals;", "return;"},

    {"E11", kEngine, "`run_.hit(request.index, hit); request.lost = 0; request.computed = hit;`",
     "request.computed = std::min(hit + 4, request.known - 1);"
     " run_.hit(request.index, request.computed); request.lost = 0;",
     "A hit counts more tokens than the cache holds.", "S8"},
    {"E11", kEngine, "schedule(request, `tokens`, 0);",
     "std::min(tokens, request.known - request.computed)"},
};
// clang-format on

}  // namespace

PatchedFolder patched_folder_of_serving() {
  return {.name = "bench/serving",
          .copy = "faulty_serving",
          .rows = kServingPatches,
          .needs = "properties/mutants/scheduler_faults.h",
          .space = "bench"};
}

}  // namespace kvproof::properties
