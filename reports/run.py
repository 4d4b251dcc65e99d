#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures and draws; kvproof report calls it by run.sh."""
from kvproof_report.__main__ import start

if __name__ == "__main__":
    start("run")
