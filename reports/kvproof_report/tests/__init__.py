# SPDX-License-Identifier: Apache-2.0
"""The tests. python3 -m kvproof_report.tests page_test.py, called in reports/, runs a module."""
