# SPDX-License-Identifier: Apache-2.0
"""Each trait: an engine that does so is found out without it, holds with it, and is found out again
when it abuses it.

    traits_test.py KVPROOF-CHECK
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# They change what is asked.
NOT_WORDED = ("lookup=within_allocate", "granularity=token", "granularity=partial")


def check(program, folder, *words):
    command = " ".join(["python3", "-B", os.path.join(HERE, "trait_engine.py"), *words])
    done = subprocess.run([program, f"--subject-command={command}", "--operations=500",
                           "--findings=3"],
                          cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def rows_of_the_list():
    """TRAIT=VALUE of each row of traits.h, but for the first values."""
    with open(os.path.join(HERE, "..", "..", "caller", "traits.h"), encoding="utf-8") as source:
        text = source.read()
    found, trait = [], None
    for name in re.findall(r'\{"(\w+)",', text):
        if f'    {{"{name}",\n     {{{{{{"' in text:
            trait, first = name, True
            continue
        if not first:
            found.append(f"{trait}={name}")
        first = False
    return found


def main():
    wrong, program = [], os.path.abspath(sys.argv[1])

    def expect(what, found, code, *texts):
        if found[0] != code or any(text not in found[1] for text in texts):
            wrong.append(f"{what}: expected exit {code} and {texts}, found {found[0]}\n{found[1]}")

    ways = rows_of_the_list()
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as readme:
        page = readme.read()
    wrong += [f"README.md does not name {word}" for way in ways for word in way.split("=")
              if f"`{word}`" not in page]
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            trait, value = way.split("=")
            if way not in NOT_WORDED:
                stated = "newest_keeps" if value == "free_first" else value  # the first that does
                hint = f'if intended: "traits":{{"{trait}":"{stated}"}}'
                expect(way + " not declared", check(program, folder, way), 1, hint)
            held = check(program, folder, way, "declare")
            expect(way, held, 0, "HOLDS: ", f'judged with its traits: "{trait}":"{value}"')
            expect(way + " abused", check(program, folder, way, "declare", "abuse"), 1)
            print(way, "is exempted, and not abused")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
