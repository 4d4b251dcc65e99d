# SPDX-License-Identifier: Apache-2.0
"""Result files in, one page out. The rooms and their order are in reports/README.md."""

import sys
from pathlib import Path

# What all verbs in Python share: in a checkout it lies here, in an installation beside this.
sys.path.append(str(Path(__file__).resolve().parents[2] / "reference" / "support"))
