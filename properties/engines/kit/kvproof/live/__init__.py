# SPDX-License-Identifier: Apache-2.0
"""Attaches the judge of runs to an engine that runs: `KVPROOF_LIVE=WHERE` in its environment.

vLLM finds the plugin by itself (vllm.register); transformers is attached by a call
(transformers.attach). What is written is described in properties/shadow/README.md of the sources.
"""

from kvproof.live.recorder import Recorder

__all__ = ["Recorder"]
