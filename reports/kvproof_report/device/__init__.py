# SPDX-License-Identifier: Apache-2.0
"""What the kernels did on a GPU: results out of lines, and their figures."""
