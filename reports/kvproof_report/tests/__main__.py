# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of one module, which it is given; ends with 77 where they need matplotlib."""

import sys
import unittest

try:
    unittest.main("kvproof_report.tests." + sys.argv.pop(1).removesuffix(".py"))
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    print("skipped: matplotlib is not installed (Debian: python3-matplotlib)")
    sys.exit(77)
