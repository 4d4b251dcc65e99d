#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures and draws what kvproof report asks for, which calls it by run.sh."""
from kvproof_report.__main__ import start

if __name__ == "__main__":
    start("report")
