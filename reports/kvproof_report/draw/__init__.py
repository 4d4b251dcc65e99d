# SPDX-License-Identifier: Apache-2.0
"""How figures look, and what a figure is; no figure and no page."""
