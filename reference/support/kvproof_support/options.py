# SPDX-License-Identifier: Apache-2.0
"""The command line of a verb that is written in Python: errors of one line, and exit code 2."""

from __future__ import annotations

import argparse
import os
import textwrap
from typing import Any, Callable, NoReturn

from kvproof_support import results
from kvproof_support.files import OutputError, put


OUTPUTS = {"json": "also write the results to this file",
           "junit": "also write the verdicts to this file, as JUnit's XML",
           "sarif": "also write the findings to this file, as SARIF",
           "bmf": "also write the metrics to this file, for Bencher"}


class Parser(argparse.ArgumentParser):
    """@param example: a command line; exit_codes: what they mean. Both end the help."""

    def __init__(self, prog: str, example: str, exit_codes: str, **other: Any):
        ends = [f"Example: {example}", *textwrap.wrap(f"Exit codes: {exit_codes}.", 78)]
        super().__init__(prog=prog, allow_abbrev=False, epilog="\n".join(ends),
                         formatter_class=argparse.RawDescriptionHelpFormatter, **other)
        self.register("action", None, Once)
        self.register("type", None, something)

    def outputs(self, *kinds: str) -> None:
        """Adds --json, and options for the other kinds of files that a verb writes."""
        for kind in ("json", *kinds):
            self.add_argument(f"--{kind}", metavar="FILE", type=output, help=OUTPUTS[kind])

    def judges(self) -> None:
        """Adds the options of a verb that judges."""
        self.add_argument("--known", metavar="FILE", action="append", default=[],
                          help="findings that are expected, one a line, repeatable")
        self.outputs("junit", "sarif")

    def read(self, check: Callable[[Any], None] = lambda _: None) -> Any:
        """@return the options of a verb. The launcher asks by --check-options, before it builds,
        whether they are right: then the process ends here.
        @param check looks at what is no matter of one option"""
        self.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
        options = self.parse_args()
        check(options)
        if options.check_options:
            self.exit(0)
        results.describe()  # what prints the results is there, before anything takes long
        return options

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog.removesuffix('.py')}: {message} (see: {self.prog} --help)\n")

    def print_help(self, file: Any = None) -> None:
        try:
            put(self.format_help())
        except OutputError as error:
            self.exit(2, f"{self.prog.removesuffix('.py')}: {error}\n")


class Once(argparse.Action):
    """What an option without another action does: it takes one value, and is given once."""
    is_given = False

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        if option_string and self.is_given:
            parser.error(f"{option_string} is given twice; expected once")
        self.is_given = True
        setattr(namespace, self.dest, values)


def something(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a value")
    return text


def output(text: str) -> str:
    """The type of an option that names a file: that it can be written is known before there are
    results."""
    path = something(text)
    there = path if os.path.exists(path) else os.path.dirname(os.path.abspath(path))
    if not os.access(there, os.W_OK) or os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path}: cannot be written")
    return path


def whole(least: int, most: int = 2 ** 53) -> Callable[[str], int]:
    """@return the type of an option that is a whole number"""
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, "
                                             f"found {text}")
        return int(text)
    return read
