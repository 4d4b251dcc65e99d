# SPDX-License-Identifier: Apache-2.0
"""A row of a list is the only edit: adds one of each to a scratch copy, builds it, sees it run.

    rows_test.py <folder for the copy and its build> <C++ compiler>

Exit code 77 with a reason where git or ninja is not there.
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"

# file: (the line before the new row, the new row)
ROWS = {
    "optimized/subjects.h": ("inline constexpr std::tuple kSubjectRows{", """
    own_class<reference::CacheManager>("added_class", "added by a test"),
    manager<Xxh3Digest>("added_manager", "added by a test", "added", "Xxh3Digest"),""",
                             '#include "optimized/manager_subject.h"\n',
                             '#include "reference/cache_manager.h"\n'),
    "properties/laws.h": ("inline constexpr Law kLaws[] = {", """
    {"Z1", "added law", "A test adds this law.", Cost::constant, Promise::safety, "a test", "",
     KVPROOF_LAW(added_law), {.always = kUsage}},"""),
    "properties/laws/laws_pool.cpp": ("namespace law {", """
Finding added_law(const Step& step) {
  return step.after.usage < 2 ? std::nullopt : Finding("a pool that is used twice");
}
extern const Scenes added_law_scenes = {
    {"used twice", play::share, [](Scene& s) { s.after.usage = 2; }},
};
"""),
    "properties/mutants.h": ("inline constexpr Mutant kMutants[] = {", """
    {"B999", "A1", "a test", "C2", "full", "A fork counts each entry twice."},"""),
    "properties/mutants/patches_reference.cpp": ("constexpr Patch kReferencePatches[] = {", """
    {"B999", kSharing, "`` table.hit.clear(); pool_.touch(table.blocks);",
     "pool_.touch(table.blocks);"},"""),
    "properties/mutants/patches.cpp": ("constexpr Patch kPatches[] = {", """
    {"P999", "pool/free_queue.h", "return size_;", "return size_ + 1;", "One more is free.", "I1",
     "full"},
"""),
    "properties/configurations.h": ("inline constexpr Configuration kConfigurations[] = {", """
    {.name = "added_configuration", .sentence = "added by a test", .groups = {shape::kFull}},"""),
    "properties/exhaustive/spaces.h": ("inline constexpr Space kSpaces[] = {", """
    {.name = "added_space", .sentence = "added by a test", .usable_blocks = 3, .requests = 1,
     .shortest_prompt = 1, .longest_prompt = 2, .max_tokens = 3, .extras = kNone,
     .groups = {kFull}},"""),
    "kernels/kernels.h": ("inline constexpr std::tuple kKernels{", """
    KernelRow{"added_kernel", "added by a test", &slot_mapping},"""),
    "bench/gate/gate_workloads.h": ("inline constexpr GateWorkload kGateWorkloads[] = {", """
    {"added_workload", "added by a test", 512, 4, 64, 0, 1, 4, 2048, 8, 4},"""),
    "bench/suites.h": ("#define KVPROOF_SUITES(ROW)", """\\
  ROW(added_suite, "added by a test") """),
    "bench/studies/studies.h": ("#define KVPROOF_STUDIES(ROW)", """\\
  ROW(added_study, nothing, "added by a test") """),
    "bench/storage/storage.h": ("inline constexpr StorageRow kStorages[] = {", """
    {.name = "added_storage", .sentence = "added by a test", .contiguous = true,
     .needs_ids = false, .make = &contiguous_memory<reference::Reservation::oracle>},"""),
    "bench/requests/workloads.h": ("inline constexpr Workload kWorkloads[] = {", """
    {"added_workload", "added by a test", "nobody's", 20, 20, &open_lognormal, 0},"""),
    "bench/hit_rate/policies.h": ("inline constexpr EvictionPolicy kEvictionPolicies[] = {", """
    {"added_policy", "added by a test", true, nullptr},"""),
}

FILES = {
    "bench/allocator/added_bench.cpp": LICENCE + """// A suite that a test adds.
#include "bench/suites.h"
#include "kernels/kernels.h"

namespace kvproof::bench {

std::vector<std::string> added_suite_cases(const BenchOptions&) { return {"added_suite/case"}; }
std::vector<Result> run_added_suite_suite(std::span<const std::string>, const BenchOptions&) {
  std::string kernels;
  kernels::for_each_kernel([&](const auto& row) { kernels += std::string(row.name) + " "; });
  return {{"added_suite", {{"kernels", kernels}}, {{"answer", {42, "count", {}, {}}}}}};
}

}  // namespace kvproof::bench
""",
    "bench/studies/added.cpp": LICENCE + """// A study that a test adds.
