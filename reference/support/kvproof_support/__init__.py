# SPDX-License-Identifier: Apache-2.0
"""What all verbs that are written in Python share: options, files, rows, tasks and progress."""
