# SPDX-License-Identifier: Apache-2.0
"""The page, the comparison of machines, and the programs that draw them."""
