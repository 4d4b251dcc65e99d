#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel, installs it into a fresh virtual environment, and uses what it brought.

    wheel_test.py <sources> <work folder> <compiler>

It needs PyPI for the build backend, and is skipped with the reason where there is none.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ADAPTER = """
import kvproof

class Nothing(kvproof.Adapter):
    def begin(self, config):
        return {"unsupported": True, "reason": "an adapter of the installed package"}

Nothing().serve()
"""


def run(*command, codes=(0,)):
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert end.returncode in codes, f"{command}: exit {end.returncode}\n{end.stdout}{end.stderr}"
    return end.stdout + end.stderr


def skip(reason):
    print(f"skipped: {reason}")
    return 77


def environment(folder):
    """The python of a fresh virtual environment; None where this python cannot make one."""
    try:
        venv.create(folder, with_pip=True, clear=True)
    except (subprocess.CalledProcessError, OSError):
        return None
    return folder / "bin" / "python"


ATTACHES = """
import importlib.metadata, json, os, sys
from kvproof.live import Recorder
plugins = [each.value for each in importlib.metadata.distribution("kvproof").entry_points
           if each.group == "vllm.general_plugins"]
assert plugins == ["kvproof.live.vllm:register"], plugins
os.environ["KVPROOF_LIVE_JUDGE"], sys.stderr = sys.argv[1] + " live -", sys.stdout
recorder = Recorder("judge")
with open(sys.argv[2], encoding="utf-8") as lines:
    for line in lines:
        recorder.emit(json.loads(line))
recorder.close()
"""


def main(sources, work, compiler):
    for folder in ("builder", "dist", "fresh"):  # its build folder makes a second run short
        shutil.rmtree(work / folder, ignore_errors=True)
    builder = environment(work / "builder")
    if builder is None:
        return skip("python3 cannot make a virtual environment (Debian: python3-venv)")
    asked = subprocess.run(
        [builder, "-m", "pip", "install", "--quiet", "scikit-build-core>=0.10,<2"],
        capture_output=True, text=True)
    if asked.returncode != 0:
        return skip("scikit-build-core cannot be had from PyPI")
    run(builder, "-m", "pip", "wheel", sources, "--no-deps", "--no-build-isolation",
        f"--wheel-dir={work / 'dist'}", f"--config-settings=build-dir={work / 'build'}",
        "--config-settings=cmake.build-type=None", f"--config-settings=cmake.define."
        f"CMAKE_CXX_COMPILER={compiler}", "--config-settings=cmake.define.CMAKE_CXX_FLAGS=-O0")
    wheel, = (work / "dist").glob("kvproof-*.whl")
    print("built:", wheel.name, f"{wheel.stat().st_size / 1e6:.1f} MB")

    python = environment(work / "fresh")
    run(python, "-m", "pip", "install", "--no-index", wheel)
    kvproof = work / "fresh" / "bin" / "kvproof"
    said = run("sh", sources / "kvproof", "--version")
    assert run(kvproof, "--version") == said, said
    assert f"-{said.split()[1].replace('-dev', '.dev0')}-" in wheel.name, (said, wheel.name)
    assert "holds" in run(kvproof, "check", "--subject=optimized-xxh3", "--operations=300",
                          codes=(0, 3)).lower()
    example = work / "fresh" / "share" / "kvproof" / "foreign" / "adapter.py"
    said = run(kvproof, "check", f"--subject-command={python} {example}", "--operations=200",
               codes=(0, 3))
    print("seen:", next(line for line in said.splitlines() if "holds" in line.lower()))
    adapter = work / "adapter.py"
    adapter.write_text(ADAPTER, encoding="utf-8")
    said = run(kvproof, "check", f"--subject-command={python} {adapter}", codes=(2, 3))
    assert "an adapter of the installed package" in said, said
    run(kvproof, "plan", "--list")
    said = run(python, "-c", ATTACHES, kvproof, sources / "properties/shadow/runs/sound.jsonl")
    assert "holds (" in said, said
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(word) for word in sys.argv[1:4])))
