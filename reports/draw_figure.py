#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one figure: python3 reports/draw_figure.py FILE.json --figure=NAME --output=a.png"""
from kvproof_report.__main__ import start

if __name__ == "__main__":
    start("draw_figure")
