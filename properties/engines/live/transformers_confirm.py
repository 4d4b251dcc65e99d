# SPDX-License-Identifier: Apache-2.0
"""The shortest calls that end in what the findings about transformers say, without any judge.
What transformers_run.py serves leaves them out.

    transformers_confirm.py cancelled_while_blocked forked_of_one_token cancelled_in_flight
"""

import sys
import time
from types import SimpleNamespace

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.continuous_batching import (
    cache, continuous_api, distributed, requests, scheduler)


def model():
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)).eval()


def cancelled_while_blocked():
    """Of two requests that do not fit together one is put back; then the other is cancelled."""
    manager = model().init_continuous_batching(
        GenerationConfig(max_new_tokens=100, do_sample=False, eos_token_id=-1, pad_token_id=0),
        ContinuousBatchingConfig(page_size=16, num_blocks=8, max_batch_tokens=64))
    manager.start()
    manager.add_request([1] * 40, request_id="a")
    manager.add_request([2] * 40, request_id="b")
    while manager.batch_processor is None or (
            not manager.batch_processor.scheduler.block_new_requests):
        time.sleep(0.001)
    scheduler = manager.batch_processor.scheduler
    for name in list(scheduler.active_requests):
        manager.cancel_request(name)
    manager.add_request([3] * 8, request_id="c", max_new_tokens=1)
    answer = manager.get_result(timeout=10)
    print(f"after 10 s: answer {answer}, active {list(scheduler.active_requests)}, waiting "
          f"{list(scheduler.waiting_requests)}, block_new_requests {scheduler.block_new_requests}")
    for name in list(scheduler.waiting_requests):  # or its thread never ends
        manager.cancel_request(name)
    manager.stop()
    return answer is None


def forked_of_one_token():
    """Two answers to a prompt of one token, beside nothing else."""
    config = GenerationConfig(max_new_tokens=4, do_sample=True, num_return_sequences=2,
                              eos_token_id=-1, pad_token_id=0)
    pool = ContinuousBatchingConfig(page_size=16, num_blocks=8, max_batch_tokens=64)
    answers = model().generate_batch([[5]], config, pool)
    print({name: each.error for name, each in answers.items()})
    return any(each.error for each in answers.values())


def cancelled_in_flight():
    """With asynchronous batching, a request is cancelled while the step of its last token runs."""
    blocks = cache.PagedAttentionCache(
        LlamaConfig(num_hidden_layers=1, num_attention_heads=1, head_dim=32),
        ContinuousBatchingConfig(page_size=4, num_blocks=8, max_batch_tokens=64,
                                 max_memory_percent=0.9),
        "cpu", distributed.DistributedHelper(None, None))
    fifo = scheduler.FIFOScheduler(blocks, 0.0, 8)
    fifo.add_waiting_request(requests.RequestState("a", [1, 2, 3, 4]))
    batch, *_ = fifo.schedule_batch(64, 64)  # batch N is under way
    fifo.set_request_cancellation("a")
    fifo.clear_cancelled_requests()  # as batch N + 1 is prepared
    loop = object.__new__(continuous_api.ContinuousBatchProcessor)
    loop.use_async_batching, loop.scheduler, loop.cache = True, fifo, blocks
    loop.inputs_and_outputs = SimpleNamespace(prepare_batch_update=lambda: (batch, [5], None))
    try:
        loop.update_batch()  # of batch N
    except KeyError as error:
        print("KeyError:", error)
        return True
    return False


if __name__ == "__main__":
    CASES = {each.__name__: each for each in (
        cancelled_while_blocked, forked_of_one_token, cancelled_in_flight)}
    for case in sys.argv[1:]:
        print(case + ":", "confirmed" if CASES[case]() else "not seen", flush=True)
