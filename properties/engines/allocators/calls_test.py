#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the calls of vLLM's own manager (kvproof/live/calls.py) while our adapter makes those of
our recordings, and has the recordings replayed and judged; and calls that only engines make.

    calls_test.py KVPROOF-REPLAY

KVPROOF_VLLM_PYTHON names the interpreter that has vLLM; exits 77 with the reason without.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
from importlib import metadata

from record import of_installed, read

UNSEEN = {"take", "touch", "release", "common_prefix"}  # asked of the pool, or not recorded


def traces(path):
    """@return the traces of a recording, each as a list of lines"""
    out = []
    for line in map(json.loads, read(path)):
        if "kvproof_trace" in line:
            out.append([])
        out[-1].append(line)
    return out


def repeat(path):
    """The adapter makes the calls of a recording, of each trace to a new manager."""
    from vllm_adapter import VllmV1
    made = 0
    for header, *lines in traces(path):
        if {line["op"] for line in lines} & UNSEEN:
            continue
        adapter = VllmV1()
        assert "unsupported" not in adapter.greet(header), header
        for line in lines[:-1]:
            getattr(adapter, "do_" + line["op"])(line, adapter.requests.get(line.get("req")))
        made += 1
    return made


def engine_calls():
    """A free that a step defers, a call that raises, and what the format has no words for."""
    from vllm_adapter import VllmV1
    config = {"num_blocks": 9, "enable_caching": True, "max_model_len": 64, "hash_block_size": 4,
              "groups": [{"kind": "full", "block_size": 4}]}
    adapter = VllmV1()
    adapter.begin(config)
    manager, pool = adapter.manager, adapter.manager.block_pool
    for name in "ab":
        adapter.do_arrive({"req": name, "tokens": [1, 2, 3, 4, 5]}, None)
        manager.allocate_slots(adapter.requests[name], 5)
        adapter.requests[name].num_computed_tokens = 5
    held = manager.pop_blocks_for_free(adapter.requests["a"])
    adapter.requests["a"].num_computed_tokens = 0
    manager.new_step_starts()
    pool.free_blocks(reversed(held))
    manager.free(adapter.requests["b"])
    adapter.requests["b"].num_computed_tokens = 0
    adapter.begin(config)
    adapter.do_arrive({"req": "c", "tokens": [1]}, None)
    try:
        adapter.manager.allocate_slots(adapter.requests["c"], 0)
        raise SystemExit("a call without tokens was granted")
    except ValueError:
        pass
    adapter.begin(config)
    adapter.do_arrive({"req": "d", "tokens": [1]}, None)
    adapter.manager.allocate_slots(adapter.requests["d"], 1, num_encoder_tokens=1)


def child():
    """In an interpreter that has vLLM. The first argument names a recording, or is empty."""
    os.environ |= {"PYTHONHASHSEED": "0", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"}
    from kvproof import without_torch
    without_torch.install()
    import vllm
    from kvproof.live import calls
    vllm.__version__ = metadata.version("vllm")  # which without torch it does not say
    calls.wrap(os.environ["KVPROOF_LIVE"])
    path, sys.argv[1:] = sys.argv[2], []
    print(repeat(path) if path else engine_calls())


def record(python, detail, path):
    """@return the folder with the recordings"""
    folder = tempfile.mkdtemp(dir=WORK.name)
    environment = dict(os.environ, KVPROOF_LIVE=folder, KVPROOF_LIVE_CALLS=detail)
    subprocess.run([python, "-B", __file__, "--child", path], env=environment, check=True)
    return sorted(glob.glob(os.path.join(folder, "*.jsonl")), key=lambda name: (len(name), name))


def replay(program, *words):
    end = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return end.returncode, end.stdout + end.stderr


def main():
    program = sys.argv[1]
    python = os.environ.get("KVPROOF_VLLM_PYTHON") or sys.executable
    _, path = of_installed(python)
    if not path:
        print(f"skipped: {python} has no vLLM that is recorded")
        return 77
    for detail, laws in (("own", 11), ("full/7", 11), ("full", 30)):
        files = record(python, detail, path)
        code, said = replay(program, "--judge", *files)
        assert code == 0 and len(files) > 10, said[:4000]
        asked = [int(line.split(": ")[1].split()[0]) for line in said.splitlines()
                 if line.startswith("laws ")]
        assert len(asked) == len(files) and max(asked) >= laws, (detail, asked)
        print(f"{detail}: {said.splitlines()[-1]}")
    deferred, raised, unsaid = record(python, "full", "")
    code, said = replay(program, "--follow", "--idle=0.1", deferred)
    assert code == 0 and "laws hold" in said, said
    code, said = replay(program, "--judge", raised)
    assert code == 1 and said.count("the call raised in the engine: ValueError") == 2, said
    code, said = replay(program, "--judge", unsaid)
    assert code == 3 and "lines are missing: encoder tokens" in said, said
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child()
    else:
        WORK = tempfile.TemporaryDirectory()
        sys.exit(main())
