# SPDX-License-Identifier: Apache-2.0
"""Serves tiny random models by transformers' continuous batching, and compares with generate.

Runs in an environment that has transformers and torch, with KVPROOF_LIVE=WHERE for the recordings:

    transformers_run.py --seconds=10 --seed=1

Each round makes a model and a pool that is too small for its requests, of which many share
prefixes; every second round asks for two answers to each prompt, which forks them. Prints one line
of JSON, and ends with 1 if an answer differs from that of generate. It cancels nothing and asks
for no prompt of one token, because of the defects that transformers_confirm.py shows.
"""

import argparse
import json
import random
import sys
import time

import torch
from transformers import (ContinuousBatchingConfig, Gemma3ForCausalLM, Gemma3TextConfig,
                          GenerationConfig, LlamaConfig, LlamaForCausalLM)
from transformers.utils import logging

from kvproof.live.transformers import attach

BASE = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512}
HYBRID = {"num_hidden_layers": 4, "sliding_window": 24,
          "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
ROUNDS = [(page, hybrid, answers) for page in (16, 8) for answers in (1, 2)
          for hybrid in (False, True)]
REQUESTS, LONGEST, ANSWER = 16, 90, 24  # in a round; tokens


def model_of(hybrid, seed):
    torch.manual_seed(seed)
    if hybrid:
        return Gemma3ForCausalLM(Gemma3TextConfig(**BASE, **HYBRID)).eval()
    return LlamaForCausalLM(LlamaConfig(**BASE, num_hidden_layers=2)).eval()


def prompts(draw):
    """@return prompts that begin as one of three others do"""
    def words(length):
        return [draw.randrange(256) for _ in range(length)]
    starts = [words(LONGEST // 2) for _ in range(3)]
    half = LONGEST // 2
    return [draw.choice(starts)[:draw.randrange(1, half)] + words(draw.randrange(1, half))
            for _ in range(REQUESTS)]


def play(page, hybrid, answers, seed):
    """@return for each answer of the batch whether it is equal to that of generate"""
    draw, model = random.Random(seed), model_of(hybrid, seed)
    greedy = {"max_new_tokens": ANSWER, "do_sample": False, "eos_token_id": -1, "pad_token_id": 0}
    asked = prompts(draw)
    # As many blocks as the three longest requests need.
    pool = ContinuousBatchingConfig(page_size=page, num_blocks=3 * (LONGEST + ANSWER) // page,
                                    max_batch_tokens=64, safety_margin=0.0)
    config = GenerationConfig(**greedy)
    config.num_return_sequences = answers  # its constructor wants samples for it
    got = model.generate_batch(asked, config, pool)
    alone = {}
    for tokens in asked:
        ids = torch.tensor([tokens])
        out = model.generate(ids, GenerationConfig(**greedy), attention_mask=torch.ones_like(ids))
        alone[tuple(tokens)] = out[0, len(tokens):].tolist()
    equal = [each.generated_tokens == alone[tuple(each.prompt_ids)] for each in got.values()]
    return equal + [False] * (len(asked) * answers - len(equal))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    logging.set_verbosity_error()
    end, rounds, equal = time.monotonic() + asked.seconds, 0, []
    with attach():
        while rounds == 0 or time.monotonic() < end:
            equal += play(*ROUNDS[rounds % len(ROUNDS)], asked.seed * 1000 + rounds)
            rounds += 1
    print(json.dumps({"engine": "transformers", "rounds": rounds, "requests": len(equal),
                      "equal": sum(equal), "unequal": len(equal) - sum(equal)}))
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