#include "bench/studies/studies.h"

namespace kvproof::bench {

std::vector<Result> added_study(const StudyOptions&) {
  return {{"added_study", {{"at", std::int64_t{7}}}, {{"answer", {42, "count", {}, {}}}}}};
}

}  // namespace kvproof::bench
""",
    "reports/figures/added.py": '''# SPDX-License-Identifier: Apache-2.0
"""A figure that a test adds."""

from experiments import AMOUNT, COUNT, Experiment
from figures import drawing as d
from figures.plot import Plot, plain_table

EXPERIMENTS = {"added_study": Experiment({"at": COUNT}, {"answer": AMOUNT}, {}, most=1)}


def draw(results, width):
    figure = d.new_figure(width, 100)
    d.place(figure, 20, 20, 60, 60).plot([r["at"] for r in results], [1], marker="o")
    return figure


PLOT = Plot("added-figure", "added_study", "kvproof-study added_study", draw,
            lambda results: "A test has added this", "", "", plain_table)
''',
}


def copy_tree(copy):
    """Writes what differs only, so that a second run builds little."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True)
    for name in filter(None, names.stdout.decode().split("\0")):
        if name.startswith("reports/gallery/") or not (ROOT / name).is_file():
            continue
        data = (ROOT / name).read_bytes()
        for anchor, row in zip(ROWS.get(name, ())[::2], ROWS.get(name, ())[1::2]):
            text = data.decode()
            assert text.count(anchor) == 1, f"{name}: expected '{anchor}' once"
            data = text.replace(anchor, anchor + row).encode()
        put(copy / name, data)
    for name, text in FILES.items():
        put(copy / name, text.encode())


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def run(*command, codes=(0,)):
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert end.returncode in codes, f"{command}: exit {end.returncode}\n{end.stdout}{end.stderr}"
    return end.stdout + end.stderr


def sees(text, *words):
    for word in words:
        assert word in text, f"expected {word} in:\n{text[-2000:]}"
        print("seen:", word)


def main(work, compiler):
    for tool in ("git", "ninja"):
        if not shutil.which(tool):
            print(f"skipped: no {tool}")
            return 77
    if not (ROOT / ".git").exists():
        print("skipped: this is no checkout")
        return 77
    copy, build = work / "tree", work / "build"
    copy_tree(copy)
    run("cmake", "-S", copy, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O0", "-DKVPROOF_TESTS=OFF",
        "-DKVPROOF_WERROR=OFF")  # as the wheel is built, which wheel_test.py makes of it
    run("cmake", "--build", build, "--target", "kvproof_verbs")
    verb = {name: build / "bin" / f"kvproof-{name}"
            for name in ("bench", "check", "gate", "replay", "study")}

    for name in ("added_class", "added_manager"):
        sees(run(verb["check"], f"--subject={name}", "--operations=30", codes=(0, 3)), name)
    sees(run(verb["check"], "--subject=added_class", "--configuration=added_configuration"),
         "Z1", "operations: added_class")  # an unknown configuration is a usage error
    sees(run(verb["check"], "--mutants", "--mutant=B999", "--mutant=P999"),
         "2 of 2 killed, 2 by the expected law")
    sees(run(verb["check"], "--exhaustive", "--space=added_space"), "added_space")
    sees(run(verb["bench"], "--filter=^added_suite"), "added_suite", "answer", "added_kernel")
    if shutil.which("valgrind"):
        sees(run(verb["gate"], "--subject=added_manager", "--against=added_manager", "--no-time",
                 "--workload=added_workload"), "added_workload")
    out = work / "study.json"
    run(verb["study"], "added_study", "live_memory", "waste_against_block_size", "eviction",
        "--smoke", f"--json={out}")
    sees(json.dumps(json.loads(out.read_text())), "added_study", "added_storage", "added_workload",
         "added_policy")
    if subprocess.run([sys.executable, "-c", "import matplotlib"], capture_output=True).returncode:
        print("not seen: added-figure (no matplotlib)")
    else:
        run(verb["study"], "added_study", f"--json={out}")
        run(sys.executable, copy / "reports/draw_figure.py", out, "--figure=added-figure",
            f"--output={work / 'added.svg'}")
        sees((work / "added.svg").read_text(), "<svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
