#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the page: python3 reports/make_page.py DIR/*.json --output=DIR/report.html"""
from kvproof_report.__main__ import start

if __name__ == "__main__":
    start("make_page")
