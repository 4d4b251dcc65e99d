#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares machines: python3 reports/compare.py reports/gallery/*/ results"""
from kvproof_report.__main__ import start

if __name__ == "__main__":
    start("compare")
