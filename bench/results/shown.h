// SPDX-License-Identifier: Apache-2.0
// How a terminal shows the rows of each experiment, and what names a row in a CI system.
//
// A text: {column} stands for what a row has there, {column word} for a number and its word with an
// s, and {column*} for the different values of all rows whose texts are equal but for that column.
// A part in [ ] is left out if one of its columns is empty: a text that is absent or has no
// characters, or a metric that is absent or 0. {?column} and {!column} print nothing; in a part with
// them only these decide: the first asks for a column that is not empty, the second for one that is.
// {{ is a {. {VERDICT} is the verdict in capitals. Further lines of a value begin below its first.
#pragma once

#include <string_view>

namespace kvproof::bench {

/// Of an experiment that has no columns and no text here, all columns are shown.
struct Shown {
  std::string_view experiment;
  std::string_view names = {};     // columns whose values name a row in a file for CI
  std::string_view verdicts = {};  // only rows with one of these; empty = all
  std::string_view columns = {};   // of a table, but for those that are empty in all rows
  std::string_view heading = {};   // of a table, a text
  std::string_view text = {};      // instead of a table, one for each row
};

inline constexpr Shown kShown[] = {
    {.experiment = "known",
     .names = "known law",
     .text = "known, and did not occur: {law}: {known}[ {what}][ {page}]"},
    // kvproof check
    {.experiment = "check_finding",
     .names = "law shape",
     .text = "[{!known}{!behind}Finding in {where}, after {found_after operation}, shrunk to "
             "{trace_operations}, seen {seen time}:\nseed {seed}, broken: {law}\n{reason}"
             "[\nrun it again: {repeat}][\nif intended: \"traits\":{{{intended}}]]"
             "[{!known}{?behind}In {where}, seen {seen time}, {law} may follow: with all laws its "
             "trace "
             "breaks others before.\n{reason}[\nrun it again: {repeat}]]"
             "[{?known}known: {law}, seen {seen time}: {known}[ {link}]]"},
    {.experiment = "check_run",
     .names = "configuration profile",
     .verdicts = "skipped",
     .text = "not run, because {reason}: {configuration*}"},
    {.experiment = "check_run",
     .verdicts = "cannot_tell",
     .text = "vacuous: {configuration} as {profile}: {reason}"},
    {.experiment = "check_note", .text = "{note}"},
    {.experiment = "check_law",
     .names = "law name",
     .verdicts = "broken known cannot_tell holds not_evaluated",
     .columns = "law name evaluated suspended exempted verdict reason",
     .heading = "laws of {subject}"},
    {.experiment = "check_law",
     .verdicts = "not_applicable",
     .text = "not demanded, for {reason}: {law*}"},
    {.experiment = "check_oracle",
     .names = "oracle",
     .text = "{oracle} {verdict}[ ({reason})]"
             "[; {positions_read position} were read back from its tensors]"},
    {.experiment = "check",
     .names = "subject beside",
     .text =
         "\nsubject {subject}: promises {promises}; shows {shows}\n{seconds} s, {runs run}\n"
         "{operations} operations, {grants} grants, {hits} hits[, {evictions} evictions], "
         "{refusals} refusals[, {revivals} revivals], {preemptions} preemptions"
         "[, {rejections} rejections][, {recycled} recycled][, {forks} forks][, {copies} copies]"
         "[, {truncations} truncations][, {leases} leases][, {swaps} swaps]"
         "[, {failed_swaps} failed swaps][, {skipped} skipped][\nnot shown: {not_shown}]"
         "[\n{?operations_per_pair_most}{pairs_of_features} of {pairs_possible} pairs of features; "
         "operations of each: {operations_per_pair_least} at least, {operations_per_pair_median} "
         "in the median, {operations_per_pair_most} at most][\nabsent: {pairs_absent}]"},
    {.experiment = "check",
     .text = "{VERDICT}: [{reason}, ][{findings_new finding}, ][{findings_known known finding}, ]"
             "[{findings_behind} more that may follow from them, ]{laws_evaluated} of {laws} laws "
             "evaluated, {configurations} of {configurations_known} configurations, "
             "{operations operation}: {subject}[ beside {beside}]"
             "[; not exercised: {not_exercised}]\n"},
    {.experiment = "check_deep",
     .names = "what",
     .text = "{seeds seed} held, {operations} operations, {seconds} s"
             "[\n{?operations_per_pair_most}{pairs_of_features} of {pairs_possible} pairs of "
             "features; operations of each: {operations_per_pair_least} at least, "
             "{operations_per_pair_median} in the median, {operations_per_pair_most} at most]"
             "[\nabsent: {pairs_absent}]\n{VERDICT}[: {reason}]; the next seed is {next_seed}"},
    {.experiment = "exhaustive",
     .names = "space",
     .columns = "space verdict states edges depth seconds bytes_per_state disk_bytes_per_state "
                "hits evictions refusals revivals recycled states_of_model"},
    {.experiment = "exhaustive", .text = "{space}: {reason}"},
    {.experiment = "exhaustive_total",
     .text =
         "[{?closed}all spaces were visited whole: ]{states} states, {edges} edges, {seconds} s"},
    {.experiment = "exhaustive_finding",
     .names = "space law",
     .text = "{space} breaks {law}: {reason}[\nrun it again: {repeat}]"},
    // kvproof selftest
    {.experiment = "mutant",
     .names = "id",
     .text = "[{id} ({where}, {configuration}): {fate}, expected {expected_law}, broken first "
             "{laws}: {reason}]"},
    {.experiment = "mutant_family",
     .columns = "family name total killed by_expected_law median_trace_operations "
                "longest_trace_operations",
     .heading = "families of seeded bugs"},
    {.experiment = "mutants",
     .text = "{VERDICT}: {killed} of {total} killed, {by_expected_law} by the expected law, "
             "{seconds} s; traces of {median_trace_operations} operations in the median, of "
             "{longest_trace_operations} at most[; {not_applicable} reports need a mechanism that "
             "is not here (properties/selftest/mutants.h)]"},
    {.experiment = "liar",
     .names = "operation lie level",
     .verdicts = "broken",
     .text = "{operation}, {lie}, {level}: {reason}"},
    {.experiment = "liar",
     .verdicts = "known",
     .text = "excused: {operation}, {lie}, {level}: {reason}"},
    {.experiment = "liar_note", .text = "{note}"},
    {.experiment = "liar_level",
     .columns = "level cells noticed excused missed",
     .heading = "cells of each level of promise"},
    {.experiment = "liars",
     .text = "{VERDICT}: {noticed} of {cells} cells noticed, {excused} excused, {missed} missed, "
             "{seconds} s"},
    // kvproof gate
    {.experiment = "gate_measure", .names = "workload measure"},
    {.experiment = "gate_time", .names = "workload"},
    {.experiment = "gate_note", .text = "note: {note}"},
    {.experiment = "gate", .names = "workload", .columns = "workload verdict reason"},
    {.experiment = "gate_total", .text = "{VERDICT}: {head} against {base}: {reason}"},
    // kvproof explain
    {.experiment = "explain_lookup",
     .text = "[{trace}: ][operation {operation}, {request}][line {line}, {request}]"
             "[{!operation}{!line}request {request}]: hit {hit_tokens} of {prompt_tokens} tokens; "
             "{words}[: {why}]"},
    {.experiment = "explain_note", .text = "{note}"},
    {.experiment = "explain_met",
     .columns = "met lookups tokens share_percent",
     .heading = "what the tokens met"},
    {.experiment = "explain",
     .names = "source",
     .text = "[{reason}\n]{source}: {verdict}, {hit_tokens} of {prompt_tokens} tokens were hit in "
             "{lookups lookup}"},
    // kvproof live
    {.experiment = "live_law",
     .names = "file engine law name",
     .columns = "law name evaluated verdict findings faults known new",
     .heading = "[{file}]"},
    {.experiment = "live_finding",
     .names = "file engine version case law name event",
     .text = "{law} {name}[, line {event}][, step {step}][, request {req}][, position {position}]"
             "[, block {block} of tier {tier}][, in {case}][, in {runs run}]: {reason}[ ({wrote})]"
             "\n  law: {sentence}[\n  the block before: {before}][\n  known: {known} {page}]"
             "[\n  repeat: {repeat}]"},
    {.experiment = "live_unjudged",
     .names = "engine case seed copy",
     .text = "{case}, seed {seed}: not judged: {reason}\n  repeat: {repeat}"},
    {.experiment = "campaign",
     .text = "{kind}: {complete} of {tasks task}[, {findings finding}][, {operations operation}]"
             "[, {states state}][, {requests request}][, {core_hours} core-hours]"},
    {.experiment = "campaign_finding",
     .names = "law shape",
     .text = "{law}, in {tasks task}: {reason}\n  {shape}\n  run it again: {repeat}"
             "[\n  look at it: {lens}]"},
    {.experiment = "campaign_task",
     .names = "kind options task",
     .verdicts = "skipped cannot_tell",
     .text = "{kind}, {reason}: {task*}"},
    {.experiment = "live_run",
     .names = "file engine",
     .text = "[{file}: ][{engine}: ]{verdict}[, {reason}] ({steps step}[ in {runs run}], {requests "
             "request}[, {events line}][, {findings_new new finding}][, {findings_known known "
             "finding}][{?seeded}, {detected} of {seeded seeded fault} detected])"},
    // kvproof engines
    {.experiment = "engine_law",
     .names = "engine revision law name",
     .verdicts = "broken known",
     .text = "{engine} {revision}: {law} {name}: {verdict}[, {reason}]"},
    {.experiment = "engine_fault",
     .text = "[{!detected}not detected: {engine} {revision}: {fault}[: {reason}]]"},
    {.experiment = "engine_known",
     .names = "engine revision defect",
     .text = "{engine} {revision}: {defect}, {what}: {verdict}[ ({link})][; {reason}]"},
    {.experiment = "engine_history",
     .names = "engine revision defect",
     .verdicts = "broken known",
     .columns = "defect revision verdict met operations what"},
    {.experiment = "engine_history",
     .verdicts = "broken",
     .text = "not as expected: {defect} in {revision}[; {reason}]"},
    {.experiment = "engines",
     .names = "engine revision",
     .columns = "engine revision verdict laws_evaluated configurations operations findings_new "
                "findings_known exempted seeded detected seconds reason"},
    // kvproof live --scheduler, live --engine
    {.experiment = "live_fault", .text = "[{!detected}not detected: {fault}[: {reason}]]"},
    {.experiment = "live_engine",
     .names = "engine version model mode load",
     .columns = "engine version model mode load verdict steps requests laws_evaluated "
                "findings_new findings_known dropped reason"},
    {.experiment = "live_history",
     .names = "engine version model mode load law",
     .columns = "version what evaluated verdict findings reason"},
    // kvproof events
    {.experiment = "events_law",
     .names = "engine revision law name",
     .columns = "engine revision law verdict found evaluated name"},
    {.experiment = "events_finding",
     .names = "engine revision law where",
     .text = "{where}: {law}: {verdict}[, {reason}]"},
    {.experiment = "events",
     .names = "engine revision",
     .text = "[{engine} {revision}: ]{verdict}[, {reason}] ({events event}[, {gaps event} that "
             "leave out blocks][, {copies} that take one of several of a "
             "hash][, {cut lookup} cut by the router's rules]; mirror: "
             "[{mirror}][{!mirror}none])"},
    // kvproof bench --peers
    {.experiment = "peers_kernels", .columns = "case peer ours_over_peer binds not_comparable"},
    {.experiment = "peers_allocators", .columns = "case peer ours_over_peer binds not_comparable"},
};

}  // namespace kvproof::bench
