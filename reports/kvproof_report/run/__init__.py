# SPDX-License-Identifier: Apache-2.0
"""Measures one part after the other, then draws the page."""
