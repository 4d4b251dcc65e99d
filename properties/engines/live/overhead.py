# SPDX-License-Identifier: Apache-2.0
"""What the plugin costs a step of vLLM with 32 requests: paired rounds, with it and without.

    KVPROOF_LIVE=/dev/null PYTHONPATH=../kit PYTHON overhead.py [ROUNDS [LAYERS]]

with the Python of `live --engine`.

One engine serves the same requests in each round. Between rounds, while it has none, the wrapped
methods are exchanged for those that they wrap, and back.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

import models
from kvproof.live import hooks

BATCH, PROMPT, ANSWER = 32, 100, 200


def noticed(wrapped):
    """Has each replaced method noted: its owner, its name, ours, and the engine's."""
    around = hooks.around

    def noting(owner, name, called):
        before = vars(owner).get(name)
        around(owner, name, called)
        after = vars(owner).get(name)
        if after is not before:
            wrapped.append((owner, name, after, before))
    for module in list(sys.modules.values()):
        if getattr(module, "around", None) is around:
            module.around = noting


def main():
    rounds, layers = map(int, (*sys.argv[1:], *("10", "2")[len(sys.argv) - 1:]))
    wrapped = []
    from kvproof.live import vllm
    noticed(wrapped)
    vllm.register()
    from vllm import LLM, SamplingParams
    models.CONFIGS["full"]["num_hidden_layers"] = layers
    with tempfile.TemporaryDirectory() as folder:
        engine = LLM(**models.options("full", "sync", folder, 32) | {
            "num_gpu_blocks_override": 1000, "max_num_seqs": BATCH})
    core, steps = engine.llm_engine.engine_core.engine_core, [0]
    step = core.step_fn

    def counted(*values, **named):
        steps[0] += 1
        return step(*values, **named)
    core.step_fn = counted
    draw, params = random.Random(1), SamplingParams(
        max_tokens=ANSWER, ignore_eos=True, detokenize=False, temperature=0.0)

    def milliseconds():
        prompts = [{"prompt_token_ids": [draw.randrange(3, 999) for _ in range(PROMPT)]}
                   for _ in range(BATCH)]
        steps[0], wall, cpu = 0, time.perf_counter(), time.process_time()
        engine.generate(prompts, params, use_tqdm=False)
        took = time.perf_counter() - wall, time.process_time() - cpu
        return [1000 * each / steps[0] for each in took]
    milliseconds()
    with_it, without = [], []
    for number in range(2 * rounds):
        on = number % 4 in (0, 3)
        for owner, name, ours, theirs in wrapped:
            setattr(owner, name, ours if on else theirs)
        (with_it if on else without).append(milliseconds())
    for i, what in enumerate(("wall time", "CPU time, all threads")):
        ratios = sorted(a[i] / b[i] for a, b in zip(with_it, without))
        print(json.dumps({
            "what": what, "layers": layers,
            "without_ms": round(statistics.median(b[i] for b in without), 3),
            "with_ms": round(statistics.median(a[i] for a in with_it), 3),
            "ratio": round(statistics.median(ratios), 3),
            "quartiles": [round(each, 3) for each in statistics.quantiles(ratios, n=4)[::2]]}))


if __name__ == "__main__":
    main()
