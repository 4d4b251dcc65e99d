# SPDX-License-Identifier: Apache-2.0
"""What every room knows: result files, experiments, parts, and how a script ends."""
