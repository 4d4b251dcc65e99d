# SPDX-License-Identifier: Apache-2.0
"""Result files in, one page out. The rooms and their order are in reports/README.md."""
